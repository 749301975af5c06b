"""The article's numbers on the local runner, and docs/streaming102.md, which shows what the examples print."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from headrace.runners.local import LocalRunner
from tests.article import Article, Outcomes, modules

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "streaming102.md"
PROGRAMS = ROOT / "examples" / "streaming102"
COMMAND = r"^```sh\npython -m examples\.streaming102\.(\w+)\n```\n"
SHOWN = re.compile(COMMAND + r"\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return Outcomes.of(LocalRunner())


class TestArticle(Article):
    """Each number of the text."""


def shown() -> dict[str, str]:
    """What the page says that each program prints."""
    return dict(SHOWN.findall(PAGE.read_text(encoding="utf-8")))


def test_the_page_shows_every_example() -> None:
    assert set(shown()) == {*modules(), "arrivals"}


@pytest.mark.parametrize("name", shown())
def test_the_page_shows_what_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--runner=LocalRunner"])
    runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == shown()[name]
