"""Tables of databases and lakes: a driver dies at any step, also inside the writing, or comes late."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as beam
from headrace.io import SinkTakenError
from headrace.lowlevel import FencedError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from tests.depth import faults
from tests.faults.crashes.tablelives import MODES, ROWS, build, expected
from tests.faults.crashes.tableworlds import WORLDS, new_world, staged
from tests.faults.crashes.test_crash_at_every_step import FixedSize
from tests.postgresserver import server_or_skip

pytestmark = pytest.mark.faults


def attempt(world, mode, checkpoint, scheduler):
    """One life of a driver; False if it crashed."""
    options = PipelineOptions([f"--checkpoint={checkpoint}", "--max_records_per_epoch=16"])
    try:
        with beam.Pipeline(LocalRunner(scheduler=scheduler, intervals=2, parallelism=2), options) as pipeline:
            build(pipeline, world, mode)
    except Crash:
        return False
    return True


@pytest.fixture(scope="module")
def address():
    yield from server_or_skip()


@pytest.fixture(params=sorted(WORLDS))
def world(request, tmp_path, monkeypatch):
    made = new_world(request.param, tmp_path / "world", request, monkeypatch)
    # The statements are those of SQLite, and each life costs several times as much.
    made.faults = faults(quick=3 if made.name == "postgres" else 10, full=1000)
    return made


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_dies_at_any_step(world, mode, tmp_path, tally):
    run = tally(row=1)
    scheduler = FixedSize(0)
    assert attempt(world, mode, tmp_path / "reference", scheduler)
    assert world.rows(mode) == expected(mode)
    steps = scheduler.steps
    assert steps > 20
    chosen = list(range(1, steps + 1))
    for step in chosen[:: max(1, len(chosen) // world.faults)]:
        run.plan()
        world.clear()
        assert not attempt(world, mode, tmp_path / f"at-{step}", FixedSize(step, crash_at=step))
        run.fire()
        run.hit(world.connector)
        assert attempt(world, mode, tmp_path / f"at-{step}", FixedSize(step))
        run.compare(expected(mode).elements(), world.rows(mode).elements(), f"{world.name}, {mode}, step {step}")


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_dies_inside_the_writing(world, mode, tmp_path, tally):
    run = tally(row=1)
    world.places.reset()
    assert attempt(world, mode, tmp_path / "reference", FixedSize(0))
    moments = world.places.passed
    assert moments >= 6
    chosen = list(range(1, moments + 1))
    for moment in chosen[:: max(1, len(chosen) // world.faults)]:
        run.plan()
        world.clear()
        world.places.reset(crash_at=moment)
        assert not attempt(world, mode, tmp_path / f"at-{moment}", FixedSize(0))
        run.fire()
        run.hit(world.connector)
        world.places.reset()
        assert attempt(world, mode, tmp_path / f"at-{moment}", FixedSize(0))
        run.compare(expected(mode).elements(), world.rows(mode).elements(), f"{world.name}, {mode}, moment {moment}")


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_that_was_replaced_delivers_late(world, mode, tmp_path, tally):
    run = tally(row=3)
    place = tmp_path / "checkpoint"

    class Interrupted(FixedSize):
        """While epoch 2 is to be delivered, another driver takes the checkpoint and finishes the work."""

        def step(self, name, epoch):
            if (name, epoch) == ("deliver", 2):
                run.fire()
                run.hit(world.connector)
                assert attempt(world, mode, place, FixedSize(0))

    run.plan()
    with pytest.raises(FencedError):
        attempt(world, mode, place, Interrupted(0))
    run.compare(expected(mode).elements(), world.rows(mode).elements(), f"{world.name}, {mode}")


class DiesAt(FixedSize):
    """Crashes at a step of an epoch."""

    def __init__(self, name, epoch):
        super().__init__(0)
        self._place = (name, epoch)

    def step(self, name, epoch):
        if (name, epoch) == self._place:
            raise Crash


@pytest.mark.parametrize("step", ["committed", "delivered"])
def test_a_driver_dies_in_each_epoch(world, step, tmp_path, tally):
    """Each commit tells the next driver which run it is, also the first one after a restart."""
    run = tally(row=2)
    for epoch in (1, 2, 3):
        run.plan()
        assert not attempt(world, "append", tmp_path / "checkpoint", DiesAt(step, epoch))
        run.fire()
        run.hit(world.connector)
    assert attempt(world, "append", tmp_path / "checkpoint", FixedSize(0))
    run.compare(Counter(ROWS).elements(), world.rows("append").elements(), f"{world.name}, {step}")


def test_a_run_that_begins_anew_keeps_its_predecessor_out(world, tmp_path):
    sinks = [world.writing("append").sink() for _ in range(2)]
    sinks[0].begin(True)
    sinks[0].deliver(1, staged(sinks[0], 1, ("a", 1)))
    sinks[1].begin(True)
    sinks[1].deliver(1, staged(sinks[1], 1, ("b", 1)))
    with pytest.raises(
        SinkTakenError, match=r"epoch 2 is committed, but was not written to .* under the sink's name 'append'"
    ):
        sinks[0].deliver(2, staged(sinks[0], 2, ("a", 2)))
    sinks[1].deliver(2, staged(sinks[1], 2, ("b", 2)))
    assert world.rows("append") == Counter([("a", 1), ("b", 1), ("b", 2)])


def test_the_same_pipeline_runs_again_on_an_empty_checkpoint(world, tmp_path):
    for number in range(2):
        assert attempt(world, "append", tmp_path / str(number), Scheduler())
    assert world.rows("append") == Counter(ROWS * 2)
