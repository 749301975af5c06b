"""The life of user code: set up once, bundles one after another, torn down after the last (on both runners)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import BoundedInjector, Computation, Context, InlineComputation, Record, StepError, Topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner

LIFE = re.compile(r"set (start (\d )+finish )*down ")
"""The hooks of one instance, in order."""


class Diary:
    """A file to which instances in any process write what happens to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = ""

    def note(self, what: object) -> None:
        """Write a line; the first one an instance writes gives it its name."""
        self.name = self.name or f"{os.getpid()}-{id(self)}"
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
    from headrace.runners.spark import SparkRunner

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
        return {place.step for place in p.topology().places() if place.computation.has_teardown()}

    assert torn(beam.CombineGlobally(sum), beam.Map(str)) == set()
    assert torn("Living" >> beam.ParDo(Living(Path()))) == {"Living"}
    assert torn("All" >> beam.CombineGlobally(LivingSum(Path()))) == {"All/Combine"}
