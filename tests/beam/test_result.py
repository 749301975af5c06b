"""The result of a run: its state, waiting, cancelling, and errors of user code."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.window import GlobalWindows

from headrace.lowlevel.errors import StepError
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.run.pipeline_run import HeadraceResult
from headrace.runners.beam.translation import Translation
from headrace.sdk.io.sequences import PeriodicImpulse

STREAMING = "--streaming"


class Waits(beam.DoFn):
    """Says that it runs, and goes on when a file is there."""

    def __init__(self, folder: Path):
        self._folder = str(folder)

    def process(self, element):
        folder = Path(self._folder)
        Metrics.counter("own", "waited").inc()
        (folder / "runs").touch()
        wait_for((folder / "go").exists)
        yield element


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def started(folder: Path, *flags: str, element: object = 1, then: Callable[..., object] = lambda: None):
    """A streaming pipeline that runs, until `go` is in the folder."""
    pipeline = beam.Pipeline(runner=HeadraceRunner(), options=PipelineOptions([STREAMING, *flags]))
    _ = pipeline | beam.Create([element]) | beam.ParDo(Waits(folder)) | "Then" >> beam.Map(then)
    result = pipeline.run()
    wait_for((folder / "runs").exists)
    return result


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HeadraceResult]:
    yield started(tmp_path, then=str)
    (tmp_path / "go").touch()


def test_a_bounded_pipeline_has_run_when_run_returns(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: (tmp_path / "ran").touch())
    result = pipeline.run()
    assert (tmp_path / "ran").exists()
    assert result.state == result.wait_until_finish() == result.cancel() == PipelineState.DONE


def test_a_pipeline_without_steps_is_done() -> None:
    result = beam.Pipeline(runner=HeadraceRunner()).run()
    assert result.wait_until_finish() == PipelineState.DONE
    assert result.metrics().query()["counters"] == []


def test_a_streaming_pipeline_goes_on_when_run_returns(running: HeadraceResult, tmp_path: Path) -> None:
    assert running.state == PipelineState.RUNNING
    assert running.wait_until_finish(duration=20) is None
    (tmp_path / "go").touch()
    assert running.wait_until_finish(duration=60_000) == running.state == PipelineState.DONE
    assert [each.committed for each in running.metrics().query()["counters"]] == [1]


def test_cancel(running: HeadraceResult, tmp_path: Path) -> None:
    threading.Timer(0.2, (tmp_path / "go").touch).start()
    states = []
    cancelling = threading.Thread(target=lambda: states.append(running.cancel()))
    cancelling.start()
    wait_for(lambda: running.state != PipelineState.RUNNING)
    cancelling.join()
    # The only epoch was the last one, so there was nothing left to cancel.
    assert states == [PipelineState.DONE] and running.wait_until_finish() == PipelineState.DONE


class Ticks(beam.PTransform):
    """An unbounded collection, of the sdk's `PeriodicImpulse`."""

    def expand(self, begin):
        return beam.pvalue.PCollection(begin.pipeline, is_bounded=False)

    def get_windowing(self, inputs):
        return beam.Windowing(GlobalWindows())


def ticks(made: Translation, step: AppliedPTransform) -> None:
    made.put(step, made.pipeline | step.full_label >> PeriodicImpulse(fire_interval=0.05))


def endless(runner: HeadraceRunner, monkeypatch: pytest.MonkeyPatch) -> HeadraceResult:
    """A pipeline that runs until somebody ends it."""
    monkeypatch.setitem(RULES, Ticks, ticks)
    pipeline = beam.Pipeline(runner=runner)
    _ = pipeline | Ticks() | beam.Map(lambda tick: Metrics.counter("own", "ticks").inc())
    result = pipeline.run()
    wait_for(lambda: bool(result.metrics().query()["counters"]))
    return result


