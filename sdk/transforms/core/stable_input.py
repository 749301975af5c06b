"""When: elements that a step receives only after a commit, so that a repetition of the step receives the same ones.

A step that renames files must not run with elements that another attempt at the epoch might make otherwise (Beam's
annotation `RequiresStableInput`). Its input is therefore part of a commit first, and reaches it in a later epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from headrace.lowlevel.records.record import Record
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import Computation, Context
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection, PCollection
from headrace.sdk.graph.side_inputs import AsSideInput
from headrace.sdk.model.special_outputs import WindowedValue
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.sdk.transforms.core.par_do import ParDo

Held = tuple[WindowedValue, tuple[object, ...]]
"""An element that waits for a commit, and its side values."""


@named("HoldUntilCommit")
class HoldUntilCommit(Computation):
    """Sends records on in the epoch after the one in which they came; the output watermark waits for them.

    The state is a dict of records and timestamps by the wall time of the epoch in which they came.
    """

    def __init__(self, output_stream: str) -> None:
        self._output_stream = output_stream

    def process_record(self, record: Record, context: Context) -> None:
        """Keep a record until the wall clock has moved on."""
        kept = cast("dict[int, list[tuple[object, int]]]", {} if context.state is None else context.state)
        of_epoch = kept.setdefault(context.wall_time, [])
        of_epoch.append((record.value, record.timestamp))
        context.state = kept
        hold = min(timestamp for _, timestamp in of_epoch)
        context.set_timer(str(context.wall_time), context.wall_time + 1, TimeDomain.WALL_TIME, hold)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Send the records of an earlier epoch."""
        kept = cast("dict[int, list[tuple[object, int]]]", context.state)
        for value, timestamp in kept.pop(int(timer.tag)):
            context.produce(self._output_stream, value, timestamp)
        context.state = kept or None


@named("Gather")
class _Gather(DoFn):
    """An element and its side values -> a value that contains everything about them."""

    def process(
        self, element: object, *sides: object, value: WindowedValue = DoFn.WindowedValueParam
    ) -> Iterator[Held]:
        """The value for an element."""
        yield value, sides


class StableParDo(PTransform[Collection, Collection]):
    """A `ParDo` with stable input: its elements and side values are committed before it receives them.

    Args:
        fn: The DoFn. It receives each element as `Held`, without side values, and puts out `WindowedValue`s.
        *sides: The side inputs.
    """

    def __init__(self, fn: DoFn, *sides: AsSideInput) -> None:
        super().__init__()
        self._fn, self._sides = fn, sides

    def expand(self, inputs: Collection) -> Collection:
        """The outputs, with the windowing of the input."""
        stream = f"{inputs.pipeline.current_label}/Committed"
        held = inputs | "Gather" >> ParDo(_Gather(), *self._sides)
        committed = held | "Commit" >> RunComputation(HoldUntilCommit(stream), _no_key, stream)
        return cast(Collection, committed) | "Process" >> _InWindowsOf(inputs, self._fn)


class _InWindowsOf(ParDo):
    """A `ParDo` whose outputs are in the windows of another collection than its input."""

    def __init__(self, collection: Collection, fn: DoFn) -> None:
        super().__init__(fn)
        self._collection = collection

    def expand(self, inputs: Collection) -> Collection:
        """See `ParDo`."""
        super().expand(inputs)
        return PCollection.like(self._collection)


def _no_key(value: object) -> str:
    return ""
