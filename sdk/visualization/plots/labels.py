"""Texts in a plot: labels of values, shortened and without unprintable characters."""

from __future__ import annotations

import unicodedata

from headrace.sdk.model.short_text import cut_text
from headrace.sdk.recording.recording import Arrival, RecordedPane, Value
from headrace.sdk.visualization.plots.label_placement import width_of

_LONG = 14
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


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
