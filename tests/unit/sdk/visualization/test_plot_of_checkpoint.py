"""Pictures of a checkpoint: of the recording that lies in it, and of what it knows of a run that was not recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as beam
from examples.streaming102 import early_and_late, fixed_windows_streaming, sessions
from examples.streaming102.panes import Build
from examples.streaming102.scores import HEURISTIC, at
from headrace import plot
from headrace.cli.app import app
from headrace.lowlevel import BoundedInjector, Topology
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.time import SECOND
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import Recording, RecordingError, StepRecording, recording_at
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.recording.state_snapshot import OpenWindow, StateSnapshot, WaitingTimer
from headrace.sdk.visualization.plots.panel import panels
from tests.recorded import record
from tests.unit.sdk.recording.test_call_recorder import Total

MICROS = 1_000_000


class Stopped(Exception):
    """Enough."""


def stop_at(epoch: int) -> object:
    def progress(told: EpochProgress) -> None:
        if told.epoch == epoch:
            raise Stopped

    return progress


def stopped(place: Path, build: Build, recorded: bool = False, epoch: int = 20) -> None:
    """A run that is over before its input is."""
    options = PipelineOptions([f"--checkpoint={place}"], progress=stop_at(epoch))
    pipeline = beam.Pipeline("LocalRunner", options, record=recorded)
    build(pipeline | HEURISTIC.source())
    with pytest.raises(Stopped):
        pipeline.run()


def known(place: Path) -> StepRecording:
    return recording_at(place).step()


def window(start: str, end: str) -> OpenWindow:
    return OpenWindow("red", at(start) * MICROS, at(end) * MICROS)


def test_the_recording_that_lies_in_a_checkpoint(tmp_path):
    stopped(tmp_path / "state", sessions.build, recorded=True)
    step, whole = known(tmp_path / "state"), record(sessions.build, HEURISTIC)
    assert (step.epochs, step.committed, step.unrecorded) == (((1, 20),), 20, [])
    assert step.arrivals == whole.arrivals[: len(step.arrivals)] and step.panes == whole.panes[: len(step.panes)]
    plot.html(tmp_path / "state", tmp_path / "page.html")
    (tmp_path / "saved.json").write_text(recording_at(tmp_path / "state").to_json())
    plot.html(str(tmp_path / "saved.json"), tmp_path / "again.html")
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "again.html").read_bytes()


@pytest.mark.parametrize(
    ("build", "windows"),
    [
        (
            sessions.build,
            {window("12:00:45", "12:01:45"), window("12:02:30", "12:03:30"), window("12:03:40", "12:05:40")},
        ),
        (early_and_late.build, {window("12:00", "12:02"), window("12:02", "12:04"), window("12:04", "12:06")}),
        (fixed_windows_streaming.build, {window("12:02", "12:04"), window("12:04", "12:06")}),
    ],
)
def test_what_a_checkpoint_knows_of_a_run_that_was_not_recorded(tmp_path, build, windows):
    stopped(tmp_path, build)
    step, whole = known(tmp_path), record(build, HEURISTIC)
    assert step.standing is not None and sorted(map(repr, step.standing.windows)) == sorted(map(repr, windows))
    assert (step.arrivals, step.panes) == ((), ())
    clock = at("12:07") * MICROS
    assert step.standing.clock == clock
    assert step.watermarks == tuple(move for move in whole.watermarks if move.processing_time <= clock)[-3:]
    (panel,) = panels(step, None, None, None)
    assert "not recorded: inputs and results are unknown" in panel.remark
    assert "for the whole plot, run with --record" in panel.remark
    assert [bar.text.removeprefix("… ") for bar in panel.scene.bars] == ["red"] * len(windows)
    for bar in panel.scene.bars:
        assert bar.room.bottom <= panel.scene.now
    assert panel.scene.actual[-1][1] == panel.scene.now, "nobody knows the watermark of later"


def test_timers_of_computations_that_wait(tmp_path):
    made = Topology()
    made.injector("pairs", BoundedInjector([(("a", 5), 10 * SECOND), (("b", 1), 80 * SECOND)]))
    made.computation("total", Total(), inputs={"pairs": lambda pair: pair[0]}, outputs=["totals"])
    with pytest.raises(Stopped):
        LocalRunner(ManualClock()).run_topology(
            made, RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=1, progress=stop_at(1))
        )
    step = known(tmp_path)
    assert step.standing is not None and step.standing.windows == ()
    assert set(step.standing.timers) == {
        WaitingTimer("a", 60 * SECOND, "minute", False),
        WaitingTimer("a", 30 * SECOND, "idle", True),
    }
    (panel,) = panels(step, None, None, None)
    assert {(bell.is_wall, bell.fired_at) for bell in panel.scene.bells} == {(True, None), (False, None)}


def test_an_open_window_has_its_key_if_there_is_room() -> None:
    standing = StateSnapshot(
        5 * MICROS, (OpenWindow("b", 0, 60 * MICROS), OpenWindow("long name", 60 * MICROS, 62 * MICROS))
    )
    (panel,) = panels(StepRecording("Sum", standing=standing), None, None, None)
    assert [bar.text for bar in panel.scene.bars] == ["b", ""]


def test_wrong_places(tmp_path):
    with pytest.raises(RecordingError, match=r"neither a recording nor a checkpoint at .*nowhere; give a file that"):
        plot.html(tmp_path / "nowhere", tmp_path / "page.html")
    with pytest.raises(CheckpointError, match="there is no checkpoint at memory://"):
        plot.html("memory://", tmp_path / "page.html")
    (tmp_path / "other.txt").write_text("text")
    with pytest.raises(RecordingError, match=r"other\.txt is no recording"):
        recording_at(tmp_path / "other.txt")
    with pytest.raises(RecordingError, match="a picture is drawn of a recording, got 3"):
        plot.html([3], tmp_path / "page.html")
    with pytest.raises(ValueError, match=r"named 'x\.gif' would be of no kind that is known; end its name in \.svg"):
        plot.save(Recording(), "x.gif")


class TestCommand:
    """`headrace plot`."""

    def run(self, *arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["plot", *map(str, arguments)])
        return result.exit_code, re.sub(r"\s+", " ", result.output)

    def test_a_page_of_a_checkpoint(self, tmp_path):
        stopped(tmp_path / "state", sessions.build, recorded=True)
        assert self.run(tmp_path / "state", "--output", tmp_path / "page.html") == (
            0,
            f"written: {tmp_path / 'page.html'} ",
        )
        assert "25" in (tmp_path / "page.html").read_text(encoding="utf-8")
        code, told = self.run(tmp_path / "state")
        assert code == 0 and "CombinePerKey(sum): 5 inputs, 3 results, 1 keys" in told

    def test_its_help_has_an_example(self):
        code, told = self.run("--help")
        assert code == 0 and "Example: headrace plot state/scores" in told

    def test_wrong_input(self, tmp_path):
        for arguments, words in (
            ([tmp_path / "nowhere"], "neither a recording nor a checkpoint"),
            (["memory://"], "there is no checkpoint at memory://"),
        ):
            code, told = self.run(*arguments)
            assert code == 2 and words in told
        stopped(tmp_path / "state", sessions.build)
        for options, words in (
            (["--output=x.gif"], "--output x.gif ends in .gif; give a name that ends in .html, .svg, .png or .pdf"),
            (["--output=x.html", "--step=Mean"], "the recording has no step named 'Mean'"),
            (["--output=x.html", "--key=blue"], "has seen no key 'blue'; it has seen 'red'"),
        ):
            code, told = self.run(tmp_path / "state", *options)
            assert code == 2 and words in told
