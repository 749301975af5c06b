"""Epochs as large as an aim for latency allows: the rule alone, and a run whose clock its own work moves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Context, Record, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import LEAST, USUAL, CheapSize, EpochProgress, EpochSize, RunOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.pipeline.runner_choice import run_options

AIMS = st.floats(0.05, 60.0)


@given(aim=AIMS, fixed=st.floats(0.0, 0.5), each=st.floats(1e-6, 1e-2), first=st.integers(1_000, 1_000_000))
def test_it_converges_to_the_size_that_takes_half_the_aim(aim: float, fixed: float, each: float, first: int) -> None:
    """Where there is always more to read, and an epoch costs something besides its records."""
    size = EpochSize(aim, LEAST, 1_000_000, first)
    wanted = min(max((aim / 2 * (1 - min(fixed, 0.9)) / each), LEAST), 1_000_000)
    cost = fixed * aim / 2
    for _ in range(200):
        size.took(size.records, cost + size.records * each)
    assert size.records == pytest.approx(wanted, rel=0.02)


@given(
    aim=AIMS,
    most=st.integers(1, 2_000_000),
    epochs=st.lists(st.tuples(st.integers(0, 5_000_000), st.floats(0.0, 1e4)), max_size=50),
)
def test_it_stays_between_its_bounds_whatever_happens(aim: float, most: int, epochs: list[tuple[int, float]]) -> None:
    size = EpochSize.of(aim, most)
    for records, seconds in epochs:
        size.took(records, seconds)
        assert min(LEAST, most) <= size.records <= most


@given(epochs=st.lists(st.integers(0, 4_999), max_size=20))
def test_a_stream_that_brings_little_says_nothing_about_large_epochs(epochs: list[int]) -> None:
    size = EpochSize.of(1.0, 1_000_000)
    for records in epochs:
        size.took(records, 0.05)
    assert size.records == 10_000


@given(st.floats(0.1, 10.0))
def test_one_odd_epoch_at_most_halves_it(seconds: float) -> None:
    size = EpochSize.of(1.0, 1_000_000)
    size.took(10_000, seconds)
    assert 5_000 <= size.records <= 20_000


@given(records=st.integers(0, 10_000), seconds=st.floats(0.6, 100.0))
def test_nor_does_one_with_little_to_read_while_the_host_was_busy(records: int, seconds: float) -> None:
    size = EpochSize.of(1.0, 1_000_000)
    size.took(records, seconds)
    assert 5_000 <= size.records <= 10_000


class Slow(Computation):
    """Takes a millisecond of the simulated clock for each record."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def process_record(self, record: Record, context: Context) -> None:
        self._clock.sleep(1_000)
        context.produce("done", record.value)


def test_a_run_finds_the_size_for_its_aim() -> None:
    clock = ManualClock()
    topology = Topology()
    topology.injector("in", BoundedInjector([(number, number) for number in range(60_000)]))
    topology.computation("slow", Slow(clock), {"in": lambda number: number % 7}, ["done"])
    done: list[object] = []
    topology.sink("done", "done", CallSink(lambda epoch, rows: done.extend(value for value, _ in rows)))
    read = [0]

    def note(progress: EpochProgress) -> None:
        read.append(progress.records_in)

    LocalRunner(clock).run_topology(topology, RunOptions(latency_aim=8.0, progress=note))
    sizes = [now - before for before, now in pairwise(read)]
    assert sizes[0] == 10_000, "nothing is known yet"
    assert sizes[-2] == pytest.approx(4_000, rel=0.05), "half of eight seconds, at a millisecond each"
    assert sorted(done) == list(range(60_000))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="latency_aim is 0"):
        RunOptions(latency_aim=0)
    options = run_options(PipelineOptions(["--latency_aim", "0.5", "--no-one_task_epochs"]))
    assert isinstance(options, RunOptions)
    assert (options.latency_aim, options.one_task_epochs) == (0.5, False)


@given(
    records=st.integers(USUAL // 2, 64 * USUAL),
    seconds=st.floats(0.0, 30.0),
    held=st.integers(0, 8 * USUAL),
    waits=st.booleans(),
)
def test_epochs_grow_as_far_as_time_and_memory_allow(records: int, seconds: float, held: int, waits: bool) -> None:
    size = CheapSize(USUAL)
    size.took(records, seconds, held, waits)
    longest, kept, most = (15, USUAL, 64 * USUAL) if waits else (2, USUAL // 2, 4 * USUAL)
    assert USUAL <= size.records <= most
    growth = size.records / records
    if size.records > USUAL:
        assert seconds * growth <= longest * 1.001 and held * growth <= kept * 1.001
    if size.records < most:
        assert seconds * (growth + 1) >= longest * 0.999 or held * (growth + 1) >= kept * 0.999


def test_the_end_of_the_input_says_nothing_about_epochs() -> None:
    size = CheapSize(4 * USUAL)
    size.took(10, 5.0, 10)
    assert size.records == 4 * USUAL


def test_what_the_user_says_holds_however_cheap_epochs_are() -> None:
    size = RunOptions(max_records_per_epoch=2 * USUAL).epoch_size()
    size.took(2 * USUAL, 0.0, 0)
    assert size.records == 2 * USUAL
    assert RunOptions().epoch_size().records == USUAL
    assert isinstance(RunOptions(latency_aim=1.0).epoch_size(), EpochSize)
