"""An injector for each region: sends what its collector has received, and says how far that is complete (paper §5.2).

A collector knows that records take a few seconds to reach it, so its low watermark follows the clock by that much,
also when nobody searches. While it is cut off from us it can promise nothing: its watermark stands still.
"""

from __future__ import annotations

import numpy as np

from examples.zeitgeist_world import HELD_BACK, START, Arrivals, Search, World
from headrace.lowlevel import SECOND, BaseInjector, Batch, Delivery, MemorySplit

MAX_DELAY = 5
"""Seconds that a collector waits for records; what comes later is late."""


class Collector(BaseInjector):
    """Replays a region of a world.

    Args:
        world: The world.
        region: The region.
        step: How much of the clock goes into one epoch, seconds.
    """

    def __init__(self, world: World, region: str, step: int) -> None:
        self._world = world
        self._region = region
        self._step = step
        self._arrivals: Arrivals | None = None

    def __getstate__(self) -> dict[str, object]:
        """The records stay on the driver; tasks get their part with each delivery."""
        return {**self.__dict__, "_arrivals": None}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """What arrives in the next step of the clock. The input ends in an epoch of its own, after all records."""
        if self._arrivals is None:
            self._arrivals = self._world.arrivals(self._region)
        assert isinstance(position, int)
        since, until = (START + number * self._step for number in (position, position + 1))
        first, last = np.searchsorted(self._arrivals.arrived, [since * SECOND, until * SECOND])
        queries, region = self._world.queries[self._region], self._region
        batch = Batch(
            [Search(queries[query], region) for query in self._arrivals.queries[first:last].tolist()],
            self._arrivals.searched[first:last].tolist(),
        )
        return Delivery(
            [MemorySplit(batch)] if batch else [],
            position + 1,
            watermark=watermark(self._world, region, until),
            done=since >= self._world.end + MAX_DELAY and first == len(self._arrivals.arrived),
            clock=until * SECOND,
        )


def watermark(world: World, region: str, now: int) -> int:
    """The low watermark of a region's collector at a second of the clock, microseconds UTC.

    >>> world = World()
    >>> since, _ = world.offline
    >>> [watermark(world, HELD_BACK, since + n) // SECOND - since for n in (0, 9, 40, 41)]
    [-5, -5, -5, 36]
    """
    since, until = world.offline
    if region == HELD_BACK and since <= now <= until:  # at the end, what was kept is sent but not yet read
        now = since
    return min(now - MAX_DELAY, world.end) * SECOND
