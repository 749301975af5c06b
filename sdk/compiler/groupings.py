"""Groupings in a topology: what combines before the shuffle, what combines in shards, and the grouping itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias, cast

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.topology.computation import Computation, InlineComputation
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, Fanout
from headrace.sdk.compiler.execution_strategy import Grouper, GroupingStrategy, Lifting
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine
from headrace.sdk.operators.combining.hot_key_fanout import Shards, Spread
from headrace.sdk.operators.combining.session_lifting import SessionLifting
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.operators.vectorized.eligibility import gap_of
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.sdk.operators.vectorized.state_migration import records_of_segments
from headrace.sdk.transforms.core.combine_by_key import CombineByKey
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.windows.windowing import Windowing

Streams: TypeAlias = Mapping[str, GroupingInputForm]
"""Streams of pairs of key and payload, and how they carry windows."""
key_of = cast(KeyExtractor, itemgetter(0))
"""The key of a pair. Written in C: it is called for every record that goes to a grouping."""


@dataclass(frozen=True, slots=True)
class GroupingPlan:
    """A grouping step as the compiler knows it."""

    transform: GroupByKey | CombineByKey
    """The step's transform, for what the compiler passes on to `Topology.computation`."""
    label: str
    """The label of the step, which is also the name of the stream of its panes."""
    windowing: Windowing
    """The windowing of the step's input."""
    combine: AnyCombineFn | None
    """None if all elements are kept."""
    fanout: Fanout | None
    """Number of shards of a key, as the program asks for it."""
    takes_back: bool
    """Whether the input may have retractions."""
    strategy: GroupingStrategy
    """What `grouping_strategy` has chosen."""


def add_grouping(topology: Topology, plan: GroupingPlan, streams: Streams) -> None:
    """Add a grouping of the elements of some streams. Each computation sets up a copy of the CombineFn of its own."""
    combine, fanout, strategy = plan.combine, plan.fanout, plan.strategy
    if combine is not None and strategy.lifting is not Lifting.NOTHING:
        streams = _lift(topology, plan, combine, streams)
    if combine is not None and fanout is not None and strategy.fans_out:
        streams = _fan_out(topology, plan, combine, fanout, streams)
    topology.computation(
        plan.label,
        _grouping(plan, streams),
        dict.fromkeys(streams, key_of),
        [plan.label],
        watermark_percentile=plan.transform.watermark_percentile,
        key_encoding=plan.transform.key_encoding,
    )


def _grouping(plan: GroupingPlan, streams: Streams) -> Computation:
    combine = shipped(plan.combine, plan.label)
    if plan.strategy.grouper is Grouper.LISTS:
        return ColumnGroupByKey(plan.windowing, streams, plan.label)
    if combine is None or plan.strategy.grouper is Grouper.PER_KEY:
        return Grouping(plan.windowing, combine, streams, plan.label, plan.takes_back, records_of_segments)
    reducers = reducers_of(combine)
    assert reducers is not None, "obstacle() refuses other combiners"
    kind = ColumnSessions if plan.strategy.grouper is Grouper.SESSIONS else ColumnGrouping
    return kind(plan.windowing, combine, reducers, plan.label)


def _lift(topology: Topology, plan: GroupingPlan, combine: AnyCombineFn, streams: Streams) -> Streams:
    """Combine before the shuffle; returns the stream of accumulators."""
    lifted = f"{plan.label}#lifted"
    for stream, form in streams.items():
        lifting = _lifting(topology, plan, shipped(combine, plan.label), form, lifted)
        topology.inline(f"{stream} combined", lifting, [stream], [lifted], step=plan.label)
    return {lifted: GroupingInputForm.LIFTED}


def _lifting(
    topology: Topology, plan: GroupingPlan, combine: AnyCombineFn, form: GroupingInputForm, lifted: str
) -> InlineComputation:
    if plan.strategy.lifting is Lifting.WINDOWS:
        return LiftedCombine(plan.windowing, combine, form, lifted, topology.key_coder, plan.label)
    gap, reducers = gap_of(plan.windowing), reducers_of(combine)
    assert gap is not None and reducers is not None, "obstacle() refuses other combiners"
    return SessionLifting(combine, reducers, gap, form, lifted)


def _fan_out(
    topology: Topology, plan: GroupingPlan, combine: AnyCombineFn, fanout: Fanout, streams: Streams
) -> Streams:
    """Combine in shards of each key first; returns the stream of the shards' accumulators."""
    label, spread = plan.label, {}
    for stream, form in streams.items():
        spread[f"{stream} spread"] = form
        spreading = Spread(fanout, f"{stream} spread")
        topology.inline(f"{stream} spreading", spreading, [stream], [f"{stream} spread"], step=label)
    shards = Shards(plan.windowing, shipped(combine, label), spread, f"{label}#shards")
    inputs, outputs = dict.fromkeys(spread, key_of), [f"{label}#shards"]
    topology.computation(f"{label}#shards", shards, inputs, outputs, key_encoding=plan.transform.key_encoding)
    return {f"{label}#shards": shards.output_form}
