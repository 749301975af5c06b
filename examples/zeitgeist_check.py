"""Was found what was planted, and nothing else?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from examples.zeitgeist_detectors import Anomaly
from examples.zeitgeist_world import Planted

WITHIN = 45
"""Seconds of event time in which an anomaly must be found."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Planted and found, side by side."""

    pairs: list[tuple[Planted, Anomaly | None]]
    """Each planted event, and the anomaly that is it, if it was found in time."""
    false_alarms: list[Anomaly]
    """Anomalies that are no planted event, or one that was found before."""

    @property
    def missed(self) -> list[Planted]:
        """Events that were not found in time."""
        return [planted for planted, found in self.pairs if found is None]


def judged(planted: Iterable[Planted], anomalies: Iterable[Anomaly]) -> Verdict:
    """Pair the planted events with what was found.

    >>> dip = Planted("dip", "pizza cairo", 1000, 1060, 0.0)
    >>> found = Anomaly("dip", "pizza cairo", 1001, 1009, 40.5, 2)
    >>> judged([dip], [found, found]) == Verdict([(dip, found)], [found])
    True
    >>> judged([dip], [found._replace(kind="spike")]).missed == [dip]
    True
    """
    left = sorted(anomalies, key=lambda anomaly: (anomaly.second, anomaly.subject))
    pairs: list[tuple[Planted, Anomaly | None]] = []
    for event in sorted(planted, key=lambda event: (event.start, event.subject)):
        found = next((anomaly for anomaly in left if _is(anomaly, event)), None)
        if found is not None:
            left.remove(found)
        pairs.append((event, found))
    return Verdict(pairs, left)


def _is(anomaly: Anomaly, event: Planted) -> bool:
    same = (anomaly.kind, anomaly.subject) == (event.kind, event.subject)
    return same and event.start <= anomaly.second < event.start + WITHIN
