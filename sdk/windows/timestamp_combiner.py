"""How: the choice of the event time of a pane (Beam's `TimestampCombiner`)."""

from __future__ import annotations

from enum import Enum

from headrace.lowlevel.stored_names import stored_as


@stored_as("TimestampCombiner")
class TimestampCombiner(Enum):
    """Selects the timestamp of a pane. The output watermark is held at it, so that no pane is late downstream.

    Elements that are late for the pane are ignored; a pane of late elements only has the last instant of its window.

    >>> import headrace as beam
    >>> from headrace.transforms.window import FixedWindows, TimestampedValue
    >>> def show(pair, timestamp=beam.DoFn.TimestampParam):
    ...     print(pair, timestamp)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     scores = pipeline | beam.Create([TimestampedValue(("red", 5), 10), TimestampedValue(("red", 7), 20)])
    ...     latest = beam.WindowInto(FixedWindows(60), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST)
    ...     _ = scores | latest | beam.CombinePerKey(sum) | beam.Map(show)
    ('red', 12) Timestamp(20)
    """

    OUTPUT_AT_EOW = "end of window"
    """The last instant of the window."""
    OUTPUT_AT_EARLIEST = "earliest"
    """The earliest timestamp in the pane."""
    OUTPUT_AT_LATEST = "latest"
    """The latest timestamp in the pane."""
    OUTPUT_AT_EARLIEST_TRANSFORMED = "earliest transformed"
    """The earliest result of `WindowFn.get_transformed_output_time` for the timestamps in the pane."""

    def combine(self, first: int, second: int) -> int:
        """The combination of two timestamps, microseconds UTC.

        >>> TimestampCombiner.OUTPUT_AT_LATEST.combine(3, 5)
        5
        """
        return max(first, second) if self is TimestampCombiner.OUTPUT_AT_LATEST else min(first, second)
