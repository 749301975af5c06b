"""docs/commands.md has what each command takes, as typer's own writer of documentation has it, and how it can end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.cli import get_docs_for_click

from headrace.cli.app import SUMMARIES
from headrace.cli.app import _command_of as loaded
from headrace.cli.ending import Ending
from tests.pinned import is_pinned

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def taken_by(command: str) -> list[str]:
    """The lines about arguments and options of a command, as typer writes them; `--help` left out."""
    found = loaded(command)
    text = get_docs_for_click(obj=found, ctx=typer.Context(found), name=command, call_prefix="headrace")
    return [line for line in re.findall(r"^\* .*$", text, re.M) if "--help" not in line]


@pytest.mark.skipif(not is_pinned("typer"), reason="releases of typer differ in what they write about a command")
@pytest.mark.parametrize("command", SUMMARIES)
def test_the_page_has_what_a_command_takes(command: str) -> None:
    section = re.search(rf"^## headrace {command}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert section is not None, f"no section about {command}"
    wanted = taken_by(command)
    assert wanted
    assert re.findall(r"^\* .*$", section[1], re.M) == wanted, "copy them from here"


def test_the_page_has_every_exit_code() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.M)] == list(Ending)
