"""For the API pages: sessions (`>>>`) in docstrings are shown as code, which Markdown would take for quotations."""

from __future__ import annotations

import re

import griffe

_SESSION = re.compile(r"^( *)>>> .*(?:\n(?! *\n).+)*", re.MULTILINE)


def fenced(text: str) -> str:
    r"""The text with a fence around each session, up to the next empty line.

    >>> fenced("A sum.\n\n>>> 1 + 1\n2\n")
    'A sum.\n\n```pycon\n>>> 1 + 1\n2\n```\n'
    """
    return _SESSION.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class Doctests(griffe.Extension):
    """Fences the sessions of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Once an object is known with all that is in it."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
