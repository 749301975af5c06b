"""The command `headrace new`: makes a small project to start with, which has a test that passes."""

from __future__ import annotations

import re
import sys
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.ending import MisuseError, endings

_TAKEN = sys.stdlib_module_names | {"headrace", "pyspark", "pytest"}
"""Names of modules that a program must not have: it would be imported in place of these modules."""
_PIPELINE = '''"""Points of each team, minute by minute: what, where, when and how."""

from __future__ import annotations

import json

import headrace as beam
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, TimestampedValue


def parse(line: str) -> TimestampedValue:
    """(team, points), at the time when they were made."""
    score = json.loads(line)
    return TimestampedValue((score["team"], score["points"]), score["time"])


def sums(lines: beam.PCollection, seconds: int = 60) -> beam.PCollection:
    """What: sums. Where: in minutes. When: at the end of each, and again for what comes late. How: corrected."""
    return (
        lines
        | "Parse" >> beam.Map(parse)
        | beam.WindowInto(
            FixedWindows(seconds),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=600,
        )
        | "Sum" >> beam.CombinePerKey(sum)
    )


def row(summed: tuple[str, int], window=beam.DoFn.WindowParam) -> str:
    """A line of the output."""
    team, points = summed
    return f"{window.start.to_utc_datetime():%H:%M:%S} {team} {points}"


def pipeline(pipeline: beam.Pipeline) -> None:
    """The whole, from file to file: `headrace run NAME.py`."""
    lines = pipeline | beam.io.ReadFromText("scores.jsonl")
    _ = sums(lines) | "Row" >> beam.Map(row) | beam.io.WriteToText("sums")


def made(number: int, time=beam.DoFn.TimestampParam) -> str:
    """The score of that number, made at that time, as a line."""
    return json.dumps({"team": ("red", "blue", "green")[number % 3], "points": number % 10, "time": float(time)})


def live(pipeline: beam.Pipeline) -> None:
    """Scores that are made while it runs, 20 a second for a minute: `headrace run NAME.py:live`."""
    lines = pipeline | beam.io.GenerateSequence(0, 1200, rate=20) | "Score" >> beam.Map(made)
    _ = sums(lines, seconds=10) | "Row" >> beam.Map(row) | beam.io.WriteToText("live")
'''
_DATA = """{"team": "red", "points": 5, "time": 1000}
{"team": "blue", "points": 7, "time": 1010}
{"team": "red", "points": 3, "time": 1015}
{"team": "red", "points": 4, "time": 1075}
"""
_TEST = '''"""The sums of a few lines, on time and late, without Spark."""

from __future__ import annotations

import headrace as beam
from headrace.testing.test_stream import TestStream
from headrace.testing.util import assert_that, equal_to

from NAME import sums


def test_late_points_are_added() -> None:
    stream = (
        TestStream()
        .advance_watermark_to(0)
        .add_elements(['{"team": "red", "points": 5, "time": 10}'])
        .advance_watermark_to(60)
        .add_elements(['{"team": "red", "points": 3, "time": 20}'])
        .advance_watermark_to_infinity()
    )
    with beam.Pipeline("LocalRunner") as pipeline:
        assert_that(sums(pipeline | stream), equal_to([("red", 5), ("red", 8)]))
'''
_README = """# NAME

    headrace run NAME.py --runner=LocalRunner            # in memory, to try it
    headrace run NAME.py:live --checkpoint=state         # on Spark; kill it, start it again: it goes on
    headrace inspect state                               # what it keeps
    headrace draw NAME.py                                # what it looks like
    python -m pytest                                     # its test, without Spark (pip install pytest)
"""


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="To be made; its name is the program's.")],
) -> None:
    """Make a small project: a pipeline, some data and a test.

    Example: headrace new scores
    """
    name = folder.resolve().name
    with endings():
        if not name.isidentifier():
            raise MisuseError(
                f"{name!r} cannot be the name of a Python module, which is letters, digits and _ and does not begin "
                f"with a digit; try `headrace new {folder.with_name(_possible_name(name))}`"
            )
        if iskeyword(name) or name in _TAKEN:
            raise MisuseError(
                f"{name!r} is a word or a module of Python's or of Headrace's; try `headrace new "
                f"{folder.with_name(_possible_name(name))}`"
            )
        if folder.exists() and not folder.is_dir():
            raise MisuseError(f"{folder} is there and no folder; choose another name")
        if folder.exists() and any(folder.iterdir()):
            raise MisuseError(f"{folder} is there and not empty; choose another name, or empty it")
        try:
            _write(folder, name)
        except OSError as error:
            raise MisuseError(f"{folder} cannot be made ({error.strerror}); choose a place that can") from error
    typer.echo(f"next: cd {folder} && headrace run {name}.py --runner=LocalRunner")


def _possible_name(name: str) -> str:
    """Return a valid name for a module that is similar to an invalid one.

    >>> [_possible_name(name) for name in ("9lives", "my-lives", "class", "..")]
    ['lives', 'my_lives', 'class_', 'scores']
    """
    found = re.sub(r"\W+", "_", name).strip("_").lstrip("0123456789_") or "scores"
    return f"{found}_" if iskeyword(found) or found in _TAKEN else found


def _write(folder: Path, name: str) -> None:
    files = {f"{name}.py": _PIPELINE, f"test_{name}.py": _TEST, "scores.jsonl": _DATA, "README.md": _README}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (folder / path).write_text(text.replace("NAME", name), encoding="utf-8")
        typer.echo(f"written: {folder / path}")
