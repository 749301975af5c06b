"""One run of a translated pipeline, in the caller's thread or its own, and its result as Beam's `PipelineResult`.

Errors of user code are raised as Beam's own runner raises them: of the user's class, with the name of the step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from traceback import format_exception_only
from typing import Protocol, cast, runtime_checkable

from apache_beam.runners import runner as beam
from apache_beam.runners.runner import PipelineState
from apache_beam.runners.worker.statesampler import get_current_tracker, set_current_tracker

from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.python_private import call_before_threads_end
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import unpacked
from headrace.runners.beam.beam_private import is_tagged_with_step
from headrace.runners.beam.run.metrics import BeamMetricResults
from headrace.runners.beam.run.task_context import TaskContext
from headrace.runners.engine.activity import Following
from headrace.runners.engine.driver.signals import LAST_SECONDS, end_in_time, heeding_signals
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import EpochProgress, RunOptions
from headrace.sdk.result import RunOutcome


def as_beam(error: StepError, label: str) -> BaseException:
    """The error to raise for a failed step with this label in the program.

    Its cause is the `StepError`, with key, value and the user's traceback.

    >>> from headrace.lowlevel.user_errors import failed_step
    >>> as_beam(failed_step(KeyError("red"), "Look up", None, 5), "Look up")
    KeyError("red [while running 'Look up']")
    """
    original = unpacked(error.raised)
    if original is None:
        return error
    original.__cause__ = error
    return original if is_tagged_with_step(original) else _annotated(original, error, label)


def _annotated(original: BaseException, error: StepError, label: str) -> BaseException:
    """As Beam's `DoFnRunner` names the step: in the first argument, or in a `RuntimeError` if that is no text."""
    where = f" [while running {label!r}]"
    try:
        annotated = type(original)(original.args[0] + where, *original.args[1:])
    except Exception:
        told = format_exception_only(original)[-1].strip()
        annotated = RuntimeError(told + where)
    annotated.__cause__ = error
    return annotated


_log = logging.getLogger(__name__)


_in_background: set[PipelineRun] = set()
"""Runs that have a thread and go on."""


def _wait_at_exit() -> None:
    """Wait for the runs that the program has left, as the process would end them."""
    for run in list(_in_background):
        _log.warning("the program is at its end and its pipeline is not; waiting for the pipeline")
        run.over.wait()


# Later Spark may be stopped already.
call_before_threads_end(_wait_at_exit)


class StoppableRunner(Protocol):
    """A runner of the engine, `LocalRunner` or `SparkRunner`."""

    def run_topology(self, topology: Topology, options: RunOptions, changes: Changes) -> RunOutcome:
        """Run a topology to the end of its input, or until `changes` ends it."""


@runtime_checkable
class TimedRunner(Protocol):
    """A runner that has a clock of its own unless it is told to use the machine's."""

    def keep_time(self, waits: bool = False) -> None:
        """Use the machine's clock; `waits` says whether a wait takes its time."""


