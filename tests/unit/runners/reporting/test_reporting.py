"""What a run says of itself while it goes on: display, log lines, Prometheus, OpenTelemetry."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

import headrace as beam
from headrace.lowlevel import CheckpointView, Computation
from headrace.lowlevel.metric import ENGINE, TypedMetricName, report
from headrace.lowlevel.metric_cells import Bucket, CounterCell
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.metrics import Metrics
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting import ProgressDisplay, ProgressLog, Reporters, reporter_for
from headrace.runners.reporting.display import display_of
from headrace.runners.reporting.figures import Rates
from headrace.runners.reporting.opentelemetry import OpenTelemetryReporter
from headrace.runners.reporting.prometheus import PrometheusReporter
from headrace.transforms.periodicsequence import PeriodicImpulse
from headrace.transforms.window import FixedWindows, TimestampedValue
from headrace.ui.checkpoint_report import report_of


class Counted(beam.DoFn):
    """Counts odd numbers, and measures all."""

    def __init__(self) -> None:
        self.odd = Metrics.counter("numbers", "odd")
        self.size = Metrics.distribution("numbers", "size")

    def process(self, number: int) -> Iterator[TimestampedValue]:
        self.odd.inc(number % 2)
        self.size.update(number)
        yield TimestampedValue(("all", number), number)


def run(reporter: object, numbers: int = 10) -> None:
    """Sums in windows of five seconds, an epoch for each three numbers."""
    options = PipelineOptions([], progress=reporter, max_records_per_epoch=3)
    with beam.Pipeline("LocalRunner", options) as pipeline:
        counted = pipeline | beam.Create(range(numbers)) | "Count" >> beam.ParDo(Counted())
        _ = counted | beam.WindowInto(FixedWindows(5)) | "Sum" >> beam.CombinePerKey(sum)


def test_a_terminal_gets_a_display_and_anything_else_lines_of_json() -> None:
    assert isinstance(reporter_for(Console(file=io.StringIO(), force_terminal=True)), ProgressDisplay)
    assert isinstance(reporter_for(Console(file=io.StringIO())), ProgressLog)


def test_a_line_is_short_however_many_steps_there_are_unless_details_are_wanted() -> None:
    counted = {TypedMetricName("counter", ENGINE, "records_in"): CounterCell(10**9)}
    cells = {f"A step of a pipeline {number}": counted for number in range(10)}
    busy = EpochProgress(
        10**6, 10**12, 10**12, 10**9, 10**9, 1_795_309_663_255_940, 0, 1_795_309_617_155_940 + 10**9, 12.345678, cells
    )
    short, long = io.StringIO(), io.StringIO()
    for file, details in ((short, False), (long, True)):
        with ProgressLog(file, clock=lambda: 0.0, details=details) as log:
            log(busy)
    assert len(short.getvalue()) < 230
    told, whole = json.loads(short.getvalue()), json.loads(long.getvalue())
    assert set(told) == {
        *("epoch", "seconds", "in", "in_per_s", "out", "late", "dropped", "watermark", "lag_s"),
    }
    assert told.items() <= whole.items()
    assert len(whole["steps"]) == 10
    usual = io.StringIO()
    with ProgressLog(usual, clock=lambda: 0.0) as log:
        run(log, numbers=10)
    assert max(map(len, usual.getvalue().splitlines())) < 200


def test_lines_have_the_whole_and_each_step_and_the_last_is_never_missing() -> None:
    file, times = io.StringIO(), iter([0.0, 0.2, 0.4, 1.1])
    with ProgressLog(file, clock=lambda: next(times), details=True) as log:
        run(log)
    lines = list(map(json.loads, file.getvalue().splitlines()))
    assert [line["epoch"] for line in lines] == [1, 4]
    assert (lines[-1]["in"], lines[-1]["watermark"], lines[0]["watermark"]) == (10, "end", None)
    assert lines[-1]["steps"]["Sum"]["records_in"] == 10


def test_a_log_that_ends_between_two_lines_still_tells_the_last_epoch() -> None:
    file = io.StringIO()
    with ProgressLog(file, clock=lambda: 0.0) as log:
        run(log)
    assert [json.loads(line)["epoch"] for line in file.getvalue().splitlines()] == [1, 4]


def test_what_waits_in_a_source_is_told_and_committed(tmp_path: Path) -> None:
    """Ten numbers are due when the run begins, and an epoch takes three."""
    file, prometheus, place = io.StringIO(), PrometheusReporter(), str(tmp_path / "state")
    with ProgressLog(file, clock=iter(map(float, range(100))).__next__) as log:
        options = PipelineOptions([], progress=Reporters(log, prometheus), max_records_per_epoch=3, checkpoint=place)
        with beam.Pipeline("LocalRunner", options) as pipeline:
            ticks = pipeline | "Ticks" >> PeriodicImpulse(0.0, 10.0, 1.0)
            _ = ticks | beam.Map(lambda tick: ("all", tick)) | "Sum" >> beam.CombinePerKey(sum)
    told = [(line["backlog"], line["fill"]) for line in map(json.loads, file.getvalue().splitlines())]
    assert told == [(7, 1.0), (4, 1.0), (1, 1.0), (0, 0.33)]
    shown = {sample.name: sample.value for family in prometheus.collect() for sample in family.samples}
    assert (shown["headrace_backlog"], shown["headrace_epoch_fill"]) == (0, pytest.approx(1 / 3))
    [source] = report_of(CheckpointView.of(place), timers=0).injectors
    assert (source["backlog"], source["behind_s"]) == (0, None)


def test_the_display_shows_the_whole_and_as_many_steps_as_there_is_room_for() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=8, color_system=None)
    with ProgressDisplay(console) as display:
        run(display)
    shown = console.file.getvalue()  # type: ignore[attr-defined] - it is a StringIO
    assert "in 10" in shown
    assert "and " in shown
    assert "more" in shown


@pytest.mark.parametrize("width", [50, 60, 75, 120])
def test_ctrl_c_fits_behind_each_line_of_the_display(width: int) -> None:
    # If it broke the last line, the display before would stay on the screen above the last one.
    drawings: list[str] = []

    def draw(progress: EpochProgress) -> None:
        rates.note(progress, 1.0)
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(display_of(progress, rates, width))
        drawings.append(console.file.getvalue())  # type: ignore[attr-defined] - it is a StringIO

    rates = Rates()
    run(draw)
    assert all(len(line) + len("^C") <= width for drawing in drawings for line in drawing.splitlines())


def test_a_run_that_goes_on_does_not_count_what_came_before_as_speed() -> None:
    file, times = io.StringIO(), iter([5.0, 7.0])
    with ProgressLog(file, every=0.0, clock=lambda: next(times)) as log:
        for epoch, read in ((41, 1_000_000), (42, 1_000_010)):
            log(EpochProgress(epoch, read, 0, 0, 0, MIN_TIMESTAMP, 0, MIN_TIMESTAMP, 0.5))
    assert [json.loads(line)["in_per_s"] for line in file.getvalue().splitlines()] == [0.0, 5.0]


def test_prometheus_is_told_steps_phases_and_what_users_count() -> None:
    registry = CollectorRegistry()
    reporter = PrometheusReporter(registry=registry)
    run(reporter)
    text = generate_latest(registry).decode()
    for line in (
        'headrace_records_in_total{step="Sum"} 10.0',
        'headrace_watermark_seconds{step="Sum"} +Inf',
        'headrace_user_counter{name="odd",namespace="numbers",step="Count"} 5.0',
        'headrace_user_distribution_sum{name="size",namespace="numbers",step="Count"} 45.0',
        "headrace_epoch 4.0",
        'headrace_epoch_seconds{phase="commit"}',
    ):
        assert line in text


class Measured(beam.DoFn):
    """Metrics of every kind."""

    def process(self, number):
        Metrics.distribution("mine", "sizes").update(number)
        Metrics.string_set("mine", "names").add(str(number % 3))
        # As the adapter for metrics of Beam's own classes reports them.
        report(TypedMetricName("bounded_trie", "mine", "paths"), [str(number % 2)])
        report(TypedMetricName("histogram", "mine", "widths"), Bucket(0, 2, 3, min(number // 2, 3)))
        yield number


def test_every_metric_of_users_and_the_latency_of_records_is_told() -> None:
    registry, reader, last = CollectorRegistry(), InMemoryMetricReader(), list[EpochProgress]()
    telemetry = OpenTelemetryReporter(MeterProvider([reader]).get_meter("test"))
    reporters = Reporters(PrometheusReporter(registry=registry), telemetry)

    def progress(epoch: EpochProgress) -> None:
        last.append(epoch)
        reporters(epoch)

    options = PipelineOptions(["--max_records_per_epoch=4"], progress=progress)
    with beam.Pipeline("LocalRunner", options) as pipeline:
        _ = pipeline | "Numbers" >> beam.Create(range(10)) | "Measure" >> beam.ParDo(Measured()) | beam.Map(str)
    text = generate_latest(registry).decode()
    label = 'namespace="mine",step="Measure"'
    for line in (
        f'headrace_user_distribution_min{{name="sizes",{label}}} 0.0',
        f'headrace_user_distribution_max{{name="sizes",{label}}} 9.0',
        f'headrace_user_string_set_size{{name="names",{label}}} 3.0',
        f'headrace_user_trie_size{{name="paths",{label}}} 2.0',
        f'headrace_user_histogram_bucket{{le="4.0",name="widths",{label}}} 4.0',
        f'headrace_user_histogram_bucket{{le="+Inf",name="widths",{label}}} 10.0',
        'headrace_record_latency_seconds_bucket{le="+Inf",step="Numbers"} 10.0',
        'headrace_record_latency_seconds_count{step="Numbers"} 10.0',
        "# TYPE headrace_record_latency_seconds histogram",
    ):
        assert line in text, text
    measured = last[-1].latencies["Numbers"]
    assert sum(measured.counts) == 10
    assert 0 < measured.sum <= 10 * sum(epoch.seconds for epoch in last)
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        (metric.name, point.attributes.get("le")): point.value
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    assert found["headrace.record_latency.bucket", "+Inf"] == found["headrace.record_latency.count", None] == 10
    assert found["headrace.record_latency.sum", None] == measured.sum
    assert found["headrace.user_histogram.bucket", "4.0"] == 4
    assert found["headrace.user_distribution_max", None] == 9


class Refuses(Computation):
    def process_record(self, record, context) -> None:
        raise ValueError("refused")


def run_with_dead_letters(reporter: object, folder: Path) -> None:
    """A line that is no JSON, an element for which a function raises, and one for which a computation does."""
    (folder / "numbers.json").write_text('{"n": 1}\nno JSON\n{"n": 0}\n')
    with beam.Pipeline("LocalRunner", PipelineOptions([], progress=reporter)) as pipeline:
        source = beam.io.ReadFromJson(str(folder / "numbers.json"))
        rows, _ = pipeline | "Read" >> source.with_exception_handling()
        parts, _ = rows | "Divide" >> beam.Map(lambda row: 1 / row.n).with_exception_handling()
        _ = parts | "Refuse" >> beam.RunComputation(Refuses(), key=str, outputs="none", dead_letters="refused")


def test_prometheus_and_opentelemetry_are_told_of_what_is_set_aside(tmp_path: Path) -> None:
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    telemetry = OpenTelemetryReporter(MeterProvider([reader]).get_meter("test"))
    run_with_dead_letters(Reporters(PrometheusReporter(registry=registry), telemetry), tmp_path)
    text = generate_latest(registry).decode()
    for step in ("Read/Set apart", "Divide/Try", "Refuse"):
        assert f'headrace_dead_letters_total{{step="{step}"}} 1.0' in text
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        point.attributes["step"]: point.value
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if metric.name == "headrace.dead_letters"
    }
    assert found == {"Read/Set apart": 1, "Divide/Try": 1, "Refuse": 1}


def test_prometheus_is_served_while_the_run_goes_on_and_not_after() -> None:
    with PrometheusReporter(port=0) as reporter:
        run(reporter)
        place = f"http://localhost:{reporter.port}/metrics"
        assert b"headrace_epoch 4.0" in urlopen(place).read()
    with pytest.raises(OSError, match="refused"):
        urlopen(place)


def test_prometheus_is_served_to_this_machine_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def served_at(reporter: PrometheusReporter) -> str:
        with reporter:
            assert reporter._server is not None
            return str(reporter._server.server_address[0])

    assert served_at(PrometheusReporter(port=0)) == "127.0.0.1"
    assert served_at(PrometheusReporter.at("0")) == "127.0.0.1"
    assert served_at(PrometheusReporter.at("0.0.0.0:0")) == "0.0.0.0"
    for wrong in ("99999999", "host:", ":9464", "9464x", "", "-1"):
        with pytest.raises(ValueError, match=r"cannot be served at .*give a port \(0 to 65535\), or HOST:PORT"):
            PrometheusReporter.at(wrong)


def test_several_reporters_are_told_as_one() -> None:
    file = io.StringIO()
    prometheus = PrometheusReporter()
    with Reporters(ProgressLog(file), prometheus) as reporters:
        run(reporters)
        assert b"headrace_epoch 4.0" in generate_latest(prometheus.registry)
    assert json.loads(file.getvalue().splitlines()[-1])["epoch"] == 4
    assert generate_latest(prometheus.registry) == b""


def test_opentelemetry_is_told_the_same() -> None:
    reader = InMemoryMetricReader()
    reporter = OpenTelemetryReporter(MeterProvider([reader]).get_meter("test"))
    run(reporter)
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        (metric.name, point.attributes.get("step") or point.attributes.get("phase")): point.value
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    assert found["headrace.records_in", "Sum"] == 10
    assert found["headrace.user_counter", "Count"] == 5
    assert found["headrace.epoch", None] == 4
    assert found["headrace.epoch.seconds", "tasks"] > 0
    assert ("headrace.watermark", "Sum") not in found


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [
        ("prometheus_client", PrometheusReporter, "prometheus"),
        ("opentelemetry.metrics", OpenTelemetryReporter, "opentelemetry"),
    ],
)
def test_a_client_that_is_not_installed_is_named(module: str, make: type, extra: str) -> None:
    with patch.dict(sys.modules, {module: None}), pytest.raises(ImportError, match=rf"headrace\[{extra}\]"):
        make()
