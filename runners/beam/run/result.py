"""The result of a run, as Beam's `PipelineResult`."""

from __future__ import annotations

from apache_beam.runners import runner as beam

from headrace.runners.beam.run.metrics import BeamMetricResults
from headrace.runners.beam.run.pipeline_run import PipelineRun


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
