"""`headrace run` at a terminal: what a person sees while it runs, when it is stopped, and in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminal import PROGRAM, Terminal

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="tmux is missing (Debian, Ubuntu: apt-get install tmux)")

COUNTS = """
import headrace as beam
from headrace.transforms.window import FixedWindows, TimestampedValue

def team(number, time=beam.DoFn.TimestampParam):
    return TimestampedValue((f"team {number % 5}", 1), time - (30 if number % 50 == 49 else 0))

def pipeline(pipeline):
    (
        pipeline
        | "Numbers" >> beam.io.GenerateSequence(0, 600, rate=200)
        | "Time" >> beam.Map(team)
        | beam.WindowInto(FixedWindows(1))
        | "Count" >> beam.CombinePerKey(sum)
        | "Write" >> beam.io.WriteToText("counts")
    )
"""
RUN = "clear; headrace run counts.py --runner=LocalRunner --checkpoint=state; echo ended with $?"


def epochs(lines: list[str]) -> list[int]:
    """The numbers that stand behind the word epoch at the beginning of a line."""
    return [int(line.split()[1].replace(",", "")) for line in lines if line.startswith("epoch ")]


def begun(lines: list[str]) -> bool:
    """Whether the table of steps is there."""
    return bool(epochs(lines)) and any(line.startswith("Count ") for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counts.py").write_text(COUNTS)
    return tmp_path


def test_progress_is_drawn_in_place_and_stays_when_the_run_is_over(folder: Path) -> None:
    with Terminal(folder, columns=110) as terminal:
        terminal.type(RUN)
        [early] = epochs(terminal.wait(begun))
        [later] = epochs(terminal.wait(lambda lines: begun(lines) and epochs(lines) != [early]))
        assert later > early
        lines = terminal.wait(lambda lines: "ended with 0" in lines)
    assert len(epochs(lines)) == 1, "the display was drawn anew instead of in place"
    told = " ".join(lines)
    for word in (
        "in 600",
        "/s)",
        "late 12",
        "dropped 12",
        "duplicates 0",
        "watermark the end",
        "lag",
        "state",
        "tasks",
    ):
        assert word in told
    heading = next(line for line in lines if line.startswith("step "))
    assert heading.split() == ["step", "in", "out", "late", "dropped", "watermark", "lag", "state"]
    done = next(place for place, line in enumerate(lines) if line.startswith("done: "))
    steps = [line.split()[0] for line in lines[lines.index(heading) + 1 : done]]
    assert list(dict.fromkeys(step.partition("/")[0] for step in steps)) == [
        "Numbers",
        "Time",
        "WindowInto",
        "Count",
        "Write",
    ]


def test_a_narrow_terminal_has_what_tells_most_and_ctrl_c_says_how_to_go_on(folder: Path) -> None:
    with Terminal(folder, columns=60) as terminal:
        terminal.type(RUN)
        lines = terminal.wait(begun)
        heading = next(line for line in lines if line.startswith("step "))
        assert {"in", "watermark", "lag"} <= set(heading.split())
        assert not any("…" in line for line in lines)
        terminal.interrupt()
        lines = terminal.wait(lambda lines: "ended with 130" in lines)
        [epoch] = epochs(lines)
        # Folded between words.
        said = " ".join(line.strip() for line in lines)
        assert f"interrupted: epoch {epoch:,} is committed; run the same command again to go on from there" in said
        assert len(epochs(lines)) == 1
        terminal.type(RUN)
        lines = terminal.wait(lambda lines: "ended with 0" in lines)
    assert epochs(lines)[-1] > epoch
    assert "600 records in" in " ".join(lines)
