"""The life of user code: set up once, bundles one after another, torn down after the last (on both runners)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest

import headrace as beam
from headrace.lowlevel import (
    BoundedInjector,
    Computation,
    Context,
    InlineComputation,
    Record,
    StepError,
    Topology,
)
from headrace.lowlevel.checkpoint import Consent
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.topology.topology import joined_topology, reduced_topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal
from headrace.runners.engine.messages import MessageKind, Sender, pack_report, unpack_report
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.runners.local.executor import LocalExecutor
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.worker.process import LoadedRuns
from headrace.runners.spark.worker.task_payload import TaskPayload, packed

LIFE = re.compile(r"set (start (\d )+finish )*down ")
"""The hooks of one instance, in order."""


class Diary:
    """A file to which instances in any process write what happens to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = ""

    def note(self, what: object) -> None:
        """Write a line; the first one an instance writes gives it its name."""
        self.name = self.name or uuid4().hex
        with self.path.open("a") as file:
            file.write(f"{self.name} {what}\n")

    def lives(self) -> list[str]:
        """For each instance what happened to it."""
        lives: dict[str, str] = defaultdict(str)
        for line in self.path.read_text().splitlines():
            name, what = line.split()
            lives[name] += f"{what} "
        return list(lives.values())


class Living(beam.DoFn):
    """Keeps a diary."""

    def __init__(self, path: Path, fails_in: str = "") -> None:
        self.diary = Diary(path)
        self._fails_in = fails_in

    def _note(self, what: object) -> None:
        self.diary.note(what)
        if what == self._fails_in:
            raise ValueError("as told")

    def setup(self) -> None:
        self._note("set")

    def start_bundle(self) -> None:
        self._note("start")

    def process(self, element: int) -> Iterator[int]:
        self._note(element % 10)
        yield element

    def finish_bundle(self) -> None:
        self._note("finish")

    def teardown(self) -> None:
        self._note("down")


class LivingSum(beam.CombineFn[int, int, int]):
    """Keeps a diary of what begins and ends, and of every element before the shuffle."""

    def __init__(self, path: Path) -> None:
        self.diary = Diary(path)

    def setup(self) -> None:
        self.diary.note("set")

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self.diary.note("used")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self.diary.note("used")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self.diary.note("used")
        return accumulator

    def teardown(self) -> None:
        self.diary.note("down")


def small_epochs() -> PipelineOptions:
    return PipelineOptions(["--max_records_per_epoch", "6"])


def living(runner: object, folder: Path) -> None:
    """Two fused steps, and one behind a grouping with a combiner."""
    p = beam.Pipeline(runner, small_epochs())
    numbers = p | beam.Create(range(20)) | "One" >> beam.ParDo(Living(folder / "one"))
    pairs = numbers | "Two" >> beam.ParDo(Living(folder / "two")) | beam.Map(lambda x: (x % 3, x))
    totals = pairs | beam.CombinePerKey(LivingSum(folder / "sum")) | beam.Values()
    _ = totals | "Three" >> beam.ParDo(Living(folder / "three"))
    p.run()


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_a_dofn_lives_as_promised(tmp_path: Path, name: str) -> None:
    living(LocalRunner(intervals=2, parallelism=2), tmp_path)
    (life,) = Diary(tmp_path / name).lives()
    assert LIFE.fullmatch(life)
    assert life.count("start") > 1 or name == "three"


def test_each_part_of_a_combiner_is_set_up_and_torn_down_once(tmp_path: Path) -> None:
    living(LocalRunner(intervals=2), tmp_path)
    lives = Diary(tmp_path / "sum").lives()
    assert all(re.fullmatch(r"set (used )*down ", life) for life in lives)
    assert sum("used" in life for life in lives) == 2, "before the shuffle and behind it"


