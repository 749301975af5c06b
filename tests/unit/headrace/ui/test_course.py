"""The course of a run: rates, watermarks that stand still, and what the charts show, from made samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.lowlevel import BoundedInjector, CallSink, CheckpointView, Computation, Context, Record, Topology
from headrace.lowlevel.metric import ENGINE, TypedMetricName
from headrace.lowlevel.metric_cells import CounterCell, GaugeCell
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.reporting.figures import StepFigures
from headrace.ui.course import (
    BARS,
    BETWEEN_COMMITS,
    DRAWN,
    KEPT,
    Course,
    RunSample,
    sample_of_commit,
    sample_of_progress,
)

SECOND = 1_000_000


class Each(Computation):
    def process_record(self, record: Record, context: Context) -> None:
        context.produce("out", record.value, record.timestamp)


def sample(
    second: int, read: int, watermark: int = 0, seconds: float | None = None, epoch: int | None = None
) -> RunSample:
    steps = {"Sum": StepFigures("Sum", records_in=read, watermark=watermark, late=2, dead_letters=1)}
    phases = {} if seconds is None else {"tasks": seconds}
    number = second if epoch is None else epoch
    times = watermark, second * SECOND, 99 * SECOND, seconds or 0.0
    return RunSample(number, read, read // 10, 0, 0, *times, phases=phases, steps=steps)


def course(*samples: RunSample) -> Course:
    found = Course()
    for each in samples:
        found.note(each)
    return found


def test_rates_are_of_the_last_ten_seconds() -> None:
    run = course(*(sample(second, 1_000 if second < 20 else 100 * second) for second in range(40)))
    assert run.totals(True).in_rate == 100.0
    assert run.steps(True)[0].in_rate == 100.0
    assert run.totals(True).out_rate == 10.0


def test_what_does_not_run_has_no_rate() -> None:
    run = course(sample(1, 100), sample(2, 200))
    assert (run.totals(False).in_rate, run.steps(False)[0].in_rate) == (None, None)
    assert course(sample(1, 100)).totals(True).in_rate is None, "of one epoch nothing is known"


def test_totals_add_what_is_lost_over_the_steps() -> None:
    totals = course(sample(1, 100)).totals(True)
    assert (totals.late, totals.dropped, totals.duplicates, totals.dead_letters) == (2, 0, 0, 1)
    assert totals.lag == "1 min 39 s"


def test_a_watermark_stands_still_only_while_records_come() -> None:
    moving = course(*(sample(second, second, watermark=second) for second in range(60)))
    stuck = course(*(sample(second, second, watermark=5) for second in range(60)))
    silent = course(*(sample(second, 7, watermark=5) for second in range(60)))
    ended = course(*(sample(second, second, watermark=MAX_TIMESTAMP) for second in range(60)))
    assert [run.steps(True)[0].still for run in (moving, stuck, silent, ended)] == [None, 59.0, None, None]
    early = course(*(sample(second, second, watermark=5) for second in range(29)))
    assert early.steps(True)[0].still is None, "half a minute is not long"


def test_the_same_epoch_takes_the_place_of_its_sample_and_an_earlier_one_is_ignored() -> None:
    run = course(sample(1, 10), sample(2, 20), sample(2, 25), sample(1, 99))
    assert [each.records_in for each in run.samples] == [10, 25]


def test_charts_have_few_points_and_the_last_is_among_them() -> None:
    run = course(*(sample(second, second, watermark=second * SECOND) for second in range(1, 3 * KEPT)))
    history = run.history()
    assert len(run.samples) == KEPT
    assert len(history.clocks) == len(history.watermarks["Sum"]) == len(history.in_rates) == DRAWN
    assert history.clocks[-1] == history.watermarks["Sum"][-1] == 3 * KEPT - 1
    assert set(history.in_rates[1:]) == {1.0}


def test_ends_of_time_are_no_points() -> None:
    history = course(sample(1, 1, MIN_TIMESTAMP), sample(2, 2, 5 * SECOND), sample(3, 3, MAX_TIMESTAMP)).history()
    assert history.watermarks["Sum"] == [None, 5.0, None]


def test_bars_are_of_the_latest_epochs_with_their_parts() -> None:
    run = course(*(sample(second, 10 * second, seconds=0.25) for second in range(1, 100)))
    bars = run.epochs()
    assert len(bars) == BARS
    assert (bars[-1].epoch, bars[-1].seconds, bars[-1].phases, bars[-1].records) == (99, 0.25, {"tasks": 0.25}, 10)


def test_commits_tell_the_time_from_one_to_the_next_on_average() -> None:
    [bar] = course(sample(10, 10, epoch=1), sample(12, 50, epoch=5)).epochs()
    assert (bar.epoch, bar.seconds, bar.phases, bar.records) == (5, 0.5, {BETWEEN_COMMITS: 0.5}, 40)


def test_a_sample_has_the_metrics_of_the_engine_and_none_of_its_parts() -> None:
    cells = {
        TypedMetricName("counter", ENGINE, "records_in"): CounterCell(3),
        TypedMetricName("gauge", ENGINE, "watermark"): GaugeCell(7, 0),
    }
    own = {TypedMetricName("counter", "mine", "records_in"): CounterCell(9)}
    metrics = {"Sum": {**cells, **own}, "Sum/recorded input": cells, "Write/PaneMark": cells}
    found = sample_of_progress(EpochProgress(4, 3, 1, 0, 0, 7, 60 * SECOND, 9, 0.5, metrics, {"tasks": 0.4}))
    assert dict(found.steps) == {"Sum": StepFigures("Sum", records_in=3, watermark=7)}
    assert (found.epoch, found.clock, found.lag, found.phases) == (4, 60 * SECOND, 2, {"tasks": 0.4})


def test_a_watermark_that_stood_when_it_was_first_seen_may_have_stood_for_longer() -> None:
    stood = course(*(sample(second, 100 * second, watermark=7) for second in range(1, 60)))
    assert (stood.steps(True)[0].still, stood.steps(True)[0].still_at_first) == (58.0, True)
    moved = course(*(sample(second, 100 * second, watermark=min(second, 9)) for second in range(1, 60)))
    assert (moved.steps(True)[0].still, moved.steps(True)[0].still_at_first) == (50.0, False)


def test_the_figures_of_a_commit_are_those_that_its_run_has_reported(tmp_path: Path) -> None:
    topology = Topology()
    topology.injector("early", BoundedInjector([(("a", n), n * SECOND) for n in range(20)], max_delay=0))
    topology.injector("late", BoundedInjector([(("b", n), (90 + n) * SECOND) for n in range(7)], max_delay=0))
    topology.computation("each", Each(), dict.fromkeys(["early", "late"], lambda pair: pair[0]), ["out"])
    topology.sink("rows", "out", CallSink(lambda epoch, rows: None))
    reported: list[EpochProgress] = []
    options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=2, progress=reported.append)
    LocalRunner().run_topology(topology, options)
    stored = {commit.epoch: sample_of_commit(commit) for commit in CheckpointView.of(str(tmp_path)).commits()}
    compared = [sample_of_progress(progress) for progress in reported if progress.epoch in stored]
    assert compared
    for sample in compared:
        steps = {name: replace(step, state_bytes=None) for name, step in sample.steps.items()}
        found = stored[sample.epoch]
        assert dict(found.steps) == steps
        assert (found.records_in, found.records_out, found.lag) == (sample.records_in, sample.records_out, sample.lag)