class PipelineRun:
    """A run, for which it takes the place of the engine's runner in a pipeline of the sdk.

    Args:
        runner: The runner of the engine.
        options: Options that user code can read while it runs; see `TaskContext`.
        has_thread: Whether `begin` returns while the pipeline runs.
        waits: Whether the local runner lets time pass; else its clock jumps to what comes next.
    """

    def __init__(self, runner: StoppableRunner, options: Mapping[str, object], has_thread: bool, waits: bool) -> None:
        self._runner, self._context, self._has_thread = runner, TaskContext(options), has_thread
        self._changes = Changes(Topology())
        self._waiting = 0
        self.over = threading.Event()
        """Set when the run has ended."""
        self._is_cancelled, self._is_durable = False, False
        self._error: BaseException | None = None
        self.metrics: MetricValues = {}
        """Metrics as of the last commit."""
        self.shown: Callable[[str], str] = str
        """From a label of the engine to that of the program."""
        if isinstance(runner, TimedRunner):
            runner.keep_time(waits)

    # A runner for the sdk

    def run_topology(self, topology: Topology, options: object) -> RunOutcome:
        """Run the topology in this thread."""
        options = cast(RunOptions, options)
        self._is_durable, topology.task_begins = options.checkpoint is not None, self._context
        if self._has_thread:
            options = replace(options, progress=Following(options.progress, self._note))
        result = self._runner.run_topology(topology, options, self._changes)
        self.metrics = result.metrics
        return result

    def _note(self, epoch: EpochProgress) -> None:
        self.metrics = epoch.metrics

    # The run

    def begin(self, run: Callable[[], object]) -> None:
        """Run the pipeline by `run`; without a thread of its own, this returns at the end and raises the run's error.

        The process does not exit before a run in a thread has ended, even if nobody waits for it.
        """
        if not self._has_thread:
            self._work(run)
            self._raise_error()
            return
        _in_background.add(self)
        threading.Thread(target=self._work, args=(run,), name="headrace-beam", daemon=True).start()

    def _work(self, run: Callable[[], object]) -> None:
        tracker = get_current_tracker()
        try:
            run()
        except StepError as error:
            self._error = as_beam(error, self.shown(error.step))
        except BaseException as error:
            self._error = error
        finally:
            set_current_tracker(tracker)
            self.over.set()
            _in_background.discard(self)
        if self._error is not None and self._has_thread and not self._waiting and not self._is_cancelled:
            _log.error("the pipeline has failed; wait_until_finish raises this error", exc_info=self._error)

    @property
    def state(self) -> str:
        """The state of the run, a name in Beam's `PipelineState`."""
        if not self.over.is_set():
            return str(PipelineState.CANCELLING if self._is_cancelled else PipelineState.RUNNING)
        if self._is_cancelled and not self._changes.finished:
            return str(PipelineState.CANCELLED)
        return str(PipelineState.DONE if self._error is None else PipelineState.FAILED)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the run; False if it has not ended after `seconds`.

        In the main thread, SIGTERM, SIGHUP and Ctrl-C end the run while this waits. Raises the error of the run.
        """
        if self.over.is_set():
            self._raise_error()
            return True
        self._waiting += 1
        try:
            with heeding_signals(self._changes, self._is_durable, (HeadraceError,)):
                is_over = self.over.wait(seconds)
                while self._changes.stopping and not is_over and not self._is_cancelled:
                    is_over = self.over.wait(LAST_SECONDS)
        except BaseException as error:
            # The program is told to end, so nothing is to wait for the run any more.
            _in_background.discard(self)
            self._changes.stop()
            if isinstance(error, KeyboardInterrupt):
                self._let_go()
            raise
        finally:
            self._waiting -= 1
        if is_over:
            self._raise_error()
        return is_over

    def _raise_error(self) -> None:
        if self._error is not None and self.state == PipelineState.FAILED:
            raise self._error

    def cancel(self) -> None:
        """End the run after the current epoch, or at once if that takes long; what is committed stays."""
        if self.over.is_set():
            return
        self._is_cancelled = True
        self._changes.stop()
        end_in_time(self._changes, self.over.wait)

    def _let_go(self) -> None:
        if self._changes.let_go is not None:
            self._changes.let_go()


class HeadraceResult(beam.PipelineResult):  # type: ignore[misc]  # Beam's types are not read
    """The result of a pipeline that runs or has run (Beam: `PipelineResult`)."""

    def __init__(self, run: PipelineRun) -> None:
        super().__init__(run.state)
        self._run = run

    @property
    def state(self) -> str:
        """The current state, a name in `PipelineState`."""
        return self._run.state

    def wait_until_finish(self, duration: float | None = None) -> str | None:
        """Wait for the end of the run, and return its state; None if it has not ended after `duration` milliseconds.

        Raises what user code has raised, with the name of the step, or the engine's own error.
        """
        return self.state if self._run.wait(None if duration is None else duration / 1000) else None

    def cancel(self) -> str:
        """End the run, and return its state; a run with a checkpoint can be started again where it ended."""
        self._run.cancel()
        return self.state

    def metrics(self) -> BeamMetricResults:
        """The metrics as of the last commit, also while the pipeline runs."""
        return BeamMetricResults({self._run.shown(step): cells for step, cells in self._run.metrics.items()})
