"""How: the event time of a pane (Beam's `TimestampCombiner`)."""

from __future__ import annotations

from enum import Enum


class TimestampCombiner(Enum):
    """Which timestamp a pane gets. The output watermark waits for it, so that nothing downstream sees the pane late.

    Elements that were late for the pane do not count; a pane of only such elements has the end of its window.
    """

    OUTPUT_AT_EOW = "end of window"
    """The last instant of the window."""
    OUTPUT_AT_EARLIEST = "earliest"
    """The earliest timestamp in the pane."""
    OUTPUT_AT_LATEST = "latest"
    """The latest timestamp in the pane."""
    OUTPUT_AT_EARLIEST_TRANSFORMED = "earliest transformed"
    """The earliest of what `WindowFn.get_transformed_output_time` makes of the timestamps in the pane."""

    def combine(self, first: int, second: int) -> int:
        """The timestamp of two together, microseconds UTC.

        >>> TimestampCombiner.OUTPUT_AT_LATEST.combine(3, 5)
        5
        """
        return max(first, second) if self is TimestampCombiner.OUTPUT_AT_LATEST else min(first, second)
