"""Programs with `with` blocks of pipelines, given to the command line: the command runs such a pipeline, and once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.cli.ending import Ending

NAME = "with_blocks_program"
BLOCK = """
    with beam.Pipeline("LocalRunner") as p:
        lines = p | beam.Create([1, 2]) | beam.Map(lambda number: print("line", number) or number)
        _ = lines | beam.io.WriteToText("lines")
"""
AT_TOP = "import headrace as beam\nif True:" + BLOCK
IN_MAIN = "import headrace as beam\ndef main(argv=None):" + BLOCK
GUARDED = IN_MAIN + 'if __name__ == "__main__":\n    main()\n'
CALLED = IN_MAIN + "main()\n"
TWICE = "import headrace as beam\nfor _ in range(2):" + BLOCK
RUN = "import headrace as beam\np = beam.Pipeline('LocalRunner')\n_ = p | beam.Create([1]) | beam.Map(print)\np.run()\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop(NAME, None)


def command(program: str, name: str, *arguments: str) -> Result:
    Path(f"{NAME}.py").write_text(program)
    sys.modules.pop(NAME, None)
    return CliRunner().invoke(app, [arguments[0], f"{NAME}.py{name}", *arguments[1:]])


@pytest.mark.parametrize(
    ("program", "name"), [(AT_TOP, ""), (AT_TOP, ":p"), (CALLED, ""), (GUARDED, ":main"), (IN_MAIN, ":main")]
)
def test_a_with_block_is_run_once_with_the_options_of_the_command(program, name):
    options = "--runner=LocalRunner", "--checkpoint=state", "--max_records_per_epoch=1", "--no-progress"
    ran = command(program, name, "run", *options)
    assert (ran.exit_code, ran.stdout.splitlines()) == (
        0,
        ["line 1", "line 2", "done: 2 epochs, 2 records in, 2 out, 0 late, 0 dropped"],
    )
    again = command(program, name, "run", *options)
    assert again.stdout == "done: there was nothing left to do\n"


@pytest.mark.parametrize("verb", ["draw", "explain", "options"])
def test_other_commands_run_nothing(verb):
    shown = command(AT_TOP, "", verb)
    assert shown.exit_code == 0, shown.output
    assert "line 1" not in shown.stdout
    assert not list(Path().glob("lines*"))


@pytest.mark.parametrize(
    ("program", "name", "told"),
    [
        (TWICE, "", "has several pipelines in `with` blocks (2), which only Python runs, one after another"),
        (TWICE, ":p", "has several pipelines in `with` blocks (2)"),
        (RUN, ":p", "has been run by the program, with its own options; leave out its run()"),
        (GUARDED, "", f"has no 'pipeline'; it has main: give {NAME}.py:main"),
    ],
)
def test_what_the_command_cannot_run_ends_with_2(program, name, told):
    ran = command(program, name, "run")
    assert ran.exit_code == Ending.MISUSED
    assert told in ran.stderr
    assert not list(Path().glob("lines*"))
