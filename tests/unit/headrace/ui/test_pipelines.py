"""Snapshots of checkpoints and of a run: status, figures, what watermarks wait for, key intervals, the graph."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from headrace.lowlevel import StepError, Topology
from headrace.lowlevel.storage.local_objects import LocalObjects
from headrace.runners.engine.options import EpochProgress
from headrace.ui import checkpoint_reader, pipelines
from headrace.ui.checkpoint_reader import CheckpointReader
from headrace.ui.pipelines import NothingStoredError, RunningPipeline, StoredPipeline, is_alive, status_of
from headrace.ui.snapshot import Phase, PipelineSnapshot
from tests.pageruns import finished, scores, stopped


def seen(place: str, alive: bool | None = False) -> PipelineSnapshot:
    with patch.object(pipelines, "is_alive", lambda owner: alive):
        return StoredPipeline(place).snapshot()


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> str:
    return finished(tmp_path_factory.mktemp("ended") / "scores")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stopped(tmp_path_factory.mktemp("broken") / "scores")


def test_a_run_that_has_ended(ended: str) -> None:
    shown = seen(ended)
    assert (shown.title, shown.status.phase, shown.live) == ("scores", Phase.FINISHED, False)
    assert shown.totals is not None
    assert (shown.totals.records_in, shown.totals.dropped, shown.totals.late) == (21, 1, 1)
    assert (shown.totals.watermark.text, shown.totals.in_rate) == ("the end", None)
    rows = {step.step: step for step in shown.steps}
    assert (rows["Scores"].records_out, rows["Sum"].records_in, rows["Sum"].dropped) == (21, 21, 1)
    assert rows["Check"].records_in == 21


def test_a_run_whose_driver_has_ended_says_so_and_what_its_watermarks_wait_for(broken: str) -> None:
    shown = seen(broken)
    assert shown.status.phase is Phase.DEAD
    assert "the same command goes on from the last commit" in shown.status.sentence
    assert shown.epoch == 7
    assert shown.stored is not None
    rows = {row.step: row for row in shown.stored.watermarks}
    assert rows["Sum"].input.text == "1970-01-01 00:02:10"
    assert rows["Sum"].output.text == "1970-01-01 00:02:00"
    assert "window from 1970-01-01T00:02:00Z" in rows["Sum"].held_by
    assert rows["Sum"].waits_for == "source Scores, which is at 1970-01-01 00:02:10"
    assert rows["Best"].waits_for.startswith("step Sum: key ")
    assert "window from 1970-01-01T00:02:00Z" in rows["Best"].waits_for
    assert [(source.source, source.ended) for source in shown.stored.sources] == [("Scores", False)]


@pytest.mark.parametrize(("alive", "phase"), [(None, Phase.RUNNING), (True, Phase.RUNNING), (False, Phase.DEAD)])
def test_a_commit_of_just_now(broken: str, alive: bool | None, phase: Phase) -> None:
    assert seen(broken, alive).status.phase is phase


@pytest.mark.parametrize(("alive", "phase"), [(None, Phase.SILENT), (True, Phase.WAITING), (False, Phase.DEAD)])
def test_a_commit_of_long_ago(alive: bool | None, phase: Phase) -> None:
    assert status_of(1_000.0, 5_000.0, False, alive).phase is phase
    assert status_of(1_000.0, 5_000.0, True, alive).phase is Phase.FINISHED
    assert status_of(None, 5_000.0, False, alive).phase is (Phase.DEAD if alive is False else Phase.EMPTY)
    assert status_of(1_000.0, 5_000.0, False, None, taken=4_990.0).phase is Phase.RUNNING, "another driver goes on"


def test_a_process_that_has_ended_is_known_on_its_own_machine_only() -> None:
    owner = "local runner on here, process 4194399"
    assert is_alive(owner, host="here") is False
    assert is_alive(owner, host="there") is None
    assert is_alive("somebody", host="here") is None


def test_a_snapshot_is_json_that_a_browser_reads(ended: str, broken: str) -> None:
    for place in (ended, broken):
        text = json.dumps(asdict(seen(place)), allow_nan=False)
        numbers = [number for number in _numbers(json.loads(text)) if isinstance(number, int)]
        assert max(map(abs, numbers)) < 2**53, "larger ones are not exact in a browser"


def _numbers(value: object) -> list[object]:
    if isinstance(value, dict):
        return [number for its in value.values() for number in _numbers(its)]
    if isinstance(value, list):
        return [number for its in value for number in _numbers(its)]
    return [value]


def test_key_intervals_have_their_files(broken: str) -> None:
    shown = seen(broken)
    assert shown.stored is not None
    assert [(level.level, list(level.steps)) for level in shown.stored.levels] == [(1, ["Sum"]), (2, ["Best"])]
    for level in shown.stored.levels:
        assert (level.intervals[0].start, level.intervals[-1].stop) == (0.0, 1.0)
    assert shown.stored.levels[0].intervals[0].size > 0


@pytest.mark.parametrize(("keys", "hot"), [(1, 1), (200, 0)])
def test_an_interval_with_far_more_than_others_is_hot(tmp_path: Path, keys: int, hot: int) -> None:
    rows = [((f"team {n % keys}", n), n * 1_000) for n in range(200)]
    # Stopped, since a run that has ended keeps no state.
    with suppress(StepError):
        scores(rows, 199, checkpoint=str(tmp_path), intervals=8, record=False, max_records_per_epoch=150).run()
    shown = seen(str(tmp_path))
    assert shown.stored is not None
    level = shown.stored.levels[0].intervals
    assert len(level) == 8
    assert [row.hot for row in level].count(True) == hot
    assert all(row.hot == (row.size == max(each.size for each in level)) for row in level if hot)


def test_the_graph_has_the_steps_of_the_program_and_none_of_the_engine(tmp_path: Path) -> None:
    pipeline = StoredPipeline(finished(tmp_path / "state", record=True))
    pipeline.snapshot()
    graph = pipeline.graph()
    titles = {box.name: box.title for box in graph.across.boxes}
    assert set(titles.values()) == {box.title for box in graph.down.boxes} == {"Scores", "Check", "Sum", "Rank", "Best"}
    arrows = {(titles[each.source], titles[each.target], each.shuffled) for each in graph.across.arrows}
    assert arrows == {
        ("Scores", "Check", False),
        ("Check", "Sum", True),
        ("Sum", "Rank", False),
        ("Rank", "Best", True),
    }
    steps = {box.first for box in graph.across.boxes} | {box.last for box in graph.across.boxes}
    assert steps <= {step.step for step in pipeline.snapshot().steps}, "each has its figures"
    for place in (graph.across, graph.down):
        assert all(box.x >= 0 and box.x + box.width <= place.width for box in place.boxes)
        assert all(box.y >= 0 and box.y + box.height <= place.height for box in place.boxes)
    assert "Sum/recorded input" not in {step.step for step in pipeline.snapshot().steps}


def test_new_commits_are_followed_and_a_new_checkpoint_begins_anew(
    tmp_path: Path, an_hour_passes: Callable[[], None]
) -> None:
    place = tmp_path / "state"
    stopped(place)
    pipeline = StoredPipeline(str(place))
    first = pipeline.snapshot()
    finished(place)
    assert pipeline.snapshot().epoch == first.epoch, "it is read once a second at most"
    an_hour_passes()
    later = pipeline.snapshot()
    assert later.status.phase is Phase.FINISHED
    assert first.epoch == 7 and later.epoch is not None and later.epoch > 7
    assert later.history is not None and len(later.history.clocks) == first.epoch + 1
    _remove(place)
    stopped(place)
    an_hour_passes()
    assert pipeline.snapshot().epoch == 7


def test_a_new_checkpoint_with_the_numbers_of_the_one_before_has_its_own_facts(
    tmp_path: Path, an_hour_passes: Callable[[], None]
) -> None:
    place = tmp_path / "state"
    stopped(place)
    pipeline = StoredPipeline(str(place))
    pipeline.snapshot()
    _remove(place)
    stopped(place, rows=[(("green", n), 10 * n * 1_000_000) for n in range(20)])
    an_hour_passes()
    shown = pipeline.snapshot()
    assert shown.epoch == 7
    assert shown.stored is not None
    assert "key green" in shown.stored.watermarks[0].held_by


def test_what_was_committed_while_nobody_looked_is_found_in_the_log(
    tmp_path: Path, an_hour_passes: Callable[[], None]
) -> None:
    place = str(tmp_path / "state")
    stopped(Path(place))
    pipeline = StoredPipeline(place)
    first = pipeline.snapshot()
    for sample in pipeline._course.samples:
        object.__setattr__(sample, "clock", sample.clock - 60_000_000)
    finished(Path(place))
    an_hour_passes()
    later = pipeline.snapshot()
    assert first.epoch is not None and later.epoch is not None and later.epoch > first.epoch + 1
    assert later.history is not None
    assert later.history.epochs == list(range(1, later.epoch + 1))


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()


def test_a_checkpoint_that_goes_away_is_told_and_what_was_seen_stays(
    tmp_path: Path, an_hour_passes: Callable[[], None]
) -> None:
    pipeline = StoredPipeline(stopped(tmp_path / "state"))
    pipeline.snapshot()
    _remove(tmp_path / "state")
    an_hour_passes()
    shown = pipeline.snapshot()
    assert shown.status.phase is Phase.UNREADABLE
    assert "there is no checkpoint" in shown.status.sentence
    assert shown.epoch == 7


def test_reading_waits_longer_the_longer_it_took(tmp_path: Path) -> None:
    times = iter([0.0, 0.5, 2.0, 49.0, 51.0, 51.5])
    place = stopped(tmp_path / "state")
    clocks = SimpleNamespace(monotonic=times.__next__, thread_time=iter([0.0, 0.2, 0.2, 0.4]).__next__)
    with patch.object(checkpoint_reader, "time", clocks):
        reader = CheckpointReader(place, share=0.004)
        assert reader.look(), "at 0.0 s, and it takes a fifth of a second"
        assert [reader.look() for _ in range(3)] == [False, False, True]


def test_nobody_reads_the_checkpoint_of_a_run_that_nobody_looks_at(tmp_path: Path) -> None:
    pipeline = RunningPipeline("scores", str(tmp_path / "state"))
    with patch.object(CheckpointReader, "open", side_effect=AssertionError("nobody looks")):
        scores(checkpoint=str(tmp_path / "state"), progress=pipeline.note).run()
    shown = pipeline.snapshot()
    assert shown.stored is not None and shown.stored.epoch == shown.epoch


def test_a_run_without_a_checkpoint_has_figures_and_a_graph(tmp_path: Path) -> None:
    program = scores()
    pipeline = RunningPipeline("scores.py", topology=program.topology)
    assert pipeline.snapshot().status.phase is Phase.STARTING
    scores(progress=pipeline.note).run()
    shown = pipeline.snapshot()
    assert (shown.live, shown.stored, shown.place) == (True, None, "")
    assert shown.totals is not None and shown.totals.records_in == 21
    assert set(shown.epochs[-1].phases) == {"tasks", "commit", "deliver"}
    assert {box.step for box in pipeline.graph().across.boxes} >= {"Scores", "Sum", "Best"}


def test_a_run_that_starts_shows_what_it_continues_and_no_rates(broken: str, tmp_path: Path) -> None:
    """Spark takes half a minute to start; a page that said that nothing is committed would be untrue for so long."""
    first = RunningPipeline("scores.py", str(tmp_path / "state")).snapshot()
    assert (first.status.phase, first.epoch, first.totals) == (Phase.STARTING, None, None)
    assert "first epoch appears here" in first.status.sentence
    assert "this is the last commit" not in first.status.sentence
    with patch.object(pipelines, "is_alive", lambda owner: True):
        again = RunningPipeline("scores.py", broken).snapshot()
    assert (again.title, again.live, again.status.phase, again.epoch) == ("scores.py", True, Phase.STARTING, 7)
    assert "this is the last commit" in again.status.sentence
    assert again.status.committed is not None
    assert again.stored is not None and again.stored.epoch == 7
    assert again.totals is not None and (again.totals.records_in, again.totals.in_rate) == (14, None)


def test_a_run_that_fails_before_its_first_epoch_says_so_beside_what_it_continues(broken: str) -> None:
    pipeline = RunningPipeline("scores.py", broken)
    pipeline.end(ValueError("no score"))
    shown = pipeline.snapshot()
    assert (shown.status.phase, shown.epoch) == (Phase.FAILED, 7)


def test_without_topology_and_checkpoint_the_graph_says_what_to_do() -> None:
    with pytest.raises(NothingStoredError, match="run the pipeline with --checkpoint=PLACE"):
        RunningPipeline("x").graph()


def test_a_program_that_cannot_be_compiled_has_no_graph_but_a_reason() -> None:
    def topology() -> Topology:
        raise ValueError("a step is wrong")

    with pytest.raises(NothingStoredError, match="The graph cannot be made: a step is wrong"):
        RunningPipeline("x", topology=topology).graph()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    place = finished(tmp_path / "state")
    before = {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")}
    with patch.object(LocalObjects, "put_if_absent", side_effect=AssertionError("written")):
        pipeline = StoredPipeline(place)
        pipeline.snapshot()
        pipeline.graph()
    assert {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")} == before


def test_the_topology_is_only_made_for_a_graph() -> None:
    def topology() -> Topology:
        raise AssertionError("nobody looks")

    RunningPipeline("x", topology=topology).snapshot()


def test_a_run_whose_epochs_are_long_does_not_wait() -> None:
    pipeline = RunningPipeline("x")
    pipeline.note(EpochProgress(1, 1, 1, 0, 0, 0, int((time.time() - 50) * 1e6), 0, 49.0))
    assert pipeline.snapshot().status.phase is Phase.RUNNING
