"""README.md is run: its Python as a reader would run it, its commands against what `./dev` knows."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pages import run_page

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"


class Block(NamedTuple):
    """A fenced block: the line of README.md that its code starts after, and the code."""

    line: int
    code: str


def blocks(language: str) -> list[Block]:
    text = README.read_text(encoding="utf-8")
    fenced = re.compile(rf"^```{language}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Block(text.count("\n", 0, found.start(1)), found[1]) for found in fenced.finditer(text)]


def run_block(block: Block) -> None:
    """Run the block alone, as a program of its own; a `>>>` session is held against the output that it shows."""
    names: dict[str, object] = {"__name__": "__main__"}
    if ">>>" in block.code:
        session = doctest.DocTestParser().get_doctest(block.code, names, README.name, str(README), block.line)
        said: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.append)
        assert not said, "".join(said)
    else:
        # The empty lines make a traceback name the line of README.md.
        exec(compile("\n" * block.line + block.code, str(README), "exec"), names)


@pytest.mark.parametrize("runner", ["local", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: f"line-{block.line + 1}")
def test_python_runs(block: Block, runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", runner)
    monkeypatch.chdir(tmp_path)
    run_block(block)


def test_commands_exist() -> None:
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  (\w+) ", usage, re.MULTILINE))
    shown = [word for block in blocks("sh") for word in re.findall(r"^\./dev (\w+)", block.code, re.MULTILINE)]
    assert shown, "README.md shows no ./dev command"
    assert set(shown) <= known


@pytest.mark.parametrize("command", ["setup", "release", "lint", "gallery", "site"])
def test_a_command_of_dev_with_help_runs_nothing(command: str) -> None:
    usage = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    helped = subprocess.run([ROOT / "dev", command, "--help"], capture_output=True, text=True, check=True)
    assert (helped.stdout, helped.stderr) == (usage, "")


def test_an_unknown_command_of_dev_is_named() -> None:
    refused = subprocess.run([ROOT / "dev", "instal"], capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, "dev: there is no command instal")


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_RUNNER", "local")
    monkeypatch.chdir(tmp_path)
    commands = [f"```sh\n{block.code}```\n" for block in blocks("sh") if "headrace " in block.code]
    assert sum(run_page(each, str(README)) for each in commands) == 1


def test_on_a_package_index_no_link_is_dead_and_no_checkout_is_assumed() -> None:
    command = [sys.executable, "-m", "hatch_fancy_pypi_readme", "pyproject.toml"]
    page = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", page)
    assert "pip install headrace" in page
    for word in ("no package index", "checkout `", "./dev", "docs/"):
        assert word not in page


def test_a_wrong_block_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        run_block(Block(1, "1 / 0\n"))
    with pytest.raises(AssertionError, match="Expected"):
        run_block(Block(1, ">>> 1 + 1\n3\n"))
