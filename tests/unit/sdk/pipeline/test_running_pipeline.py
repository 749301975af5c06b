"""Pipelines that run in the background: waited for, stopped, drained, cancelled, left, and ended by signals."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import headrace as beam
from headrace.lowlevel import StepError, TopologyError
from headrace.metrics import MetricsFilter
from headrace.runners import EpochProgress, RunOverError
from headrace.runners.local import LocalRunner
from headrace.runners.runner import PipelineState
from headrace.sdk.pipeline import pipeline as pipelines
from headrace.sdk.recording.recording import RecordingError
from headrace.testing.test_stream import TestStream
from headrace.transforms.periodicsequence import PeriodicImpulse
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.collecting import collected

HOUR = 3_600


def endless(checkpoint=None, runner="LocalRunner", fails=False):
    """A pipeline whose window of the present does not end by itself, and what it puts out."""
    flags = [] if checkpoint is None else [f"--checkpoint={checkpoint}"]
    pipeline = beam.Pipeline(runner, argv=flags)
    ticks = pipeline | "Ticks" >> PeriodicImpulse(fire_interval=0.02, apply_windowing=False)
    ones = ticks | "Ones" >> beam.Map(fail if fails else one)
    # A century, so that no window ends while a test runs.
    windows = ones | beam.WindowInto(FixedWindows(876_600 * HOUR))
    return pipeline, collected(windows | "Sum" >> beam.CombinePerKey(sum))


def one(tick):
    return "all", 1


def fail(tick):
    raise ValueError("no")


def when(condition):
    """Wait for it."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_figures_while_it_runs_and_a_drain():
    pipeline, sums = endless()
    running = pipeline.start()
    assert running is pipeline.result
    assert running.state == PipelineState.RUNNING
    when(lambda: running.counters.get("Sum", {}).get("records", 0) > 3)
    assert (running.wait(0.01), running.wait_until_finish(10)) == (False, None)
    assert isinstance(running.progress, EpochProgress)
    assert running.watermarks["Sum"] > 0
    assert running.epochs > 0
    assert running.metrics().query(MetricsFilter().with_namespace("headrace"))["counters"]
    assert sums() == []
    running.drain()
    assert running.wait_until_finish() == running.state == PipelineState.DRAINED
    [(_, total)] = sums()
    assert total == running.counters["Ticks/Read"]["records"] == running.counters["Sum"]["records"]
    with pytest.raises(RunOverError):
        running.drain()
    assert running.state == PipelineState.DRAINED
    assert running.cancel() == PipelineState.DRAINED


def test_another_start_goes_on_where_a_stop_or_a_cancel_ended(tmp_path):
    for end in ("stop", "cancel"):
        pipeline, sums = endless(tmp_path)
        running = pipeline.start()
        before = running.epochs
        when(lambda its=running, before=before: its.epochs > before + 2)
        if end == "stop":
            running.stop()
        else:
            assert running.cancel() == PipelineState.CANCELLED
        assert running.wait() is True
        assert running.state == (PipelineState.STOPPED if end == "stop" else PipelineState.CANCELLED)
        assert sums() == []
    pipeline, sums = endless(tmp_path)
    running = pipeline.start()
    when(lambda: running.epochs > 0)
    running.drain()
    running.wait()
    assert sums() == [("all", running.counters["Sum"]["records"])]


def test_bounded_input_ends_by_itself():
    pipeline = beam.Pipeline("LocalRunner")
    found = collected(pipeline | beam.Create([1, 2]))
    running = pipeline.start()
    assert running.wait() is True
    assert (running.state, sorted(found())) == (PipelineState.DONE, [1, 2])
    assert running.cancel() == PipelineState.DONE


def test_wait_raises_the_error_of_the_run(caplog):
    pipeline, _ = endless(fails=True)
    with caplog.at_level(logging.ERROR):
        running = pipeline.start()
        when(lambda: running.state == PipelineState.FAILED)
        when(lambda: "wait() raises this error" in caplog.text)
    with pytest.raises(ValueError, match="step 'Ones' raised") as caught:
        running.wait()
    assert isinstance(caught.value, StepError)
    with pytest.raises(ValueError, match="step 'Ones' raised"):
        running.wait_until_finish()


