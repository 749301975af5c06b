"""The same answers once more, with nothing but pandas: what the pipeline's final values must equal.

Only one thing is taken from the run: after how many flights each epoch ended. Flights of one epoch are processed at the
low watermark that the epochs before it left, so with those numbers it is known for every flight whether it was late,
and whether so late that its window was gone and it had to be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

HOUR_US = 3_600_000_000
_NOTHING_KNOWN = np.iinfo(np.int64).min // 2
"""The watermark before the first epoch, far from overflow."""

HOUR_KEYS = ["origin", "window_start"]
HOUR_VALUES = ["flights", "mean_min", "max_min"]
SESSION_KEYS = ["tail", "window_start", "window_end"]
SESSION_VALUES = ["legs", "miles"]


@dataclass(frozen=True, slots=True)
class Lateness:
    """The run's settings that decide what is late; all in microseconds."""

    max_delay_us: int
    """How far the watermark stays behind the newest scheduled departure."""
    allowed_us: int
    """How long after its end a window takes late flights."""
    gap_us: int
    """What separates two sessions of an aircraft."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a branch of the pipeline must arrive at."""

    values: pd.DataFrame
    """One row a window, ordered by its key columns."""
    dropped: int
    """Flights that came after their window was gone."""


def watermark_before(scheduled_us: npt.NDArray[np.int64], epoch_ends: Sequence[int], max_delay_us: int) -> pd.Series:
    """For each flight in order of the replay: the low watermark when it was processed, microseconds UTC.

    Args:
        scheduled_us: event times.
        epoch_ends: number of flights read by the end of each epoch.
        max_delay_us: how far the watermark stays behind the greatest event time.

    >>> watermark_before(np.array([50, 90, 60, 70]), [2, 4], 10).tolist()[2:]
    [80, 80]
    """
    reached = np.maximum.accumulate(scheduled_us) - max_delay_us
    starts = np.concatenate([[0], np.asarray(epoch_ends, dtype=np.int64)])
    epoch = np.searchsorted(starts, np.arange(len(scheduled_us)), side="right") - 1
    return pd.Series(np.where(epoch == 0, _NOTHING_KNOWN, reached[starts[epoch] - 1]))


def hours(replay: pd.DataFrame, epoch_ends: Sequence[int], lateness: Lateness) -> Expected:
    """Departure delay by airport and hour of scheduled departure, of all flights that left."""
    left = _with_watermark(replay, epoch_ends, lateness)
    left = left[left["delay_min"].notna()]
    start = left["scheduled_us"] // HOUR_US * HOUR_US
    gone = left["watermark_us"] > start + HOUR_US + lateness.allowed_us
    grouped = left.assign(window_start=start)[~gone].groupby(HOUR_KEYS)["delay_min"]
    values = grouped.agg(flights="count", mean_min="mean", max_min="max").reset_index()
    return Expected(_as_instants(values), int(gone.sum()))


def sessions(replay: pd.DataFrame, epoch_ends: Sequence[int], lateness: Lateness) -> Expected:
    """Runs of departures of one aircraft less than the gap apart.

    Raises:
        ValueError: a flight came so late that the session it belongs to may have been gone although it was taken
            itself; which of them it joined cannot be told by this way of counting.
    """
    legs = _with_watermark(replay, epoch_ends, lateness)
    legs = legs[legs["delay_min"].notna()].sort_values(["tail", "scheduled_us"])
    gone = legs["watermark_us"] > legs["scheduled_us"] + lateness.gap_us + lateness.allowed_us
    legs = legs[~gone]
    apart = legs.groupby("tail")["scheduled_us"].diff().fillna(lateness.gap_us) >= lateness.gap_us
    legs = legs.assign(session=apart.cumsum())
    alone = legs["session"].map(legs["session"].value_counts()) == 1
    if ((legs["watermark_us"] > legs["scheduled_us"] + lateness.allowed_us) & ~alone).any():
        raise ValueError("a flight joined a session that may have been gone; compare with epochs of more flights")
    values = legs.groupby(["tail", "session"], as_index=False).agg(
        window_start=("scheduled_us", "min"),
        window_end=("scheduled_us", "max"),
        legs=("miles", "size"),
        miles=("miles", "sum"),
    )
    values["window_end"] += lateness.gap_us
    return Expected(_as_instants(values[SESSION_KEYS + SESSION_VALUES]), int(gone.sum()))


def _with_watermark(replay: pd.DataFrame, epoch_ends: Sequence[int], lateness: Lateness) -> pd.DataFrame:
    before = watermark_before(replay["scheduled_us"].to_numpy(), epoch_ends, lateness.max_delay_us)
    return replay.assign(watermark_us=before.to_numpy())


def _as_instants(values: pd.DataFrame) -> pd.DataFrame:
    """The ends of windows as in the files of panes."""
    ends = [column for column in ("window_start", "window_end") if column in values]
    return values.astype(dict.fromkeys(ends, "datetime64[us, UTC]"))


def final(panes: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The last pane of every window: with accumulating panes, its final value.

    A session that was reported and then grew through a late flight is not final: the longer one holds all of it.
    """
    last = panes.sort_values([*keys, "index"]).groupby(list(keys), as_index=False).last()
    owner = keys[0]
    ordered = last.sort_values([owner, "window_start", "window_end"], ascending=[True, True, False])
    covered = ordered.groupby(owner)["window_end"].cummax().groupby(ordered[owner]).shift()
    return ordered[~(ordered["window_end"] <= covered)].sort_values(list(keys), ignore_index=True)


def differences(
    found: pd.DataFrame, expected: pd.DataFrame, keys: Sequence[str], values: Sequence[str]
) -> pd.DataFrame:
    """Rows that only one side has or whose values are not exactly equal; empty when the run was right."""
    both = found[[*keys, *values]].merge(expected, on=list(keys), how="outer", suffixes=("", "_expected"))
    wrong = np.zeros(len(both), dtype=bool)
    for value in values:
        wrong |= (both[value] != both[f"{value}_expected"]).to_numpy()
    return both[wrong]
