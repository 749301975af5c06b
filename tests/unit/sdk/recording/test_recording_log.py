"""A recording in the checkpoint of its run: one over all its epochs, whoever drove them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from examples.streaming102 import sessions
from examples.streaming102.scores import HEURISTIC
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import Arrival, Recording, StepRecording
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler
from headrace.sdk.recording.checkpoint_recording import JOIN_AT, RecordLog
from tests.recorded import record
from tests.stores import DictStore


class Killed(Exception):
    """The driver is gone."""


class Killing(Scheduler):
    """Kills a driver at a step of an epoch."""

    def __init__(self, name: str, epoch: int) -> None:
        super().__init__()
        self._at = name, epoch

    def step(self, name: str, epoch: int) -> None:
        if name == self._at[0] and epoch >= self._at[1]:
            raise Killed


def run(place: Path, scheduler: Scheduler | None = None, recorded: bool = True) -> StepRecording | None:
    """The example on a checkpoint."""
    options = PipelineOptions([f"--checkpoint={place}"])
    pipeline = beam.Pipeline(LocalRunner(scheduler=scheduler), options, record=recorded)
    sessions.build(pipeline | HEURISTIC.source())
    result = pipeline.run()
    return result.recording.step() if recorded else None


@pytest.mark.parametrize("step", ["commit", "committed", "deliver", "delivered"])
def test_one_recording_over_all_drivers(tmp_path: Path, step: str) -> None:
    whole = record(sessions.build, HEURISTIC)
    for epoch in (3, 20, 21, 47):
        with pytest.raises(Killed):
            run(tmp_path, Killing(step, epoch))
    ran = run(tmp_path)
    assert ran is not None
    assert replace(ran, restarts=()) == whole
    assert RecordLog(checkpoint_store(str(tmp_path))).read() == Recording((ran,))
    assert whole.unrecorded == []
    # Of four drivers that follow, two may begin at the same instant of the example's clock.
    assert 3 <= len(ran.restarts) <= 4


def test_epochs_of_a_run_that_was_not_recorded_are_missing_and_said_to_be(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, Killing("commit", 11))
    with pytest.raises(Killed):
        run(tmp_path, Killing("commit", 31), recorded=False)
    seen = run(tmp_path)
    assert seen is not None
    # Epoch 11, and one more for each change of what is tapped.
    assert seen.unrecorded == [(11, 30)]
    whole = record(sessions.build, HEURISTIC)
    assert 0 < len(seen.arrivals) < len(whole.arrivals) and set(seen.arrivals) < set(whole.arrivals)


def test_a_run_may_go_on_unrecorded_though_a_recorded_epoch_was_not_delivered(tmp_path):
    # The first epoch with an element, whose rows for the recording are then in the commit only.
    with pytest.raises(Killed):
        run(tmp_path, Killing("deliver", 2))
    assert run(tmp_path, recorded=False) is None


def test_objects_are_joined(tmp_path):
    run(tmp_path)
    log = RecordLog(checkpoint_store(str(tmp_path)))
    before = log.read()
    assert len(log.objects()) == 52 < JOIN_AT
    log.join()
    assert log.objects() == [(1, 52)] and len(log.store.list(object_names.RECORDINGS)) == 1
    assert log.read() == before
    # Again, and what a driver that was replaced writes late, makes no difference.
    log.join()
    log.add((7, 7), Recording((StepRecording("Sum", epochs=((7, 7),)),)))
    assert log.read() == before


@given(st.lists(st.sampled_from(["add", "join", "again"]), max_size=30))
def test_whatever_is_joined_when_everything_is_there_once(deeds: list[str]) -> None:
    log = RecordLog(DictStore())
    epoch = 0
    for deed in deeds:
        epoch += deed == "add"
        if deed == "join":
            log.join()
        elif epoch:
            seen = StepRecording("Sum", (Arrival(epoch, epoch, "a", epoch),), epochs=((epoch, epoch),))
            log.add((epoch, epoch), Recording((seen,)))
    steps = log.read().steps
    assert [its.value for step in steps for its in step.arrivals] == list(range(1, epoch + 1))
    assert [step.epochs for step in steps] == [((1, epoch),)] * bool(epoch)


def test_a_damaged_object_is_named(tmp_path):
    run(tmp_path)
    path = tmp_path / object_names.recording(5, 5)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"recordings/0+5-0+5 in .* is damaged"):
        RecordLog(checkpoint_store(str(tmp_path))).read()
