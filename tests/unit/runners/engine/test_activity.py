"""What a run does while no epoch ends, which progress cannot tell: on all reporters, for whatever hangs."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rich.console import Console

import headrace as beam
from headrace.lowlevel import BoundedInjector, CallSink
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.options.pipeline_options import EngineOptions, PipelineOptions
from headrace.runners.engine.activity import Activity, RunPhase
from headrace.runners.engine.options import EpochProgress
from headrace.runners.local import LocalRunner
from headrace.runners.reporting import ProgressDisplay, ProgressLog, PrometheusReporter, display
from headrace.runners.reporting.figures import hot_key, long_phase, slow_sink
from headrace.runners.reporting.reporter import Reporters
from headrace.sdk.transforms.core.low_level import Source
from headrace.ui.pipelines import RunningPipeline
from headrace.ui.snapshot import Phase


class Hang:
    """Holds user code until the test lets it go."""

    def __init__(self) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        self._number = len(_HANGS)
        _HANGS.append(self)

    def __reduce__(self) -> tuple[object, ...]:
        """User code is copied; the copy hangs in the same way."""
        return _hang, (self._number,)

    def __call__(self, value: object = None) -> object:
        self.there.set()
        assert self.go.wait(30)
        return value


_HANGS: list[Hang] = []


def _hang(number: int) -> Hang:
    return _HANGS[number]


class Seen:
    """A reporter that keeps what a run does."""

    activity: Activity

    def begin(self, activity: Activity) -> None:
        self.activity = activity

    def __call__(self, progress: EpochProgress) -> None:
        pass


class HangingInjector(BaseInjector):
    def __init__(self, hang: Hang) -> None:
        self._hang = hang

    def start(self) -> object:
        return 0

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        self._hang()
        return Delivery([], position, done=True)


class HangingSource(Source):
    def __init__(self, hang: Hang) -> None:
        super().__init__()
        self._hang = hang

    def injector(self) -> BaseInjector:
        return HangingInjector(self._hang)


def hanging(where: str, hang: Hang) -> beam.Pipeline:
    pipeline = beam.Pipeline(LocalRunner())
    source = HangingSource(hang) if where == "source" else beam.Create([("a", 1)])
    rows = pipeline | "Numbers" >> source | "Other" >> beam.Map(lambda row: row)
    mapped = rows | "Enrich" >> beam.Map(hang if where == "map" else (lambda row: row))

    class Summing(beam.CombineFn):
        def create_accumulator(self):
            return 0

        def add_input(self, total, value):
            return hang(total + value) if where == "combine" else total + value

        def merge_accumulators(self, totals):
            return sum(totals)

        def extract_output(self, total):
            return total

    summed = mapped | "Sum" >> beam.CombinePerKey(Summing())
    summed | "Out" >> beam.io.Write(CallSink(lambda epoch, its: hang() if where == "sink" else None))
    return pipeline


@contextmanager
def running(pipeline: beam.Pipeline, hang: Hang, reporter: object) -> Iterator[None]:
    """The run, until it hangs."""
    pipeline.options.view_as(EngineOptions).progress = reporter
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        assert hang.there.wait(30)
        yield
    finally:
        hang.go.set()
        thread.join(30)


@pytest.mark.parametrize(
    ("where", "phase", "step"),
    [
        ("source", RunPhase.PLAN, "Numbers"),
        ("map", RunPhase.TASKS, "Enrich"),
        ("combine", RunPhase.TASKS, "Sum"),
        ("sink", RunPhase.DELIVER, "Out"),
    ],
)
def test_whatever_hangs_is_named_with_phase_and_time(where: str, phase: RunPhase, step: str) -> None:
    seen, hang = Seen(), Hang()
    with running(hanging(where, hang), hang, seen):
        time.sleep(0.05)
        doing = seen.activity.doing()
        assert (doing.phase, doing.step) == (phase, step)
        assert 0.04 < doing.seconds < 20
        if phase is not RunPhase.PLAN:
            assert doing.epoch == 1 and doing.epoch_seconds >= doing.seconds
            assert f"epoch 1 has been in phase {phase}" in doing.sentence and repr(step) in doing.sentence


class TestReporters:
    """A step has been at it for long; times are those of a clock that the test moves."""

    @pytest.fixture
    def activity(self) -> Activity:
        self.now = 0.0
        activity = Activity(3, ["Sum"], lambda: self.now)
        activity.running_step = lambda: "Enrich"
        activity.begin_epoch(8)
        self.now = 60.0
        return activity

    def test_metrics_tell_phase_step_and_seconds_at_the_time_of_the_scrape(self, activity: Activity) -> None:
        reporter = PrometheusReporter()
        reporter.begin(activity)
        told = figures(reporter)
        assert told["headrace_running_seconds{phase=tasks,step=Enrich}"] == 60.0
        assert told["headrace_epoch_running_seconds"] == 60.0
        assert told["headrace_starts"] == 3
        self.now = 90.0
        assert figures(reporter)["headrace_epoch_running_seconds"] == 90.0
        activity.end_epoch()
        activity.wait()
        self.now = 100.0
        told = figures(reporter)
        assert told["headrace_running_seconds{phase=wait,step=}"] == 10.0
        assert told["headrace_epoch_running_seconds"] == 0.0

    def test_what_alerts_count_begins_with_zero(self, activity: Activity) -> None:
        reporter = PrometheusReporter()
        reporter.begin(activity)
        told = figures(reporter)
        assert told["headrace_dropped_late_total{step=Sum}"] == told["headrace_dead_letters_total{step=Sum}"] == 0

    def test_the_terminal_says_it_before_the_first_commit_and_after(self, activity: Activity) -> None:
        console = Console(file=io.StringIO(), width=100)
        display = ProgressDisplay(console)
        display.begin(activity)
        for first in ("", "epoch 7"):
            if first:
                display(EpochProgress(7, 3, 2, 0, 0, 0, 0, 0, 0.019))
            console.print(display._display())
            shown = console.file.getvalue()
            assert "epoch 8 has been in phase tasks, step 'Enrich', for 60 s" in shown and first in shown

    def test_a_log_has_a_line(self, activity: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(display, "_RUNNING_EVERY", 0.01)
        file = io.StringIO()
        with ProgressLog(file) as reporter:
            reporter.begin(activity)
            until = time.monotonic() + 10
            while not file.getvalue() and time.monotonic() < until:
                time.sleep(0.01)
        assert json.loads(file.getvalue().splitlines()[0]) == {
            "running": "epoch 8 has been in phase tasks, step 'Enrich', for 60 s"
        }

    def test_the_page_calls_it_a_long_epoch(self, activity: Activity) -> None:
        page = RunningPipeline("scores")
        page.begin(activity)
        assert "Epoch 8 has been in phase tasks" in page.snapshot().status.sentence
        page.note(EpochProgress(7, 3, 2, 0, 0, 0, int(time.time() * 1e6), 0, 0.019))
        status = page.snapshot().status
        assert (status.phase, status.sentence) == (
            Phase.BUSY,
            "Epoch 8 has been in phase tasks, step 'Enrich', for 60 s.",
        )
        activity.begin_epoch(9)
        assert page.snapshot().status.phase is Phase.RUNNING
        activity.end_epoch()
        activity.wait()
        self.now += 60
        page.note(EpochProgress(9, 3, 2, 0, 0, 0, 0, 0, 0.019))
        status = page.snapshot().status
        assert (status.phase, status.sentence) == (
            Phase.WAITING,
            "The run has waited for input or for a timer for 60 s.",
        )

    def test_reporters_pass_it_on_to_those_that_take_it(self, activity: Activity) -> None:
        seen = Seen()
        Reporters(lambda progress: None, seen).begin(activity)
        assert seen.activity is activity

    def test_a_wait_is_one_though_sources_are_asked_in_between(self, activity: Activity) -> None:
        activity.end_epoch()
        activity.wait()
        for self.now in (70.0, 80.0):
            activity.begin(RunPhase.PLAN, "Numbers")
            activity.wait()
        assert activity.doing().seconds == 20.0
        assert long_phase(activity) == ""


def test_a_slow_sink_is_marked() -> None:
    slow = EpochProgress(7, 3, 2, 0, 0, 0, 0, 0, 8.4, sinks={"Out": 8.0, "Other": 0.1}, phases={"deliver": 8.1})
    assert slow_sink(slow) == "sink 'Out' took 8.0 s of the 8.4 s of epoch 7"
    reporter, page, console = PrometheusReporter(), RunningPipeline("scores"), Console(file=io.StringIO(), width=100)
    display = ProgressDisplay(console)
    for each in (reporter, page.note, display):
        each(slow)
    assert figures(reporter)["headrace_sink_seconds{step=Out}"] == 8.0
    assert page.snapshot().notices == [slow_sink(slow)]
    console.print(display._display())
    assert slow_sink(slow) in console.file.getvalue()
    assert slow_sink(EpochProgress(7, 3, 2, 0, 0, 0, 0, 0, 0.4, sinks={"Out": 0.3})) == ""
    assert slow_sink(EpochProgress(7, 3, 2, 0, 0, 0, 0, 0, 8.4, sinks={"Out": 3.0})) == ""


def test_the_seconds_of_each_sink_are_measured() -> None:
    told: list[EpochProgress] = []
    with beam.Pipeline(LocalRunner(), PipelineOptions(progress=told.append)) as pipeline:
        rows = pipeline | beam.Create([1])
        rows | "Slow" >> beam.io.Write(CallSink(lambda epoch, its: time.sleep(0.05)))
        rows | "Quick" >> beam.io.Write(CallSink(lambda epoch, its: None))
    assert told[0].sinks["Slow"] >= 0.05 > told[0].sinks["Quick"]


def test_after_a_restart_the_figures_of_the_last_commit_are_there_before_the_next(tmp_path: object) -> None:
    """Else the alert of a stuck source resolves at a restart, and stays away."""
    options = [f"--checkpoint={tmp_path}"]

    def run(hang: Hang | None, reporter: PrometheusReporter) -> None:
        source = Waiting(hang)
        with beam.Pipeline(LocalRunner(), PipelineOptions(options, progress=reporter)) as pipeline:
            pipeline | "Numbers" >> source | "Pair" >> beam.Map(lambda n: ("a", n)) | "Sum" >> beam.CombinePerKey(sum)

    with pytest.raises(KeyboardInterrupt):
        run(None, PrometheusReporter())
    hang, again = Hang(), PrometheusReporter()
    thread = threading.Thread(target=lambda: run(hang, again))
    thread.start()
    assert hang.there.wait(30)
    told = figures(again)
    hang.go.set()
    thread.join(30)
    assert told["headrace_epoch"] == 1 and told["headrace_starts"] == 2
    assert told["headrace_records_out_total{step=Numbers}"] == 3
    assert told["headrace_watermark_seconds{step=Numbers}"] == 5
    assert not any(name.startswith("headrace_epoch_seconds") for name in told), "how long it took is not known"


class Waiting(Source):
    """Three records, then nothing until `hang` goes; without one it stops the run."""

    def __init__(self, hang: Hang | None) -> None:
        super().__init__()
        self._hang = hang

    def injector(self) -> BaseInjector:
        return WaitingInjector(self._hang)


class WaitingInjector(BaseInjector):
    def __init__(self, hang: Hang | None) -> None:
        self._hang = hang
        self._first = BoundedInjector([(n, 5_000_000) for n in range(3)])

    def start(self) -> object:
        return self._first.start()

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        if position == self.start():
            return replace(self._first.plan(position, limit, splits), watermark=5_000_000, done=False)
        if self._hang is None:
            raise KeyboardInterrupt
        self._hang()
        return Delivery([], position, done=True)


def figures(reporter: PrometheusReporter) -> dict[str, float]:
    """What a scrape has now: name and labels -> value."""
    found = {}
    for sample in (sample for family in reporter.collect() for sample in family.samples):
        labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
        found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_hot_key_is_marked_by_its_records(parallelism: int) -> None:
    """Whatever the number of intervals: with one, no comparison between intervals can tell."""
    told: list[EpochProgress] = []
    rows = [("hot", n) for n in range(9_500)] + [(f"k{n}", n) for n in range(500)]
    with beam.Pipeline(LocalRunner(parallelism=parallelism), PipelineOptions(progress=told.append)) as pipeline:
        _ = pipeline | beam.Create(rows) | "Lists" >> beam.GroupByKey() | beam.Map(len)
    progress = next(each for each in told if each.hot_keys)
    assert hot_key(progress) == f"key 'hot' had 95 % of the records of 'Lists' in epoch {progress.epoch}"
    reporter, page = PrometheusReporter(), RunningPipeline("scores")
    reporter(progress)
    page.note(progress)
    assert figures(reporter)["headrace_hot_key_share{step=Lists}"] == pytest.approx(0.95)
    assert page.snapshot().notices == [hot_key(progress)]


def test_even_keys_and_few_records_are_not_marked() -> None:
    told: list[EpochProgress] = []
    for rows in ([(n % 50, n) for n in range(9_000)], [("only", n) for n in range(20)]):
        with beam.Pipeline(LocalRunner(), PipelineOptions(progress=told.append)) as pipeline:
            _ = pipeline | beam.Create(rows) | beam.GroupByKey() | beam.Map(len)
    assert not any(each.hot_keys for each in told)
