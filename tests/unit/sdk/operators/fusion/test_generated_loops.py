"""The page that shows generated loops shows those that are generated."""

from __future__ import annotations

from tests.stageloops import GOLDEN, shown_loops


def test_the_page_shows_the_loops_that_are_generated() -> None:
    assert GOLDEN.read_text(encoding="utf-8") == shown_loops()
