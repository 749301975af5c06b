"""Where texts go, so that they cover nothing and each other least of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from unicodedata import east_asian_width

_LETTER = 0.68
"""Width of a letter, as a share of the size of the font: digits of the fonts that the pictures ask for."""
GAP = " "
"""What stands for the distance between two words, two spaces, as each is about half as wide as a letter."""
_GRID = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92, 0.0, 1.0)
"""Places in a box to try, as shares of the room there is: the middle first."""


class Rectangle(NamedTuple):
    """On the canvas: x to the right, y down."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Rectangle) -> float:
        """The area that both have.

        >>> Rectangle(0, 0, 10, 10).overlap(Rectangle(8, 5, 20, 20))
        10
        """
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across > 0 and down > 0 else 0

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre, x and y."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


def width_of(text: str, size: float) -> float:
    """About the width of a text.

    >>> round(width_of("22", 10), 1)
    13.6
    """
    # Those of East Asian writing are as wide as they are high.
    wide = 0 if text.isascii() else sum(east_asian_width(letter) in "WF" for letter in text)
    return ((len(text) - wide) * _LETTER + wide) * size


def around(x: float, y: float, text: str, size: float) -> Rectangle:
    """The room that a text takes which is centred at a place."""
    half, up = max(width_of(text, size), 1) / 2, size * 0.6
    return Rectangle(x - half, y - up, x + half, y + up)


@dataclass(slots=True)
class Labels:
    """The texts of one picture. Those that are placed first have the choice."""

    obstacles: list[Rectangle] = field(default_factory=list)
    """What a text must not cover if there is another place."""
    lines: list[Rectangle] = field(default_factory=list)
    """What it had better not cover: parts of lines."""
    taken: list[Rectangle] = field(default_factory=list)

    def place(self, text: str, size: float, room: Rectangle) -> Rectangle | None:
        """A place for a text within a box, or centred on it if it is too small; None if it would cover another."""
        middle = around(*room.middle, text, size)
        reach = Rectangle(
            min(room.left, middle.left), min(room.top, middle.top),
            max(room.right, middle.right), max(room.bottom, middle.bottom),
        )  # fmt: skip
        near = Labels(*([one for one in its if reach.overlap(one)] for its in (self.obstacles, self.lines, self.taken)))
        best = min(_candidates(text, size, room), key=near.cost)
        if any(best.overlap(other) for other in near.taken):
            return None
        self.taken.append(best)
        return best

    def cost(self, candidate: Rectangle) -> float:
        """How bad a place is."""
        texts = sum(candidate.overlap(other) for other in self.taken)
        things = sum(candidate.overlap(other) for other in self.obstacles)
        return texts * 100 + things * 3 + sum(candidate.overlap(line) for line in self.lines)


def _candidates(text: str, size: float, room: Rectangle) -> Iterable[Rectangle]:
    needed = around(0, 0, text, size)
    wide, high = needed.right - needed.left + 6, needed.bottom - needed.top + 4
    across, down = max(0.0, room.right - room.left - wide), max(0.0, room.bottom - room.top - high)
    x, y = room.middle
    for share in _GRID:
        for other in _GRID:
            yield around(x + (other - 0.5) * across, y + (share - 0.5) * down, text, size)
