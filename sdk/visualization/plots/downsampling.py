"""Downsampling of a recording that is too large for a plot, and the number of items left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST_DOTS = 1_500
"""Most inputs, productions or timers in a plot; browsers animate so many without delay."""
MOST_BOXES = 300
"""Most panes in a plot."""
_CELL = 5.0
"""Width and height of cells with at most one dot each, pixels; dots in neighbouring cells can be distinguished."""


def even_sample(items: Sequence[T], most: int) -> list[T]:
    """At most `most` (at least 2) of the items at even distances, the first and the last included.

    >>> even_sample(range(10), 4), even_sample([1, 2], 4)
    ([0, 3, 6, 9], [1, 2])
    """
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def visible_items(items: Sequence[T], position: Callable[[T], tuple[float, float]], most: int = MOST_DOTS) -> list[T]:
    """All items; if there are more than `most`, at most `most` of those that do not hide each other.

    >>> visible_items([(0.0, 0.0), (0.1, 0.1), (9.0, 9.0)], lambda point: point, 2)
    [(0.0, 0.0), (9.0, 9.0)]
    """
    if len(items) <= most:
        return list(items)
    cells: dict[tuple[float, float], T] = {}
    for item in items:
        x, y = position(item)
        cells.setdefault((x // _CELL, y // _CELL), item)
    return even_sample(list(cells.values()), most)


def coarse_line(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """A line without the points that are nearer than half a pixel to the previous point; the last point stays.

    >>> coarse_line([(0, 0), (0.1, 0), (5, 0), (5, 0.2)])
    ((0, 0), (5, 0), (5, 0.2))
    """
    line: list[tuple[float, float]] = []
    for number, point in enumerate(points):
        far = not line or abs(point[0] - line[-1][0]) + abs(point[1] - line[-1][1]) >= 0.5
        if far or number == len(points) - 1:
            line.append(point)
    return tuple(line)


def remark(drawn: int, total: int, name: str) -> list[str]:
    """The remark on items that are not drawn; empty if all of them are.

    >>> remark(1500, 20000, "inputs"), remark(3, 3, "panes")
    (['1,500 of 20,000 inputs drawn'], [])
    """
    return [f"{drawn:,} of {total:,} {name} drawn"] if drawn < total else []
