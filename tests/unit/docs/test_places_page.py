"""The table of places in the documentation is that of the code."""

from __future__ import annotations

from headrace.lowlevel.storage.places import SCHEMES, Use
from tests.pages import DOCS

HEAD = ["| written | for a checkpoint | for sources and sinks |", "|---|---|---|"]


def table() -> list[str]:
    """Its lines; `mock://` is for tests."""
    rows = [
        f"| `{scheme.shown}` | {scheme.answer(Use.CHECKPOINT)} | {scheme.answer(Use.FILES)} |"
        for name, scheme in SCHEMES.items()
        if name != "mock"
    ]
    return [*HEAD, *rows]


def test_the_page_has_all_schemes() -> None:
    text = (DOCS / "places.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in text, "\n".join(table())
