"""What is left of a recording that is too large for a picture: as much as can be told apart, and how much that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_DOTS = 1_500
"""Inputs, productions or timers in a picture; browsers move so many with ease."""
MOST_BOXES = 300
"""Panes."""
_CELL = 5.0
"""Width and height of the cells of which each has one dot, pixels; dots of neighbours can be told apart."""


def evenly(things: Sequence[T], most: int) -> list[T]:
    """So many of them, the first and the last included.

    >>> evenly(range(10), 4), evenly([1, 2], 4)
    ([0, 3, 6, 9], [1, 2])
    """
    if len(things) <= most:
        return list(things)
    return [things[round(place * (len(things) - 1) / (most - 1))] for place in range(most)]


def apart(things: Sequence[T], place: Callable[[T], tuple[float, float]], most: int = MOST_DOTS) -> list[T]:
    """All of them, or where they are too many, those that do not hide each other, and of these so many.

    >>> apart([(0.0, 0.0), (0.1, 0.1), (9.0, 9.0)], lambda its: its, 2)
    [(0.0, 0.0), (9.0, 9.0)]
    """
    if len(things) <= most:
        return list(things)
    seen: dict[tuple[float, float], T] = {}
    for thing in things:
        x, y = place(thing)
        seen.setdefault((x // _CELL, y // _CELL), thing)
    return evenly(list(seen.values()), most)


def coarser(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """A line without points that are nearer than half a pixel to the one before; its end stays.

    >>> coarser([(0, 0), (0.1, 0), (5, 0), (5, 0.2)])
    ((0, 0), (5, 0), (5, 0.2))
    """
    kept: list[tuple[float, float]] = []
    for number, point in enumerate(points):
        far = not kept or abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= 0.5
        if far or number == len(points) - 1:
            kept.append(point)
    return tuple(kept)


def remark(drawn: int, there: int, what: str) -> list[str]:
    """What is said of it: nothing where nothing is missing.

    >>> remark(1500, 20000, "inputs"), remark(3, 3, "panes")
    (['1,500 of 20,000 inputs drawn'], [])
    """
    return [f"{drawn:,} of {there:,} {what} drawn"] if drawn < there else []
