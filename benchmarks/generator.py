"""The events that every benchmark reads: skewed keys, one hour of event time, bounded disorder; the same for a seed.

Event times lie on a grid of 7 ms. Some systems carry window ends in whole milliseconds, so anything finer would give
other sessions there; and as 30 s is no multiple of 7 ms, no two events are a session gap apart exactly, where systems
differ on whether the sessions merge.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SECOND = 1_000_000
MINUTE = 60 * SECOND
GRID = 7_000
CLICKED_SHARE = 0.1
CLICK_WITHIN = 30 * SECOND
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))])


@dataclass(frozen=True, slots=True)
class Plan:
    """What to generate. Times in microseconds.

    >>> Plan(events=5).events
    5
    """

    events: int = 1_000_000
    keys: int = 10_000
    seed: int = 20_130_826
    start: int = 1_704_067_200 * SECOND
    """First instant of event time, 2024-01-01T00:00:00Z."""
    span: int = 60 * MINUTE
    """Length of event time."""
    disorder: int = 60 * SECOND
    """An event arrives less than this after its event time …"""
    late_share: float = 0.01
    """… except for this share of the events,"""
    greatest_delay: int = 5 * MINUTE
    """which arrive between `disorder` and this after it. A watermark this far behind makes nothing late."""


def generate(plan: Plan) -> pa.Table:
    """The events in order of arrival: columns key, value (1 to 100) and timestamp.

    >>> generate(Plan(events=3)).equals(generate(Plan(events=3)))
    True
    """
    rng = np.random.default_rng(plan.seed)
    timestamps = plan.start + GRID * rng.integers(0, plan.span // GRID, plan.events)
    order = np.argsort(timestamps + _delays(plan, rng), kind="stable")
    names = pa.array([f"key-{rank:05d}" for rank in range(1, plan.keys + 1)])
    columns = {
        "key": names.take(pa.array(_ranks(plan, rng)[order])),
        "value": pa.array(rng.integers(1, 101, plan.events)[order]),
        "timestamp": pa.array(timestamps[order]).cast(SCHEMA.field("timestamp").type),
    }
    return pa.table(columns, schema=SCHEMA)


def _ranks(plan: Plan, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Key numbers from 0, the n-th drawn in proportion to 1/n (Zipf's law)."""
    weights = np.cumsum(1.0 / np.arange(1, plan.keys + 1))
    ranks: npt.NDArray[np.int64] = np.searchsorted(weights, rng.random(plan.events) * weights[-1], side="right")
    return ranks


def _delays(plan: Plan, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """How long after its event time each event arrives."""
    usual = rng.integers(0, plan.disorder, plan.events)
    late = rng.integers(plan.disorder, plan.greatest_delay, plan.events)
    return np.where(rng.random(plan.events) < plan.late_share, late, usual)


def clicks(plan: Plan, shown: pa.Table) -> pa.Table:
    """Clicks on a tenth of the events, as if these were advertisements shown, in order of arrival.

    A click has key and value of its event and comes less than `CLICK_WITHIN` after it; it arrives as late as events do.

    >>> plan = Plan(events=1_000)
    >>> 50 < clicks(plan, generate(plan)).num_rows < 200
    True
    """
    rng = np.random.default_rng(plan.seed + 1)
    clicked = shown.filter(pa.array(rng.random(shown.num_rows) < CLICKED_SHARE))
    own = replace(plan, events=clicked.num_rows)
    timestamps = clicked["timestamp"].cast(pa.int64()).to_numpy()
    timestamps = timestamps + GRID * rng.integers(1, CLICK_WITHIN // GRID, clicked.num_rows)
    order = np.argsort(timestamps + _delays(own, rng), kind="stable")
    at = clicked.schema.get_field_index("timestamp")
    return clicked.set_column(at, SCHEMA.field(at), pa.array(timestamps).cast(SCHEMA.field(at).type)).take(order)


def lines(events: pa.Table) -> pa.Table:
    """The events as text, in one column: `key,value,timestamp in microseconds`.

    >>> lines(generate(Plan(events=1)))["line"][0].as_py().count(",")
    2
    """
    fields = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in events.columns]
    return pa.table({"line": pc.binary_join_element_wise(*(field.cast(pa.string()) for field in fields), ",")})


def split(events: pa.Table, parts: int) -> list[pa.Table]:
    """The events cut into this many runs of (nearly) equal length.

    >>> [part.num_rows for part in split(generate(Plan(events=5)), 2)]
    [3, 2]
    """
    size = -(-events.num_rows // parts)
    return [events.slice(number * size, size) for number in range(parts)]


def write(parts: Sequence[pa.Table], folder: Path) -> list[Path]:
    """Write each part as a Parquet file; the files' names and modification times keep the order.

    Row groups are small enough for two readers to share one file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, part in enumerate(parts):
        path = folder / f"part-{number:03d}.parquet"
        pq.write_table(part, path, row_group_size=max(1, min(100_000, -(-part.num_rows // 2))))
        # A stream over a folder takes the files by age, and these are written within the clock's own resolution.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        paths.append(path)
    return paths
