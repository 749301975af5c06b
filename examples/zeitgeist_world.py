"""A made-up world that searches: who asks what when, when the records arrive, and what is unusual on purpose.

A day of this world has a few minutes instead of 24 hours, so that several days fit into a short run. Everything follows
from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

START = 1_296_086_400
"""The first second, UTC: 27 January 2011, the day of the MillWheel paper's example."""
REGIONS = {
    "Egypt": ("cairo", "giza", "luxor", "aswan"),
    "Brazil": ("rio", "recife", "manaus", "natal"),
    "Japan": ("tokyo", "osaka", "kyoto", "nara"),
    "Germany": ("berlin", "hamburg", "bremen", "jena"),
}
TOPICS = (
    *("weather", "football", "news", "cinema", "pizza", "bus times", "pharmacy", "dentist", "recipes", "cat videos"),
    *("jobs", "flats", "museum", "bakery", "hotel", "train", "traffic", "television", "swimming", "library"),
)
OUTAGE, HELD_BACK = "Egypt", "Japan"
"""The region that is cut off, and the one whose records are only delayed."""
PRACTICE_DAYS = 3
"""Nothing unusual happens in the first days: they teach the models."""


class Search(NamedTuple):
    """One record of the stream; its timestamp is the time of the search."""

    query: str
    region: str


class Planted(NamedTuple):
    """Something unusual, made on purpose."""

    kind: str
    """'spike' or 'dip'."""
    subject: str
    """A query, or `everywhere(region)`."""
    start: int
    end: int
    """Seconds UTC, half-open."""
    factor: float
    """What the usual rate is multiplied with."""


class Arrivals(NamedTuple):
    """A region's records as its collector sends them, in order of arrival. Parallel columns."""

    queries: npt.NDArray[np.int64]
    """Index into `World.queries`."""
    searched: npt.NDArray[np.int64]
    arrived: npt.NDArray[np.int64]
    """Microseconds UTC."""


@dataclass(frozen=True)
class World:
    """What is generated."""

    seed: int = 2013
    queries_each: int = 50
    """Queries of each region, 20 to 80: with fewer, what one query does is unusual for its region too."""
    days: int = 5
    day: int = 120
    """Seconds; a multiple of 12."""
    late: float = 0.001
    """Which part of the records comes later than any watermark waits for."""

    @property
    def end(self) -> int:
        """The second after the last one, UTC."""
        return START + self.days * self.day

    @cached_property
    def queries(self) -> dict[str, list[str]]:
        """Region -> what is asked there."""
        rng = np.random.default_rng([self.seed, 1])
        return {
            region: [
                str(query) for query in rng.permutation([f"{topic} {city}" for topic in TOPICS for city in cities])
            ][: self.queries_each]
            for region, cities in REGIONS.items()
        }

    @cached_property
    def usual(self) -> dict[str, npt.NDArray[np.float64]]:
        """Region -> usual searches a second, by query and second: a day's curve on the region's own clock."""
        rng = np.random.default_rng([self.seed, 2])
        seconds = np.arange(self.days * self.day)
        usual = {}
        for number, region in enumerate(REGIONS):
            curve = 1 + 0.4 * np.sin(2 * np.pi * (seconds / self.day + number / len(REGIONS)))
            popularity = np.sort(np.clip(1 + rng.pareto(2.5, self.queries_each), 1, 5))[::-1]
            usual[region] = popularity[:, None] * curve[None, :]
        return usual

    @cached_property
    def planted(self) -> list[Planted]:
        """Two spikes and two dips of single queries in each region, and a region that is cut off."""
        rng = np.random.default_rng([self.seed, 3])
        planted = []
        for region, queries in self.queries.items():
            often, seldom = np.split(np.arange(self.queries_each), [-(-self.queries_each // 3)])
            for index in rng.choice(seldom, 2, replace=False):
                start = self._moment(rng, region, self.day // 8)
                planted.append(Planted("spike", queries[index], start, start + self.day // 8, 6.0))
            if region != OUTAGE:
                for index in rng.choice(often, 2, replace=False):
                    start = self._moment(rng, region, self.day // 4)
                    planted.append(Planted("dip", queries[index], start, start + self.day // 4, 0.02))
        start = self._busiest(OUTAGE, self.days - 1) - self.day // 8
        cut_off = [everywhere(OUTAGE), *self.queries[OUTAGE]]
        planted += [Planted("dip", subject, start, start + self.day // 4, 0.0) for subject in cut_off]
        return planted

    @property
    def offline(self) -> tuple[int, int]:
        """When `HELD_BACK`'s collector sends nothing, seconds UTC; afterwards it sends what it has kept."""
        start = self._busiest(HELD_BACK, PRACTICE_DAYS) - self.day // 12
        return start, start + self.day // 3

    def _busiest(self, region: str, day: int) -> int:
        curve = self.usual[region][0, day * self.day : (day + 1) * self.day]
        return START + day * self.day + int(np.argmax(curve))

    def _moment(self, rng: np.random.Generator, region: str, length: int) -> int:
        """A random moment in the busy half of the first day after practice."""
        offset = self._busiest(region, PRACTICE_DAYS) - self.day // 4 + int(rng.integers(self.day // 2 - length))
        return START + PRACTICE_DAYS * self.day + (offset - START) % self.day

    def arrivals(self, region: str) -> Arrivals:
        """All records of a region."""
        rng = np.random.default_rng([self.seed, 4, list(REGIONS).index(region)])
        rates = self.usual[region].copy()
        for event in self.planted:
            if event.subject in self.queries[region]:
                first, last = event.start - START, event.end - START
                rates[self.queries[region].index(event.subject), first:last] *= event.factor
        counts = rng.poisson(rates)
        query, second = (np.repeat(index, counts.ravel()) for index in np.indices(counts.shape).reshape(2, -1))
        searched = (START + second) * 1_000_000 + rng.integers(0, 1_000_000, len(second))
        delay = np.minimum(rng.exponential(0.5e6, len(second)), 4.9e6).astype(np.int64)
        very_late = rng.random(len(second)) < self.late
        arrived = searched + np.where(very_late, rng.integers(12_000_000, 40_000_000, len(second)), delay)
        if region == HELD_BACK:
            since, until = (moment * 1_000_000 for moment in self.offline)
            arrived = np.where((since <= arrived) & (arrived < until), until, arrived)
        order = np.argsort(arrived, kind="stable")
        return Arrivals(query[order], searched[order], arrived[order])


def everywhere(region: str) -> str:
    """The subject that stands for all searches of a region.

    >>> everywhere("Egypt")
    '[all of Egypt]'
    """
    return f"[all of {region}]"