@pytest.mark.spark
def test_on_spark(spark: object, tmp_path: Path) -> None:
    living(SparkRunner(spark, intervals=2), tmp_path)
    for name in ("one", "two", "three"):
        lives = Diary(tmp_path / name).lives()
        # A process that is not reached when the run ends is torn down when it ends itself.
        assert all(LIFE.fullmatch(life + "down " * ("down" not in life)) for life in lives), lives
        assert any("down" in life for life in lives), lives
    assert any(re.fullmatch(r"set (used )+down ", life) for life in Diary(tmp_path / "sum").lives())


@pytest.mark.parametrize("hook", ["start", "7", "finish"])
def test_what_was_set_up_is_torn_down_after_a_failure(tmp_path: Path, hook: str) -> None:
    def failing(p: beam.Pipeline) -> None:
        numbers = p | beam.Create(range(20)) | "One" >> beam.ParDo(Living(tmp_path / "one"))
        _ = numbers | "Two" >> beam.ParDo(Living(tmp_path / "two", int(hook) if hook.isdigit() else hook))

    p = beam.Pipeline("LocalRunner")
    failing(p)
    with pytest.raises(StepError, match="step 'Two'"):
        p.run()
    for name in ("one", "two"):
        (life,) = Diary(tmp_path / name).lives()
        assert life.startswith("set start ") and life.endswith(" down ") and life.count("down") == 1


def test_after_a_failed_setup_only_what_was_set_up_is_torn_down(tmp_path: Path) -> None:
    p = beam.Pipeline("LocalRunner")
    numbers = p | beam.Create([1]) | "One" >> beam.ParDo(Living(tmp_path / "one"))
    _ = numbers | "Two" >> beam.ParDo(Living(tmp_path / "two", "set"))
    with pytest.raises(StepError, match="step 'Two'"):
        p.run()
    assert Diary(tmp_path / "one").lives() == ["set down "]
    assert Diary(tmp_path / "two").lives() == ["set "]


def test_a_teardown_that_fails_is_told_and_spares_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    p = beam.Pipeline("LocalRunner")
    numbers = p | beam.Create([1]) | "One" >> beam.ParDo(Living(tmp_path / "one"))
    _ = numbers | "Two" >> beam.ParDo(Living(tmp_path / "two", "down"))
    p.run()
    assert Diary(tmp_path / "one").lives() == ["set start 1 finish down "]
    (record,) = caplog.records
    assert "failed in teardown" in record.message and "as told" in caplog.text


def test_a_pipeline_runs_again_with_a_life_of_its_own(tmp_path: Path) -> None:
    p = beam.Pipeline("LocalRunner")
    _ = p | beam.Create([1, 2]) | beam.ParDo(Living(tmp_path / "one"))
    p.run()
    p.run()
    assert Diary(tmp_path / "one").lives() == ["set start 1 2 finish down "] * 2


class LivingComputation(Computation):
    """Keeps a diary."""

    def __init__(self, path: Path) -> None:
        self.diary = Diary(path)

    def setup(self) -> None:
        self.diary.note("set")

    def process_record(self, record: Record, context: Context) -> None:
        self.diary.note(record.value)

    def teardown(self) -> None:
        self.diary.note("down")


def test_a_raw_computation_is_torn_down(tmp_path: Path) -> None:
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1), (2, 2)]))
    topology.computation("keyed", LivingComputation(tmp_path / "keyed"), {"in": lambda value: value})
    LocalRunner().run_topology(topology)
    assert Diary(tmp_path / "keyed").lives() == ["set 1 2 down "]


def test_who_has_something_to_tear_down() -> None:
    assert LivingComputation(Path()).has_teardown()
    assert not (Computation().has_teardown() or InlineComputation().has_teardown())
    assert LivingSum(Path()).has_teardown() and beam.combiners.TupleCombineFn(sum, LivingSum(Path())).has_teardown()
    assert not beam.combiners.TupleCombineFn(sum, max).has_teardown()

    def torn(*steps: object) -> set[str]:
        p = beam.Pipeline("LocalRunner")
        collection: object = p | beam.Create([(1, 1)]).with_output_types(object)
        for step in steps:
            collection = collection | step
        return {place.step for place in p.topology().nodes() if place.computation.has_teardown()}

    assert torn(beam.CombineGlobally(sum), beam.Map(str)) == set()
    assert torn("Living" >> beam.ParDo(Living(Path()))) == {"Living"}
    assert torn("All" >> beam.CombineGlobally(LivingSum(Path()))) == {"All/Combine"}


