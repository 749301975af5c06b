"""A program with a `with` block at its top, given to `headrace run`: workers import its module, and do not run it."""

from __future__ import annotations

import sys

from typer.testing import CliRunner

from headrace.cli.app import app

PROGRAM = """
import headrace as beam

class Doubled(beam.DoFn):
    def process(self, number):
        yield 2 * number

with beam.Pipeline() as pipeline:
    _ = pipeline | beam.Create([1, 2]) | beam.ParDo(Doubled()) | beam.io.WriteToText("doubled")
"""


def test_workers_do_not_run_the_block(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "doubling_program.py").write_text(PROGRAM)
    try:
        ran = CliRunner().invoke(app, ["run", "doubling_program.py", "--no-progress"])
    finally:
        sys.modules.pop("doubling_program", None)
    assert (ran.exit_code, ran.stdout) == (0, "done: 1 epochs, 2 records in, 2 out, 0 late, 0 dropped\n"), ran.output
    written = [line for path in tmp_path.glob("doubled*") for line in path.read_text().splitlines()]
    assert sorted(written) == ["2", "4"]
