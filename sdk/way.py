"""Which way a step goes through its elements: the quick one or the general one, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Way:
    """How a step goes through its elements.

    >>> print(Way("Sum", "all keys at once", "key by key", None))
    step 'Sum' takes all keys at once
    """

    step: str
    quick: str
    general: str
    against: str | None
    """Why it goes the general way; None if it goes the quick one."""
    but: str = ""
    """What of it goes the other way."""

    def __str__(self) -> str:
        takes = self.quick if self.against is None else f"{self.general}: {self.against}"
        return f"step {self.step!r} takes {takes}{self.but and f'; {self.but}'}"


def one_for_each_step(grouping: Iterable[Way], elements: Iterable[Way]) -> list[Way]:
    """One way for each step, of those that steps group by, and of those that their elements come by.

    >>> sums = Way("Sum", "all keys at once", "key by key", None)
    >>> came = Way("Sum", "columns", "elements one by one", "step 'Timed' gives them so")
    >>> print(*one_for_each_step([sums], [came]))
    step 'Sum' takes all keys at once; its elements come one by one: step 'Timed' gives them so
    """
    ways: dict[str, Way] = {}
    for way in elements:
        known = ways.setdefault(way.step, way)
        if known.against != way.against and not known.but:
            # Elements of a step come in two forms: with the window that their time says, and with windows of their own.
            quick, general = (known, way) if known.against is None else (way, known)
            ways[way.step] = quick if quick.against else replace(quick, but=f"some one by one: {general.against}")
    for way in grouping:
        came = ways.get(way.step)
        slow = came is not None and came.against is not None
        ways[way.step] = replace(way, but=f"its elements come one by one: {came.against}") if slow and came else way
    return list(ways.values())