# Every instance is set up once and torn down once, whatever happens around it


class Counted(Computation):
    """Keeps a diary of its set-ups and tear-downs; pickled, it begins a diary entry of its own."""

    def __init__(self, path: Path, fails: bool = False) -> None:
        self.diary = Diary(path)
        self._fails = fails

    def setup(self) -> None:
        self.diary.note("set")
        if self._fails:
            raise ValueError("as told")

    def process_record(self, record: Record, context: Context) -> None:
        context.state = record.value

    def teardown(self) -> None:
        self.diary.note("down")


def counted(folder: Path, *names: str, fails: str = "") -> Topology:
    topology = Topology()
    topology.injector("in", BoundedInjector([(number, number) for number in range(20)]))
    for name in names:
        topology.computation(name, Counted(folder / name, name == fails), {"in": lambda value: value})
    return topology


def lives(folder: Path, *names: str) -> list[str]:
    return [life.strip() for name in names for life in Diary(folder / name).lives()]


def test_with_a_fan_out_each_part_of_a_combiner_is_torn_down(tmp_path: Path) -> None:
    with beam.Pipeline(LocalRunner(intervals=2, parallelism=2), small_epochs()) as p:
        pairs = p | beam.Create(range(20)) | beam.Map(lambda x: (x % 3, x))
        _ = pairs | "Sum" >> beam.CombinePerKey(LivingSum(tmp_path / "sum")).with_hot_key_fanout(2)
    parts = lives(tmp_path, "sum")
    assert all(re.fullmatch(r"set (used )*down", part) for part in parts), parts
    assert sum("used" in part for part in parts) == 3, "before the shuffle, in the shards and behind them"
    assert {place.step for place in p.topology().nodes() if place.computation.has_teardown()} == {"Sum", "Sum#shards"}


def test_a_failing_part_of_several_combiners_ends_those_before_it(tmp_path: Path) -> None:
    class Failing(LivingSum):
        def setup(self) -> None:
            super().setup()
            raise ValueError("as told")

    several = beam.combiners.TupleCombineFn(LivingSum(tmp_path / "one"), Failing(tmp_path / "two"))
    with pytest.raises(ValueError, match="as told"):
        several.setup()
    assert (lives(tmp_path, "one"), lives(tmp_path, "two")) == (["set down"], ["set"])


@pytest.mark.parametrize("parallelism", [1, 3])
def test_of_a_failing_setup_nobody_is_set_up_twice(tmp_path: Path, parallelism: int) -> None:
    topology = counted(tmp_path, "one", "two", "three", fails="two")
    with pytest.raises(StepError, match="step 'two'"):
        LocalRunner(intervals=3, parallelism=parallelism).run_topology(topology)
    assert (lives(tmp_path, "one"), lives(tmp_path, "two")) == (["set down"], ["set"])
    assert not (tmp_path / "three").exists()


def test_what_a_change_of_topology_keeps_lives_on(tmp_path: Path) -> None:
    topology = counted(tmp_path, "stays", "goes")
    ready, run = Event(), []

    class Asking(Scheduler):
        def step(self, name: str, epoch: int) -> None:
            if (name, epoch) == ("plan", 2) and ready.wait(60) and len(run) == 1:
                more = Topology()
                more.computation("comes", Counted(tmp_path / "comes"), {"in": lambda value: value})
                run.append(run[0].changes.request(lambda now: joined_topology(now, more), Consent()))
                run.append(
                    run[0].changes.request(lambda now: reduced_topology(now, ["goes"]), Consent(removed=["goes"]))
                )

    run.append(LocalRunner(scheduler=Asking()).start(topology, RunOptions(max_records_per_epoch=3)))
    ready.set()
    run[0].wait(60)
    assert 0 < run[1].result(60) < run[2].result(60)
    assert lives(tmp_path, "stays", "goes", "comes") == ["set down"] * 3


