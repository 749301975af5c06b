"""Keyed computations in a topology: groupings with what combines before them, and side inputs with their gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias, cast

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.injectors.injector import BoundedInjector
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import Computation, InlineComputation
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, Fanout
from headrace.sdk.compiler.execution_strategy import Grouper, GroupingStrategy, Lifting
from headrace.sdk.expressions.join_keys import JoinKeyOf
from headrace.sdk.functions.matched import Assembled, Matched
from headrace.sdk.graph.pvalue import Step
from headrace.sdk.graph.side_inputs import AsSideInput
from headrace.sdk.model.element_form import ElementForm, GroupingInputForm
from headrace.sdk.operators.combining.aggregates import reducers_of
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine
from headrace.sdk.operators.combining.hot_key_fanout import Shards, Spread
from headrace.sdk.operators.combining.session_lifting import SessionLifting
from headrace.sdk.operators.grouping.drain_mark import DrainMark
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.grouping.late_data import LateData
from headrace.sdk.operators.side_inputs.gate import Gate, SideArgument
from headrace.sdk.operators.side_inputs.gate_inputs import Sharding, SideGrouping, Tell, no_key
from headrace.sdk.operators.side_inputs.window_mapping import SideExpiry, SideWindows
from headrace.sdk.operators.vectorized.column_group_by_key import ColumnGroupByKey
from headrace.sdk.operators.vectorized.column_grouping import ColumnGrouping
from headrace.sdk.operators.vectorized.column_join import ColumnCoGroup, ColumnJoin
from headrace.sdk.operators.vectorized.eligibility import gap_of
from headrace.sdk.operators.vectorized.sessions import ColumnSessions
from headrace.sdk.operators.vectorized.state_migration import records_of_segments
from headrace.sdk.transforms.core.group_by_key import CombineByKey, GroupByKey
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
    made: Assembled | Matched | None = None
    """What is made of the groups, if the step is part of a `CoGroupByKey` or `Join`."""
    is_drained: bool = False
    """Whether the input ends by a drain."""
    joining: Sequence[Step] = ()
    """The steps behind the grouping whose work a `ColumnCoGroup` or `ColumnJoin` does, too."""


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
        dict.fromkeys(streams, JoinKeyOf() if isinstance(plan.made, Matched) else key_of),
        [plan.label],
        watermark_percentile=plan.transform.watermark_percentile,
        key_encoding=plan.transform.key_encoding,
        at_end=DrainMark() if plan.is_drained else None,
    )


def _grouping(plan: GroupingPlan, streams: Streams) -> Computation:
    combine = shipped(plan.combine, plan.label)
    if plan.strategy.grouper is Grouper.JOIN:
        labels = [step.full_label for step in plan.joining]
        if isinstance(plan.made, Matched):
            return ColumnJoin(plan.windowing, streams, plan.label, plan.made, labels)
        assert plan.made is not None, "the caller has asked for a join"
        return ColumnCoGroup(plan.windowing, streams, plan.label, plan.made, labels[0])
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


def add_side_input(
    topology: Topology,
    name: str,
    windowing: Windowing,
    streams: Mapping[str, GroupingInputForm],
    takes_back: bool,
    readers: Sequence[str],
) -> None:
    """Add the computations that make a side input of a collection.

    Args:
        topology: The topology to add to.
        name: The name of the side input; its streams have names that begin with it.
        windowing: The windowing of the collection.
        streams: Streams with its elements, and how they carry windows.
        takes_back: Whether some elements may be retractions.
        readers: Labels of the steps that read it.
    """
    begin, panes = f"{name}#begin", f"{name}#panes"
    topology.injector(begin, BoundedInjector([(None, MIN_TIMESTAMP)]))
    grouping = SideGrouping(windowing, streams, begin, panes, takes_back, readers)
    topology.computation(name, grouping, dict.fromkeys([*streams, begin], no_key), [panes])
    topology.inline(f"{name}#tell", Tell(windowing, _messages(name)), [panes], [_messages(name)])


def add_gate(
    topology: Topology,
    label: str,
    main: Windowing,
    sides: Sequence[tuple[str, AsSideInput]],
    entry: str,
    may_retract: bool,
    late: LateOutput | None = None,
) -> str:
    """Add the gate of a step whose main input comes on `entry`; returns the stream of elements that pass it.

    Args:
        topology: The topology to add to.
        label: The label of the step.
        main: The windowing of its main input.
        sides: Its side inputs in the order of its arguments, each with the name under which it was added.
        entry: Stream of elements in the form WINDOWED.
        may_retract: Whether some of the elements may be retractions.
        late: Where elements go that the gate drops as late; None if nothing reads them.
    """
    sharded, ready = f"{label}#sharded", f"{label}#ready"
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name, _ in sides))}
    windowings = {name: side.pvalue.windowing for name, side in sides}
    windows = [SideWindows(windowings[name], main) for name in numbers]
    streams = {_messages(name): number for name, number in numbers.items()}
    arguments = [
        SideArgument(f"side input {place} ({side!r})", numbers[name], side.make)
        for place, (name, side) in enumerate(sides, 1)
    ]
    if late is not None:
        forms, closes = {entry: ElementForm.WINDOWED}, SideExpiry(windows)
        dropped = LateData(main, forms, late.stream, has_keys=late.has_keys, is_gate=True, closes=closes)
        topology.inline(f"{label}#gate late", dropped, [entry], [late.stream], step=f"{label}#gate")
    takes_back = may_retract and not all(windowing.puts_out_once for windowing in windowings.values())
    topology.inline(sharded, Sharding(sharded, topology.key_coder, takes_back), [entry], [sharded])
    gate = Gate(label, windows, streams, arguments, ready, takes_back)
    topology.computation(f"{label}#gate", gate, dict.fromkeys([sharded, *streams], key_of), [ready], aside=streams)
    return ready


class LateOutput(NamedTuple):
    """Where elements go that a step drops as late."""

    stream: str
    has_keys: bool
    """Whether the elements are pairs of key and value."""


def add_late_data(
    topology: Topology, label: str, windowing: Windowing, forms: Mapping[str, ElementForm], stream: str
) -> None:
    """Add what sends the elements that a keyed computation drops as late to a stream.

    Args:
        topology: The topology to add to.
        label: The label of the step, which is the name of the computation.
        windowing: The windowing of its input.
        forms: Input stream -> form of its pairs.
        stream: The stream of late elements.
    """
    topology.inline(f"{label}#late", LateData(windowing, forms, stream), list(forms), [stream], step=label)


def _messages(name: str) -> str:
    """The stream on which a side input sends its views."""
    return f"{name}#messages"
