"""A pipeline that runs in the background (`PipelineResult` of Beam's runners that do not wait)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.metric import MetricValues
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.pipeline.tracebacks import raise_as_users, shorten
from headrace.sdk.result import NoRun, PipelineResult, PipelineState, RunFigures


class Progress(RunFigures, Protocol):
    """The figures of a run after the commit of an epoch: `headrace.runners.EpochProgress`."""

    @property
    def epoch(self) -> int:
        """Number of the epoch."""


class StartedRun(Protocol):
    """A run in the background: `headrace.runners.Running`."""

    @property
    def progress(self) -> Progress | None:
        """The figures of the last commit; None if there is none."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""

    @property
    def is_finished(self) -> bool:
        """Whether it has ended because its input has."""

    @property
    def error(self) -> BaseException | None:
        """The error by which the run has ended."""

    def heed_signals(self) -> None:
        """Let signals end the run after its epoch, and then the main thread, if this is called in it."""

    def update(self, topology: Topology) -> int:
        """Continue with another topology; returns the epoch of the change."""

    def stop(self) -> None:
        """Ask the run to end after the current epoch."""

    def cancel(self) -> bool:
        """End the run in a short time; returns whether it has ended."""

    def ends_within(self, seconds: float | None = None) -> bool:
        """Wait for the end of the run; returns False if it has not ended after `seconds`."""


_ENDING = {PipelineState.DRAINED: PipelineState.DRAINING, PipelineState.CANCELLED: PipelineState.CANCELLING}
"""State at the end of a run -> state while it is on the way there."""


class _Figures:
    """The figures of the last commit of a run, as a `RunOutcome`."""

    def __init__(self, run: StartedRun) -> None:
        self._run = run

    @property
    def epochs(self) -> int:
        progress = self._run.progress
        return 0 if progress is None else progress.epoch

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        return (self._run.progress or NoRun()).counters

    @property
    def watermarks(self) -> dict[str, int]:
        return (self._run.progress or NoRun()).watermarks

    @property
    def metrics(self) -> MetricValues:
        return (self._run.progress or NoRun()).metrics


class RunningPipeline(PipelineResult):
    """The handle of a pipeline that was started in the background; its methods may be called from any thread.

    `epochs`, `counters`, `watermarks` and `metrics()` are those of the last commit, also while the pipeline runs.

    >>> import headrace as beam
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | "Numbers" >> beam.Create([3, 4]) | beam.CombineGlobally(sum)
    >>> running = pipeline.start()
    >>> running.wait(), running.state, running.epochs
    (True, 'DONE', 1)

    Args:
        run: The run of the engine.
        drained: Makes the topology of the pipeline whose endless input ends at the last commit.
    """

    def __init__(self, run: StartedRun, drained: Callable[[], Topology]) -> None:
        super().__init__(_Figures(run))
        self._started, self._drained = run, drained
        run.heed_signals()
        self._asked: str | None = None
        """The state that the program has asked for."""

    @property
    def state(self) -> str:
        """The state of the run, a name in `PipelineState`.

        It is `RUNNING`, `DRAINING` or `CANCELLING` while the run goes on; then `DONE` or `DRAINED` if its input has
        ended, `STOPPED` if another start goes on with it, `CANCELLED`, or `FAILED`.
        """
        run, asked = self._started, self._asked
        if not run.is_over:
            return _ENDING.get(asked or "", PipelineState.RUNNING)
        if run.is_finished:
            return PipelineState.DRAINED if asked == PipelineState.DRAINED else PipelineState.DONE
        if asked == PipelineState.CANCELLED:
            return asked
        return PipelineState.STOPPED if run.error is None else PipelineState.FAILED

    @property
    def progress(self) -> Progress | None:
        """The figures of the last committed epoch, an `EpochProgress`; None before the first commit."""
        return self._started.progress

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the run; returns False if it has not ended after `seconds`.

        Raises the error by which the run has ended, as `Pipeline.run` does, unless it was cancelled. In the main
        thread, SIGTERM and SIGHUP end the run after the current epoch, and then the program.
        """
        if not self._started.ends_within(seconds):
            return False
        try:
            self._raise_error()
        except HeadraceError as error:
            shorten(error)
            raise
        return True

    def _raise_error(self) -> None:
        error = self._started.error
        if error is not None and self.state == PipelineState.FAILED:
            if isinstance(error, StepError):
                raise_as_users(error)
            raise error

    def wait_until_finish(self, duration: float | None = None) -> str | None:
        """Wait for the end of the run; returns its state, or None if it has not ended after `duration` milliseconds.

        Raises the same as `wait`.
        """
        return self.state if self.wait(None if duration is None else duration / 1000) else None

    def stop(self) -> None:
        """Ask the run to end after the current epoch; the next start on its checkpoint goes on from there.

        Returns at once; `wait` waits for the end.
        """
        self._started.stop()

    def drain(self) -> None:
        """End endless input at the last commit, and let the run finish all work; as `--drain` at a start does.

        Windows that are open end. Returns when the drain is committed; `wait` waits for the end of the run.

        Raises:
            RunOverError: The run has ended.
        """
        before, self._asked = self._asked, PipelineState.DRAINED
        try:
            self._started.update(self._drained())
        except BaseException:
            self._asked = before
            raise

    def cancel(self) -> str:
        """End the run after the current epoch, or at once if that takes more than 20 seconds; returns its state.

        What is committed stays, and another start on its checkpoint goes on from there. A run that has ended keeps its
        state.
        """
        if not self._started.is_over:
            self._asked = PipelineState.CANCELLED
            self._started.cancel()
        return self.state
