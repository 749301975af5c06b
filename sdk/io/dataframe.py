"""Spark DataFrames as a source, batch or streaming, for the Spark runner."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import DurationTypes
from headrace.sdk.io.dead_letters import TolerantSource
from headrace.sdk.io.timestamps import TimestampOf, check_timestamp


@named("DataFrameInjector")
class DataFrameInjector(BaseInjector):
    """Placeholder for a DataFrame in a topology; the Spark runner replaces it by its own reader.

    Args:
        frame: The DataFrame.
        timestamp: Name of the column with the event time, or a function from a row to it; None for none.
        max_delay: Microseconds that the watermark stays behind the greatest timestamp; None for a perfect watermark.
        tolerant: Whether rows without a valid event time become `Unreadable`s instead of errors.
    """

    def __init__(self, frame: object, timestamp: TimestampOf, max_delay: int | None, tolerant: bool = False) -> None:
        self.frame = frame
        self.tolerant = tolerant
        self.timestamp = timestamp
        self.max_delay = max_delay

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Raise TypeError, as only the Spark runner can read a DataFrame."""
        raise TypeError("a DataFrame is read by the Spark runner only; run the pipeline with runner='SparkRunner'")


class ReadFromDataFrame(TolerantSource):
    """Rows of a Spark DataFrame, batch or streaming, as `Row`s.

    `with_exception_handling` sets rows without a valid event time apart, as `Row`s.

    Args:
        frame: The DataFrame. A streaming one has no end.
        timestamp: Name of the column with the event time, or a function from a row to a `Timestamp`, seconds since 1970
            UTC or a datetime.
        max_delay: Delay of the watermark behind the greatest timestamp read, in seconds. None for a perfect watermark,
            which waits for the end of the input; a streaming DataFrame with `timestamp` needs a delay.

    Raises:
        TypeError: `frame` is not a DataFrame.
        ValueError: `timestamp` is not a column, or a streaming DataFrame has no delay.
    """

    delay_argument = "max_delay"
    """The name of the delay in error messages."""

    def __init__(self, frame: object, timestamp: TimestampOf = None, max_delay: DurationTypes | None = None) -> None:
        super().__init__()
        if not hasattr(frame, "isStreaming"):
            raise TypeError(f"{type(self).__name__} takes a Spark DataFrame, got {frame!r:.200}")
        columns = getattr(frame, "columns", None)
        if columns is not None and (twice := [name for name in columns if columns.count(name) > 1]):
            raise ValueError(
                f"the DataFrame has several columns named {twice[0]!r}, of which a row could have only one; rename or "
                "drop one of them"
            )
        if isinstance(timestamp, str) and columns is not None and timestamp not in columns:
            raise ValueError(f"timestamp names column {timestamp!r}, but the DataFrame has {columns}")
        self._frame, self._timestamp = frame, timestamp
        self._max_delay = check_timestamp(timestamp, max_delay)
        self.is_bounded = not frame.isStreaming
        if frame.isStreaming and timestamp is not None and max_delay is None:
            raise ValueError(
                f"a streaming DataFrame needs to know how late rows may be; give {self.delay_argument} in seconds"
            )

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the DataFrame."""
        # Only the package of the Spark runner may know Spark; it is there if a DataFrame is.
        frames = import_module("headrace.runners.spark.dataframe.staged_rows")
        return cast("pa.Schema | None", frames.columns_of(self._frame))

    def injector(self) -> DataFrameInjector:
        """The placeholder that the Spark runner replaces by its reader."""
        return DataFrameInjector(self._frame, self._timestamp, self._max_delay, self._tolerant)


class ReadFromSpark(ReadFromDataFrame):
    """`ReadFromDataFrame` with the delay in the form of Spark's `withWatermark`.

    Args:
        frame: The DataFrame, batch or streaming, of any of Spark's connectors.
        timestamp: Name of the column with the event time, or a function from a row to it.
        watermark: Delay of the watermark behind the greatest timestamp, as `"10 minutes"`, `"1 hour 30 minutes"` or in
            seconds. The watermark advances between epochs, which may be shorter than Spark's micro-batches, so the
            delay must also cover rows within one micro-batch.
    """

    delay_argument = "watermark"

    def __init__(self, frame: object, timestamp: TimestampOf = None, watermark: float | str | None = None) -> None:
        super().__init__(frame, timestamp, _seconds(watermark) if isinstance(watermark, str) else watermark)


_UNITS = {
    "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0,
    "week": 604_800.0,
}  # fmt: skip


def _seconds(delay: str) -> float:
    """The seconds of a delay in Spark's notation.

    >>> _seconds("10 minutes"), _seconds("1 second"), _seconds("interval 1 hour 30 minutes")
    (600.0, 1.0, 5400.0)
    """
    words = delay.lower().split()
    words = words[words[:1] == ["interval"] :]
    try:
        parts = zip(words[::2], words[1::2], strict=True)
        if words:
            return sum(float(number) * _UNITS[unit.removesuffix("s")] for number, unit in parts)
    except (KeyError, ValueError):
        pass
    raise ValueError(f"watermark {delay!r} is no delay; write it as '10 minutes', in {', '.join(_UNITS)}s")