def test_an_unbounded_pipeline_runs_until_it_is_cancelled(
    runner: HeadraceRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = endless(runner, monkeypatch)
    assert result.state == PipelineState.RUNNING
    assert result.cancel() == result.wait_until_finish() == result.state == PipelineState.CANCELLED


class Cause(Exception):
    """An error of the user's own, whose constructor takes no text."""

    def __init__(self):
        super().__init__(17)


ERRORS = {
    "two arguments": lambda: ValueError("bad", 3),
    "a key": lambda: KeyError("missing"),
    "own": Cause,
    "of the system": lambda: OSError(2, "gone"),
    "no argument": RuntimeError,
}


class Raises(beam.DoFn):
    """Raises where Beam's own `DoFnRunner` calls it."""

    def __init__(self, make):
        self._make = make

    def process(self, element, window=beam.DoFn.WindowParam):
        raise self._make()


class RaisesPlainly(beam.DoFn):
    """Raises where the engine's loop calls it."""

    def __init__(self, make):
        self._make = make

    def process(self, element):
        raise self._make()


@pytest.mark.parametrize("fn", [Raises, RaisesPlainly])
@pytest.mark.parametrize("kind", ERRORS)
def test_errors_as_beam(kind: str, fn: type[beam.DoFn]) -> None:
    raised = []
    for runner in (FnApiRunner(), HeadraceRunner()):
        with pytest.raises(Exception) as told, beam.Pipeline(runner=runner) as pipeline:
            _ = pipeline | beam.Create([1]) | "Outer" >> beam.ParDo(fn(ERRORS[kind]))
        raised.append(told.value)
    assert (type(raised[1]), raised[1].args) == (type(raised[0]), raised[0].args)
    cause = raised[1].__cause__
    assert isinstance(cause, StepError) and cause.step == "Outer"


@pytest.mark.spark
@pytest.mark.parametrize("fn", [Raises, RaisesPlainly])
def test_errors_on_spark(fn: type[beam.DoFn], spark: object) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner("SparkRunner"))
    _ = pipeline | beam.Create([1]) | "Outer" >> beam.ParDo(fn(ERRORS["two arguments"]))
    with pytest.raises(ValueError, match=r"bad \[while running 'Outer'\]"):
        pipeline.run()


def _raise(element):
    raise ValueError(element)


def test_an_error_of_a_streaming_pipeline_is_raised_where_it_is_waited_for(tmp_path: Path) -> None:
    result = started(tmp_path, element="bad", then=_raise)
    (tmp_path / "go").touch()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"bad \[while running 'Then'\]"):
            result.wait_until_finish()
    assert result.state == PipelineState.FAILED


def test_an_error_for_which_nobody_waits_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = started(tmp_path, element="bad", then=_raise)
    with caplog.at_level(logging.ERROR, "headrace.runners.beam"):
        (tmp_path / "go").touch()
        wait_for(lambda: "the pipeline has failed" in caplog.text)
    assert result.state == PipelineState.FAILED


PROGRAM = """
import signal, sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

def wait(element, path):
    while sys.argv[3] == "waits" and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        time.sleep(0.01)  # The run is not waited for yet.
    print("runs", flush=True)
    time.sleep(float(sys.argv[1]))
    open(path, "w").write("ran")

pipeline = beam.Pipeline(options=PipelineOptions(
    ["--runner=headrace.runners.beam.HeadraceRunner", "--streaming", "--headrace_runner=LocalRunner"]))
_ = pipeline | beam.Create([1]) | beam.Map(wait, sys.argv[2])
result = pipeline.run()
if sys.argv[3] == "waits":
    result.wait_until_finish()
"""


def program(seconds: float, path: Path, how: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", PROGRAM, str(seconds), str(path), how]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "runs\n"
    if how == "waits":
        wait_for(lambda: handles(process.pid, signal.SIGTERM))
    return process


def handles(process: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, as it has while it waits for a pipeline."""
    [mask] = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{process}/status").read_text())
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_the_program_does_not_end_before_its_pipeline(tmp_path: Path) -> None:
    process = program(0.5, tmp_path / "ran", "leaves")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert (tmp_path / "ran").read_text() == "ran"


def test_ctrl_c_ends_the_program_at_once(tmp_path: Path) -> None:
    process = program(200, tmp_path / "ran", "waits")
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=100)
    assert "KeyboardInterrupt" in errors and not (tmp_path / "ran").exists()


def test_a_signal_ends_the_run_after_the_epoch(tmp_path: Path) -> None:
    process = program(2, tmp_path / "ran", "waits")
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in errors
    assert (tmp_path / "ran").read_text() == "ran"