def test_a_retried_epoch_goes_on_with_what_is_set_up(tmp_path: Path) -> None:
    class Mixing(LocalExecutor):
        """Says of the first attempt of each epoch that its tasks do not fit together."""

        tries = 0

        def run(self, spec, splits, rows):  # type: ignore[no-untyped-def]  # passes on what it gets
            self.tries += 1
            found = super().run(spec, splits, rows)
            if self.tries % 2:
                report = next(at for at, row in enumerate(found) if row[2] == MessageKind.REPORT)
                told = unpack_report(found[report][3])
                told.consumed.append(Sender(1, 0, "another attempt"))
                found[report] = (*found[report][:3], pack_report(told))
            return found

    topology = counted(tmp_path, "one")
    executor = Mixing(topology, 1, Scheduler(), None, 1)
    result = Driver(topology, executor, Journal(), ManualClock(), RunOptions(intervals=1)).run()
    assert executor.tries == 2 * result.epochs
    assert lives(tmp_path, "one") == ["set down"]


class TestInAWorkerProcess:
    """What `LoadedRuns` keeps there from task to task."""

    @staticmethod
    def shipment(folder: Path, *names: str, fails: str = "") -> TaskPayload:
        topology = counted(folder, *names, fails=fails)
        return TaskPayload.of(packed(topology), ObjectStore(str(folder / "checkpoint")), "run")

    def test_tasks_share_instances_until_their_run_is_over(self, tmp_path: Path) -> None:
        held, shipment = LoadedRuns(), self.shipment(tmp_path, "one")
        for _ in range(3):
            held.take(shipment)[0].program.setup()
        assert lives(tmp_path, "one") == ["set"]
        held.leave(shipment)
        held.leave(shipment)
        assert lives(tmp_path, "one") == ["set down"]

    def test_a_task_after_that_begins_a_life_of_its_own(self, tmp_path: Path) -> None:
        held, shipment = LoadedRuns(), self.shipment(tmp_path, "one")
        for _ in range(2):
            held.take(shipment)[0].program.setup()
            held.leave(shipment)
        assert lives(tmp_path, "one") == ["set down"] * 2

    def test_a_program_that_was_torn_down_is_not_set_up(self, tmp_path: Path) -> None:
        held, shipment = LoadedRuns(), self.shipment(tmp_path, "one")
        program = held.take(shipment)[0].program
        program.setup()
        held.leave(shipment)
        with pytest.raises(RuntimeError, match="was torn down"):
            program.setup()
        assert lives(tmp_path, "one") == ["set down"]

    def test_a_retry_after_a_failing_setup_has_instances_of_its_own(self, tmp_path: Path) -> None:
        held, shipment = LoadedRuns(), self.shipment(tmp_path, "one", "two", fails="two")
        for _ in range(3):
            program = held.take(shipment)[0].program
            for _ in range(2):
                # The levels of one task.
                with pytest.raises(StepError, match="step 'two'"):
                    program.setup()
        held.leave_all()
        assert (lives(tmp_path, "one"), lives(tmp_path, "two")) == (["set down"] * 3, ["set"] * 3)

    def test_another_topology_of_the_run_ends_the_one_before(self, tmp_path: Path) -> None:
        held = LoadedRuns()
        held.take(self.shipment(tmp_path, "one"))[0].program.setup()
        held.take(self.shipment(tmp_path, "one", "two"))[0].program.setup()
        held.leave_all()
        assert lives(tmp_path, "one", "two") == ["set down"] * 3


@pytest.mark.spark
def test_a_failing_setup_on_spark_with_several_tasks(spark: object, tmp_path: Path) -> None:
    topology = counted(tmp_path, "one", "two", fails="two")
    with pytest.raises(StepError, match="step 'two'"):
        SparkRunner(spark, intervals=4).run_topology(topology, RunOptions(one_task_epochs=False))
    assert set(lives(tmp_path, "one")) == {"set down"} and set(lives(tmp_path, "two")) == {"set"}
