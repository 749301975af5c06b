"""docs/troubleshooting.md cites messages as the program prints them, so that a reader finds them by their text."""

from __future__ import annotations

import html
import re

import pytest

from tests.pages import DOCS, ROOT

PAGE = DOCS / "troubleshooting.md"
PRINTED = ROOT / "tests" / "golden" / "wrong_input.md"
_QUOTED = re.compile(r'"([^"\n]+)"')
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def cited() -> list[str]:
    """The quotations in the first column of the tables."""
    cells = [line.split(" | ")[0] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [html.unescape(text) for cell in cells for text in _QUOTED.findall(cell)]


def source() -> str:
    """The source code, with each string that goes over several lines in one piece, and "…" for each placeholder."""
    folders = ("sdk", "lowlevel", "runners", "headrace/cli", "headrace/options")
    text = "\n".join(path.read_text(encoding="utf-8") for each in folders for path in (ROOT / each).rglob("*.py"))
    return _PLACEHOLDER.sub("…", re.sub(r"""["']\s*\n\s*f?["']""", "", text))


@pytest.fixture(scope="module")
def messages() -> str:
    """All that the program can print, as far as its source and the recorded errors show it."""
    return source() + PRINTED.read_text(encoding="utf-8")


def is_printed(quotation: str, messages: str) -> bool:
    """Whether a message has the parts of a quotation in their order, near each other."""
    parts = [re.escape(part.strip(" '")) for part in quotation.split("…") if part.strip(" '")]
    return re.search("[^\n]{0,160}?".join(parts), messages) is not None


@pytest.mark.parametrize("quotation", cited())
def test_a_message_is_cited_as_it_is_printed(quotation: str, messages: str) -> None:
    assert is_printed(quotation, messages)


def test_a_message_that_nothing_prints_is_found(messages: str) -> None:
    assert len(cited()) > 50
    assert not is_printed("the step … has no such thing", messages)
    assert not is_printed("raised for key …; where time ends", "raised for key 1\nwhere time ends")
