"""What a pipeline's run leaves behind (`apache_beam.runners.runner.PipelineResult`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.sdk.running import RunResult


class PipelineResult:
    """The result of a run that has come to its end: `Pipeline.run` returns only then.

    >>> from types import SimpleNamespace
    >>> result = PipelineResult(SimpleNamespace(epochs=1, counters={"Sum": {"records": 3}}, watermarks={}))
    >>> result.wait_until_finish(), result.counter("records")
    ('DONE', 3)
    """

    state = "DONE"

    def __init__(self, run: RunResult) -> None:
        self._run = run

    def wait_until_finish(self, duration: float | None = None) -> str:
        """The final state. The run is over, so there is nothing to wait for; `duration` is in milliseconds."""
        return self.state

    @property
    def epochs(self) -> int:
        """Epochs committed since the pipeline first started on its checkpoint."""
        return self._run.epochs

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Step, source or sink -> counter (`records`, `late`, `dropped_late`, …) -> total."""
        return self._run.counters

    @property
    def watermarks(self) -> dict[str, int]:
        """Grouping step or computation -> its low watermark at the end, microseconds UTC."""
        return self._run.watermarks

    def counter(self, name: str) -> int:
        """A counter, summed over all steps."""
        return sum(counters.get(name, 0) for counters in self.counters.values())
