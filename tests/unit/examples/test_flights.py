"""The flights example on the local runner: a part of the year, every pane checked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

import headrace as beam
from examples import flights, flights_check
from examples.flights_data import prepare
from examples.flights_progress import ProgressLine
from examples.flights_summary import HOURS, SESSIONS, Question, answer, counted
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress
from tests.unit.examples.flights_panes import expected_panes

LIMIT = 10_000


@pytest.fixture(scope="module")
def replay_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("replay"), LIMIT)


class Run:
    """The example's pipeline, run; what it wrote and what it said on the way."""

    def __init__(self, replay_path: Path, out: Path, epoch: int, runner: str = "LocalRunner") -> None:
        self.progress: list[EpochProgress] = []
        self.replay_path = replay_path
        self.replay = pd.read_parquet(replay_path)
        options = PipelineOptions([], progress=self.progress.append, max_records_per_epoch=epoch)
        pipeline = beam.Pipeline(runner, options)
        flights.build(pipeline, replay_path, out)
        self.counters: Mapping[str, Mapping[str, int]] = pipeline.run().counters
        self.out = out

    @property
    def epoch_ends(self) -> list[int]:
        return [progress.records_in for progress in self.progress]

    def panes(self, folder: str) -> pd.DataFrame:
        return pd.read_parquet(self.out / folder)


@pytest.fixture(scope="module", params=[50, 2_000, LIMIT])
def run(request: pytest.FixtureRequest, replay_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(replay_path, tmp_path_factory.mktemp("out"), request.param)


@pytest.mark.parametrize(("question", "folder"), [(HOURS, "hours"), (SESSIONS, "sessions")])
def test_every_final_value_is_that_of_pandas_and_every_flight_is_accounted_for(
    run: Run, question: Question, folder: str
) -> None:
    found = answer(question, run.panes(folder), run.replay, run.counters, run.epoch_ends, flights.LATENESS)
    assert found.differences.empty
    assert found.records == run.replay["delay_min"].notna().sum() == found.contributing + found.dropped
    assert found.dropped == found.expected.dropped
    assert found.right


def test_every_pane_of_the_delays_is_as_worked_out_by_hand(run: Run) -> None:
    found = run.panes("hours").sort_values(["origin", "window_start", "index"], ignore_index=True)
    expected = expected_panes(run.replay, run.epoch_ends)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert found["timing"].nunique() == (2 if len(run.epoch_ends) == 1 else 3)


def test_one_flight_is_dropped_when_epochs_are_small(run: Run) -> None:
    assert counted(run.counters, "delays", "dropped_late") == (1 if len(run.epoch_ends) == LIMIT // 50 else 0)


def test_the_usual_delay_sees_every_flight(run: Run) -> None:
    judged, dropped = (counted(run.counters, "usual", counter) for counter in ("judged", "dropped_late"))
    assert judged + dropped == LIMIT
    before = flights_check.watermark_before(
        run.replay["scheduled_us"].to_numpy(), run.epoch_ends, flights.LATENESS.max_delay_us
    )
    hour_us = flights_check.HOUR_US
    late = run.replay["scheduled_us"] // hour_us * hour_us + hour_us <= before
    assert dropped == late.sum()


def test_progress_tells_the_whole_story(run: Run) -> None:
    last = run.progress[-1]
    assert last.records_in == LIMIT
    assert last.records_out == sum(len(list_of) for list_of in map(run.panes, _written(run)))
    assert last.dropped == sum(counters.get("dropped_late", 0) for counters in run.counters.values())
    watermarks = [progress.watermark for progress in run.progress]
    assert watermarks == sorted(watermarks)
    assert last.clock == run.replay["reported_us"].max()


def _written(run: Run) -> list[str]:
    return [folder.name for folder in run.out.iterdir() if any(folder.iterdir())]


def test_the_command_prints_what_it_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.flights", "--runner", "LocalRunner", "--limit", "5000"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "watermark at the end" in done.stdout
    assert "✓ delays by hour: all" in done.stdout
    assert "✓ sessions: all" in done.stdout
    assert "✗" not in done.stdout


def test_a_resumed_run_is_checked_as_one_epoch() -> None:
    from rich.console import Console

    line = ProgressLine(Console(), 100)
    line.show(EpochProgress(7, 60, 0, 0, 0, 0, 0, 0, 0.1))
    assert line.epoch_ends == [100]
    line = ProgressLine(Console(), 100)
    line.show(EpochProgress(1, 60, 0, 0, 0, 0, 0, 0, 0.1))
    line.show(EpochProgress(2, 100, 0, 0, 0, 0, 0, 0, 0.1))
    assert line.epoch_ends == [60, 100]
