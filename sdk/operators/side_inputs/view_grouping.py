"""When and how of a side input: its windows gathered pane by pane, and told to every shard of the gates that look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from headrace.lowlevel.computation import BundleComputation, Context, InlineComputation
from headrace.lowlevel.record import Batch, Emit
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.timer import Timer
from headrace.sdk.arrivals import InputForm
from headrace.sdk.frames import Frames
from headrace.sdk.mixedgrouping import MixedGrouping
from headrace.sdk.panes import PaneInfo
from headrace.sdk.sides.mapping import next_ready
from headrace.sdk.sides.messages import SHARD_KEYS, Message, Reached, View
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import BoundedWindow

_REACHED = "reached"
"""Tag of the timer that waits for the watermark to move on."""


def no_key(value: object) -> None:
    """The key of everything in a side input."""


class SideGrouping(BundleComputation):
    """Groups all of a side input's elements by window, and says when the watermark is where a window may be empty.

    Args:
        windowing: Of the side input; its trigger decides when a view is replaced.
        streams: Input stream -> how it carries windows.
        begin: Input stream with one record, which comes even if there are no elements.
        output: Stream of its panes, as a grouping puts them out, and of `Reached`.
        takes_back: Whether some elements may be retractions.
        readers: Steps that look at it; one that came later would wait for views that were told before.
    """

    def __init__(
        self,
        windowing: Windowing,
        streams: Mapping[str, InputForm],
        begin: str,
        output: str,
        takes_back: bool = False,
        readers: Sequence[str] = (),
    ) -> None:
        self._grouping = MixedGrouping(windowing, None, streams, output, takes_back)
        self._windowing, self._begin, self._output = windowing, begin, output
        self._readers = tuple(readers)

    def state_signature(self) -> Mapping[str, str]:
        """That of its grouping, and which steps have been told its views."""
        return {**self._grouping.state_signature(), "readers": ", ".join(self._readers)}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Add elements to their windows."""
        if stream == self._begin:
            self._watch(context)
        else:
            pairs = [(None, value) for value in batch.values]
            self._grouping.process_batch(stream, Batch(pairs, batch.timestamps), context)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Say how far the watermark is, or go on with a window."""
        if timer.tag == _REACHED:
            context.produce(self._output, Reached(context.watermark))
            self._watch(context)
        else:
            self._grouping.process_timer(timer, context)

    def finish_key(self, context: Context) -> None:
        """Put the panes out."""
        self._grouping.finish_key(context)

    def _watch(self, context: Context) -> None:
        due = next_ready(self._windowing, context.watermark)
        if due is not None:
            context.set_timer(_REACHED, due)


class Tell(InlineComputation):
    """Tells what a `SideGrouping` puts out to every shard.

    Args:
        windowing: Of the side input.
        output: Stream of pairs: shard, message.
    """

    def __init__(self, windowing: Windowing, output: str) -> None:
        self._frames, self._output = Frames(windowing), output

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Repeat each for every shard. Nothing waits for messages, so they are never late."""
        messages = [self._message(value) for value in batch.values]
        told = [(shard, message) for message in messages for shard in SHARD_KEYS]
        emit(self._output, Batch(told, [MAX_TIMESTAMP] * len(told)))

    def _message(self, value: object) -> Message:
        if isinstance(value, Reached):
            return value
        (_, values), window, pane = cast("tuple[tuple[None, object], BoundedWindow, PaneInfo]", value)
        return View.of(self._frames.of_window(window).code, values, pane)
