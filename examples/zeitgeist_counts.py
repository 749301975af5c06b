"""The window counter: searches in buckets of one second (MillWheel paper, figures 2 and 9)."""

from __future__ import annotations

from typing import NamedTuple

from headrace.lowlevel import SECOND, Computation, Context, Record, Timer


class WindowCount(NamedTuple):
    """How often something was searched in one second: complete, as far as the low watermark knows."""

    subject: str
    second: int
    """Seconds UTC."""
    count: int


class WindowCounter(Computation):
    """Counts a key's records by the second. Which key that is, a query or a region, is for the topology to say.

    A record of a second that is complete already is dropped and counted (paper §4.5). The counter `counted` has all
    others once their second is complete.
    """

    def initial_state(self) -> dict[int, int]:
        """Open second -> records."""
        return {}

    def process_record(self, record: Record, context: Context) -> None:
        """Update the running total of the record's second; the first one sets a timer for when it is complete."""
        second = record.timestamp // SECOND
        if (second + 1) * SECOND <= context.watermark:
            context.drop_late()
            return
        counts = context.state
        assert isinstance(counts, dict)
        if second not in counts:
            counts[second] = 0
            context.set_timer(str(second), (second + 1) * SECOND)
        counts[second] += 1

    def process_timer(self, timer: Timer, context: Context) -> None:
        """The low watermark has passed the second: produce its count."""
        counts, second = context.state, int(timer.tag)
        assert isinstance(counts, dict)
        count = counts.pop(second)
        context.produce("window counts", WindowCount(str(context.key), second, count), timer.timestamp - 1)
        context.count("counted", count)
        if not counts:
            context.state = None
