"""Texts of a picture: values as they are written, and what has no place in a file taken out."""

from __future__ import annotations

import unicodedata

from headrace.sdk.pictures.placing import width_of
from headrace.sdk.recording import Value

_LONG = 14
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    r"""A text on one line, whose characters can stand in any file.

    >>> printable("a\nb"), ascii(printable("\x1b[1m")), ascii(printable("\ud800"))
    ('a b', "'\\ufffd[1m'", "'\\ufffd'")
    """
    line = " ".join(text.split())
    if line.isascii() and line.isprintable():
        return line
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_bad(letter) else letter for letter in line)


def _is_bad(letter: str) -> bool:
    """Whether it is no character of a text, or would turn the direction of all that follows."""
    return unicodedata.category(letter) in ("Cc", "Cs", "Cn", "Co") or letter in _TURNING


def shown(value: Value) -> str:
    """A value as a picture says it.

    >>> shown(22), shown(0.1 + 0.2), shown(51849.5), shown("a long, long story")
    ('22', '0.3', '51850', 'a long, long …')
    """
    text = printable(_number(value) if isinstance(value, float) else str(value))
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _number(value: float) -> str:
    """Four digits, or all before the point where there are more."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def minus(value: Value) -> str:
    """A value that is taken back.

    >>> minus(7), minus("[1, 2]")
    ('−7', '− [1, 2]')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"−{shown(value)}" if value >= 0 else f"−({shown(value)})"
    return f"− {shown(value)}"


def fitted(text: str, width: float, size: float) -> str:
    """A text that is no wider than it may be.

    >>> fitted("Sum of all", 500, 14), fitted("Sum of all", 50, 14)
    ('Sum of all', 'Sum …')
    """
    text = printable(text)
    if width_of(text, size) <= width:
        return text
    while text and width_of(text + "…", size) > width:
        text = text[:-1]
    return text + "…"


def wrapped(text: str, width: float, size: float) -> list[str]:
    """The lines of a text, none wider than it may be.

    >>> wrapped("one two three", 70, 12)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in printable(text).split():
        if lines and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(fitted(word, width, size))
    return lines
