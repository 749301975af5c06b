"""The injector: brings the replay in and says how far event time has got (MillWheel paper §5.2).

It is asked on the driver what an epoch shall read, and answers with row numbers; tasks do the reading. Its watermark is
heuristic: `max_delay` behind the newest scheduled departure. Its clock is the replay's own, so that what depends on
wall time behaves as it would have in 2013.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from headrace.lowlevel import BaseInjector, Batch, Delivery

COLUMNS = ["scheduled_us", "origin", "carrier", "tail", "miles", "delay_min"]
"""What the pipeline needs of a flight: the items of the dict that is a record's value."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows from `start` to before `stop` of a Parquet file: what one task reads."""

    path: str
    start: int
    stop: int

    def read(self) -> Iterator[Batch]:
        """Flights as dicts, at their scheduled departure. Only the row groups in question are touched."""
        with pq.ParquetFile(self.path) as file:
            first = 0
            for group in range(file.num_row_groups):
                after = first + file.metadata.row_group(group).num_rows
                if first < self.stop and self.start < after:
                    table = file.read_row_group(group, columns=COLUMNS)
                    start = max(self.start - first, 0)
                    part = table.slice(start, min(self.stop, after) - first - start)
                    yield Batch(part.to_pylist(), part["scheduled_us"].to_pylist())
                first = after


class Replay(BaseInjector):
    """Reads the file that `examples.flights_data.prepare` writes, from first to last report.

    Args:
        path: the Parquet file.
        max_delay: how far the watermark stays behind the newest scheduled departure, microseconds.
    """

    def __init__(self, path: Path, max_delay: int) -> None:
        self._path = str(path)
        self.max_delay = max_delay
        self._reported: npt.NDArray[np.int64] | None = None

    def __getstate__(self) -> dict[str, object]:
        """What the driver looks up stays there."""
        return {**self.__dict__, "_reported": None}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next `limit` flights, in parts of equal size; the clock is at the report of the last of them."""
        if self._reported is None:
            self._reported = pq.read_table(self._path, columns=["reported_us"])["reported_us"].to_numpy()
        assert isinstance(position, int)
        end = min(position + limit, len(self._reported))
        bounds = np.linspace(position, end, num=splits + 1, dtype=int).tolist()
        return Delivery(
            [Rows(self._path, start, stop) for start, stop in pairwise(bounds) if start < stop],
            position=end,
            done=end == len(self._reported),
            clock=int(self._reported[end - 1]) if end else None,
        )
