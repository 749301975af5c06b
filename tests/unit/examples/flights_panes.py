"""Every pane of the flights' hourly delays, worked out flight by flight without any of the project's own code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pandas as pd

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
MAX_DELAY_US = 4 * HOUR_US
BEFORE, AFTER = -(1 << 62), 1 << 62
COLUMNS = ["origin", "window_start", "window_end", "timing", "index", "flights", "mean_min", "max_min"]


@dataclass
class _Hour:
    origin: str
    start: int
    delays: list[float] = field(default_factory=list)
    panes: int = 0
    is_on_time: bool = False

    def pane(self, timing: str) -> tuple[object, ...]:
        count, total = len(self.delays), sum(self.delays)
        self.panes += 1
        end = self.start + HOUR_US
        return (self.origin, self.start, end, timing, self.panes - 1, count, total / count, max(self.delays))


def expected_panes(replay: pd.DataFrame, epoch_ends: Sequence[int]) -> pd.DataFrame:
    """In the order of (origin, window, index), typed as in the files.

    In each epoch first the flights come, at the watermark before it: an early or late pane for every hour that got
    some. Then the watermark moves, and hours that it passes get their on-time pane.
    """
    hours: dict[tuple[str, int], _Hour] = {}
    panes: list[tuple[object, ...]] = []
    watermark = newest = BEFORE
    for start, stop in pairwise([0, *epoch_ends]):
        epoch = replay.iloc[start:stop]
        changed = list(_arrivals(hours, epoch, watermark))
        panes += [hour.pane("LATE" if hour.is_on_time else "EARLY") for hour in changed]
        newest = max(newest, epoch["scheduled_us"].max())
        watermark = newest - MAX_DELAY_US if stop < len(replay) else AFTER
        panes += list(_passed(hours.values(), watermark))
    table = pd.DataFrame(panes, columns=COLUMNS).sort_values(["origin", "window_start", "index"], ignore_index=True)
    return table.astype(dict.fromkeys(["window_start", "window_end"], "datetime64[us, UTC]"))


def _arrivals(hours: dict[tuple[str, int], _Hour], epoch: pd.DataFrame, watermark: int) -> Iterator[_Hour]:
    """Put the flights into their hours; each hour that got one."""
    changed = {}
    for flight in epoch[epoch["delay_min"].notna()].itertuples():
        start = flight.scheduled_us // HOUR_US * HOUR_US
        if start + HOUR_US + DAY_US < watermark:
            continue
        hour = hours.setdefault((flight.origin, start), _Hour(flight.origin, start))
        hour.is_on_time = hour.is_on_time or start + HOUR_US <= watermark
        hour.delays.append(flight.delay_min)
        changed[flight.origin, start] = hour
    yield from changed.values()


def _passed(hours: Iterable[_Hour], watermark: int) -> Iterator[tuple[object, ...]]:
    for hour in hours:
        if not hour.is_on_time and hour.start + HOUR_US <= watermark:
            hour.is_on_time = True
            yield hour.pane("ON_TIME")
