"""Keys and values of any type as short text, for pictures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from reprlib import Repr

_ITEMS, _LETTERS = 6, 80
_short = Repr()
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = _ITEMS
_short.maxstring = _short.maxlong = _short.maxother = _LETTERS


def cut_text(text: str, most: int = _LETTERS) -> str:
    """A text of at most `most` characters; an ellipsis stands for what is cut off.

    >>> cut_text("a long story", 7), cut_text("short", 7)
    ('a long…', 'short')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def count_text(number: int, noun: str) -> str:
    """A number of things, in words.

    >>> count_text(1, "key"), count_text(12_000, "key")
    ('1 key', '12,000 keys')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def text_of(value: object) -> str:
    """The text of a key or value, shortened to 80 characters."""
    if isinstance(value, str):
        return cut_text(value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, list, tuple, dict, set, frozenset)):
        # Grouped values may be read from state lazily, so only the values that are shown are read.
        value = list(islice(value, _ITEMS + 1))
    return cut_text(_short.repr(value))


def table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table for a notebook; the title and the cells are escaped.

    >>> table("<a>", ["step"], [["Sum"]])
    '<div>&lt;a&gt;</div><table><thead><tr><th>step</th></tr></thead><tbody><tr><td>Sum</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div>{escape(title)}</div>{whole}"
