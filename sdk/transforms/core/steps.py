"""Kinds of steps in a compiled pipeline, for the compiler, recordings and diagrams."""

from __future__ import annotations

from typing import cast

from headrace.sdk.functions.declarations import DeclaredState, Splitting
from headrace.sdk.graph.pvalue import Collection, Step
from headrace.sdk.graph.side_inputs import AsSideInput
from headrace.sdk.transforms.core.group_by_key import CombineByKey, GroupByKey
from headrace.sdk.transforms.core.par_do import MultiParDo, ParDo
from headrace.sdk.transforms.core.window_into import WindowInto

FUSED = (ParDo, MultiParDo, WindowInto)
"""Transforms that run inside a stage, unless they are stateful or splittable."""


GROUPING = (GroupByKey, CombineByKey)
"""Transforms that the compiler turns into a keyed computation."""


def par_do_of(step: Step) -> ParDo:
    """The `ParDo` of a `ParDo` or `MultiParDo` step."""
    transform = step.transform
    return transform.par_do if isinstance(transform, MultiParDo) else cast(ParDo, transform)


def declared_state(step: Step) -> DeclaredState | None:
    """The state and timers that a step declares; None if the step is not a stateful `ParDo`."""
    return par_do_of(step).declared_state if isinstance(step.transform, (ParDo, MultiParDo)) else None


def splitting(step: Step) -> Splitting | None:
    """How a step splits elements; None if the step is not a splittable `ParDo`."""
    return par_do_of(step).splitting if isinstance(step.transform, (ParDo, MultiParDo)) else None


def runs_by_key(step: Step) -> bool:
    """Whether a step is a `ParDo` with a keyed computation of its own, as it is stateful or splittable."""
    return declared_state(step) is not None or splitting(step) is not None


def is_fused(step: Step) -> bool:
    """Whether a step runs inside a stage; a step with side inputs begins one."""
    return isinstance(step.transform, FUSED) and not runs_by_key(step)


def side_inputs_of(step: Step) -> list[AsSideInput]:
    """The side inputs of a step, in the order of its arguments."""
    return par_do_of(step).side_inputs if isinstance(step.transform, (ParDo, MultiParDo)) else []


def stream_of(collection: Collection) -> str:
    """The name of the stream for a collection: the full label of the producing step, and the tag."""
    producer = collection.producer
    assert producer is not None
    return producer.full_label if collection.tag is None else f"{producer.full_label}.{collection.tag}"
