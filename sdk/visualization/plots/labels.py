"""Texts in a plot: labels without unprintable characters, placed so that they overlap as little as possible."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from unicodedata import east_asian_width

from headrace.sdk.model.short_text import cut_text
from headrace.sdk.recording.recording import Arrival, RecordedPane, Value

_LETTER = 0.68
"""Width of a letter as a share of the font size: that of digits in the fonts of the plots."""
GAP = " "
"""The distance between two words: two spaces, as each is about half as wide as a letter."""
_GRID = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92, 0.0, 1.0)
"""Positions in a box to try, as shares of the free space: the middle first."""
_LONG = 14
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Rectangle(NamedTuple):
    """A rectangle on the canvas: x to the right, y down."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Rectangle) -> float:
        """The area of the intersection.

        >>> Rectangle(0, 0, 10, 10).overlap(Rectangle(8, 5, 20, 20))
        10
        """
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across > 0 and down > 0 else 0

    @property
    def middle(self) -> tuple[float, float]:
        """The centre, x and y."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


def width_of(text: str, size: float) -> float:
    """The approximate width of a text in a font size.

    >>> round(width_of("22", 10), 1)
    13.6
    """
    # East Asian characters are as wide as they are high.
    wide = 0 if text.isascii() else sum(east_asian_width(letter) in "WF" for letter in text)
    return ((len(text) - wide) * _LETTER + wide) * size


def text_rectangle(x: float, y: float, text: str, size: float) -> Rectangle:
    """The rectangle of a text centred at a point."""
    half, up = max(width_of(text, size), 1) / 2, size * 0.6
    return Rectangle(x - half, y - up, x + half, y + up)


@dataclass(slots=True)
class Labels:
    """The texts of one plot, placed in order; earlier texts have priority."""

    obstacles: list[Rectangle] = field(default_factory=list)
    """Areas that a text must not cover if there is another position."""
    lines: list[Rectangle] = field(default_factory=list)
    """Areas that a text should not cover: parts of lines."""
    occupied: list[Rectangle] = field(default_factory=list)
    """Areas of the texts placed so far."""

    def place(self, text: str, size: float, box: Rectangle) -> Rectangle | None:
        """Place a text within a box, or centred on a box that is too small; None if the text would cover another."""
        middle = text_rectangle(*box.middle, text, size)
        reach = Rectangle(
            min(box.left, middle.left), min(box.top, middle.top),
            max(box.right, middle.right), max(box.bottom, middle.bottom),
        )  # fmt: skip
        areas = (self.obstacles, self.lines, self.occupied)
        near = Labels(*([area for area in group if reach.overlap(area)] for group in areas))
        best = min(_candidates(text, size, box), key=near.cost)
        if any(best.overlap(other) for other in near.occupied):
            return None
        self.occupied.append(best)
        return best

    def cost(self, candidate: Rectangle) -> float:
        """How much a text in a rectangle would overlap; texts weigh most, lines least."""
        texts = sum(candidate.overlap(other) for other in self.occupied)
        things = sum(candidate.overlap(other) for other in self.obstacles)
        return texts * 100 + things * 3 + sum(candidate.overlap(line) for line in self.lines)


def _candidates(text: str, size: float, box: Rectangle) -> Iterable[Rectangle]:
    needed = text_rectangle(0, 0, text, size)
    wide, high = needed.right - needed.left + 6, needed.bottom - needed.top + 4
    across, down = max(0.0, box.right - box.left - wide), max(0.0, box.bottom - box.top - high)
    x, y = box.middle
    for share in _GRID:
        for other in _GRID:
            yield text_rectangle(x + (other - 0.5) * across, y + (share - 0.5) * down, text, size)


def printable_text(text: str) -> str:
    r"""A text on one line, with unprintable characters replaced.

    >>> printable_text("a\nb"), ascii(printable_text("\x1b[1m")), ascii(printable_text("\ud800"))
    ('a b', "'\\ufffd[1m'", "'\\ufffd'")
    """
    line = " ".join(text.split())
    if line.isascii() and line.isprintable():
        return line
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_bad(letter) else letter for letter in line)


def _is_bad(letter: str) -> bool:
    """Whether a character is unprintable, or would change the direction of the text behind it."""
    return unicodedata.category(letter) in ("Cc", "Cs", "Cn", "Co") or letter in _TURNING


def value_label(value: Value) -> str:
    """The label of a value, at most 14 characters.

    >>> value_label(22), value_label(0.1 + 0.2), value_label(51849.5), value_label("a long, long story")
    ('22', '0.3', '51850', 'a long, long …')
    """
    return cut_text(printable_text(_number(value) if isinstance(value, float) else str(value)), _LONG)


def _number(value: float) -> str:
    """A number with four digits, or with all digits before the point if there are more."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def retracted_label(value: Value) -> str:
    """The label of a retracted value.

    >>> retracted_label(7), retracted_label("[1, 2]")
    ('−7', '− [1, 2]')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"−{value_label(value)}" if value >= 0 else f"−({value_label(value)})"
    return f"− {value_label(value)}"


def item_label(item: Arrival | RecordedPane) -> str:
    """The label of an arrival or pane, which may be a retraction."""
    return retracted_label(item.value) if item.is_retraction else value_label(item.value)


def fitted_text(text: str, width: float, size: float) -> str:
    """A text, shortened to a width in a font size.

    >>> fitted_text("Sum of all", 500, 14), fitted_text("Sum of all", 50, 14)
    ('Sum of all', 'Sum …')
    """
    text = printable_text(text)
    if width_of(text, size) <= width:
        return text
    while text and width_of(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


def wrapped_lines(text: str, width: float, size: float) -> list[str]:
    """The lines of a text, none wider than a width in a font size.

    >>> wrapped_lines("one two three", 70, 12)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in printable_text(text).split():
        if lines and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(fitted_text(word, width, size))
    return lines