def test_a_block_that_starts_the_pipeline_does_not_run_it_again():
    with beam.Pipeline("LocalRunner") as pipeline:
        found = collected(pipeline | beam.Create([1, 2]))
        running = pipeline.start()
    running.wait()
    assert sorted(found()) == [1, 2]


def test_what_cannot_be_started():
    with pytest.raises(TopologyError, match="the pipeline has no steps, so there is nothing to start"):
        beam.Pipeline("LocalRunner").start()
    pipeline = beam.Pipeline("LocalRunner", record=True)
    _ = pipeline | beam.Create([("a", 1)]) | beam.GroupByKey()
    with pytest.raises(RecordingError, match=r"start\(\) records nothing; use run\(\)"):
        pipeline.start()


def test_run_says_once_how_to_have_a_handle(caplog, monkeypatch):
    monkeypatch.setattr(pipelines, "_said_how_to_start", [])
    with caplog.at_level(logging.INFO, "headrace.sdk.pipeline"):
        for bounded in (True, False, False):
            pipeline = beam.Pipeline(LocalRunner())
            stream = TestStream().add_elements([TimestampedValue(1, 1)]).advance_watermark_to_infinity()
            _ = pipeline | (beam.Create([1]) if bounded else stream) | beam.Map(str)
            pipeline.run()
    assert [record.getMessage()[:40] for record in caplog.records] == ["the input of step 'TestStream' does not "]


PROGRAM = """
import sys, time
from tests.unit.sdk.pipeline.test_running_pipeline import endless, when
pipeline, _ = endless(sys.argv[1])
running = pipeline.start()
when(lambda: running.epochs > 2)
print("runs", flush=True)
if sys.argv[2] == "sleep":
    try:
        time.sleep(60)
    finally:
        print("finally", running.state, flush=True)
if sys.argv[2] == "wait":
    running.wait()
"""


def program(checkpoint, mode):
    command = [sys.executable, "-c", PROGRAM, str(checkpoint), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_goes_on(checkpoint):
    pipeline, sums = endless(checkpoint)
    running = pipeline.start()
    when(lambda: running.epochs > 2)
    running.drain()
    running.wait()
    assert sums() == [("all", running.counters["Sum"]["records"])]


def test_a_program_that_leaves_a_run_ends_and_nothing_committed_is_lost(tmp_path):
    with program(tmp_path, "leave") as leaving:
        out, told = leaving.communicate(timeout=60)
    assert (leaving.returncode, out) == (0, "runs\n")
    assert "the program is at its end and its run was not: epoch " in told
    assert_goes_on(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals between processes")
@pytest.mark.parametrize("mode", ["sleep", "wait"])
def test_a_signal_lets_the_epoch_end_and_then_ends_the_program(tmp_path, mode):
    with program(tmp_path, mode) as waiting:
        assert waiting.stdout.readline() == "runs\n"
        waiting.send_signal(signal.SIGTERM)
        out, told = waiting.communicate(timeout=60)
    assert waiting.returncode == 128 + signal.SIGTERM, told
    assert told.startswith("stopped by SIGTERM: epoch ")
    assert out == ("finally STOPPED\n" if mode == "sleep" else "")
    assert_goes_on(tmp_path)


def test_handlers_of_signals_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    first, second = endless()[0].start(), endless()[0].start()
    assert signal.getsignal(signal.SIGTERM) != before[0]
    first.cancel()
    first.wait()
    assert signal.getsignal(signal.SIGTERM) != before[0], "the second run goes on"
    second.cancel()
    second.wait()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_started_in_another_thread():
    found = []
    pipeline, _ = endless()
    thread = threading.Thread(target=lambda: found.append(pipeline.start()))
    thread.start()
    thread.join()
    assert found[0].cancel() == PipelineState.CANCELLED
