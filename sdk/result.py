"""The result of a run of a pipeline (`apache_beam.runners.runner.PipelineResult`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from headrace.lowlevel.metric import MetricValues
from headrace.sdk.metrics.results import MetricResults
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS
from headrace.sdk.model.short_text import table
from headrace.sdk.recording.recording import Recording, RecordingError

_log = logging.getLogger(__name__)


class RunFigures(Protocol):
    """The figures of a run after a commit."""

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Computation, injector stream or sink -> counter -> total."""

    @property
    def watermarks(self) -> dict[str, int]:
        """Computation -> input low watermark at the end, microseconds UTC."""

    @property
    def metrics(self) -> MetricValues:
        """Step -> metric -> value: metrics of user code, and the engine's own in the namespace `headrace`."""


class RunOutcome(RunFigures, Protocol):
    """The result of a finished run, as a runner reports it."""

    @property
    def epochs(self) -> int:
        """Number of committed epochs."""


@dataclass(frozen=True)
class NoRun:
    """The result of a pipeline without steps, for which nothing runs."""

    epochs: int = 0
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    metrics: MetricValues = field(default_factory=dict)


class PipelineState:
    """Names of the states of a run. A run that has a result is `DONE`; a run that fails raises an exception instead.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([1])
    >>> pipeline.result.state == PipelineState.DONE
    True
    """

    UNKNOWN = "UNKNOWN"
    STARTING = "STARTING"
    STOPPED = "STOPPED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UPDATED = "UPDATED"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    PENDING = "PENDING"
    CANCELLING = "CANCELLING"

    @classmethod
    def is_terminal(cls, state: str) -> bool:
        """Whether a state is final.

        >>> PipelineState.is_terminal("DONE"), PipelineState.is_terminal("RUNNING")
        (True, False)
        """
        return state in {cls.DONE, cls.FAILED, cls.CANCELLED, cls.UPDATED, cls.DRAINED}


class PipelineResult:
    """The result of a finished run; `Pipeline.run` returns only when the run has ended, `Pipeline.start` at once.

    >>> from types import SimpleNamespace
    >>> result = PipelineResult(SimpleNamespace(epochs=1, counters={"Sum": {"records": 3}}, watermarks={}))
    >>> result.wait_until_finish(), result.counter("records")
    ('DONE', 3)
    >>> result
    DONE after 1 epoch
      Sum: 3 records
    """

    def __init__(self, run: RunOutcome, recording: Recording | None = None) -> None:
        self._run = run
        self._recording = recording

    def __repr__(self) -> str:
        told = (f"{step}: {_counted(counters)}" for step, counters in self._shown().items())
        return "\n  ".join([f"{self.state} after {_number(self.epochs, 'epoch')}", *told])

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows: the counters of each step."""
        rows = [[step, _counted(counters)] for step, counters in self._shown().items()]
        return table(f"{self.state} after {_number(self.epochs, 'epoch')}", ["step", "counted"], rows)

    def _shown(self) -> dict[str, dict[str, int]]:
        """Counters of the program's own steps, without the steps that a recording added."""
        taps = () if self._recording is None else tuple(f"{its.label}/recorded" for its in self._recording.steps)
        return {step: counters for step, counters in self.counters.items() if not step.startswith(taps)}

    @property
    def state(self) -> str:
        """The state of the run, a name in `PipelineState`; always `DONE`."""
        return PipelineState.DONE

    def wait_until_finish(self, duration: float | None = None) -> str | None:
        """The final state, at once: the run is over, so `duration` (milliseconds) has no effect."""
        return self.state

    def cancel(self) -> str:
        """The final state; cancelling a finished run has no effect."""
        return self.state

    def metrics(self) -> MetricResults:
        """Metrics of user code since the pipeline first started on its checkpoint, and those of the engine.

        `MetricsFilter().with_namespace("headrace")` selects the engine's metrics: `records_in`, `records_out`, `late`,
        `dropped_late`, `duplicates`, `timers`, `watermark`, `lag` (microseconds), `state_bytes`, …
        """
        return MetricResults(self._run.metrics)

    @property
    def recording(self) -> Recording:
        """The recording of the run, for `headrace.plot`. Raises `RecordingError` if the run was not recorded."""
        if self._recording is None:
            raise RecordingError(
                "the run was not recorded; make the pipeline with record=True, or run it with --record"
            )
        return self._recording

    @property
    def epochs(self) -> int:
        """Number of epochs committed since the pipeline first started on its checkpoint."""
        return self._run.epochs

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Step, source or sink -> counter (`records`, `late`, `dropped_late`, …) -> total."""
        return self._run.counters

    @property
    def watermarks(self) -> dict[str, int]:
        """Grouping step or computation -> its low watermark at the end of the run, microseconds UTC."""
        return self._run.watermarks

    def counter(self, name: str) -> int:
        """The total of a counter over all steps; 0 if no step has the counter."""
        return sum(counters.get(name, 0) for counters in self.counters.values())


def warn_of_unmatched(counters: Mapping[str, Mapping[str, int]]) -> None:
    """Warn of each grouping that received retractions of values it does not hold; its results are too large."""
    for step, counts in counters.items():
        if unmatched := counts.get(UNMATCHED_RETRACTIONS):
            _log.warning(
                "step %r: %d retractions took back what was not there. Either what they take back was dropped as late, "
                "or has not come, or a step before gives another value for a retraction than for its pane; put "
                "ToChangelog() before that step to have retractions as ordinary elements",
                step,
                unmatched,
            )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _counted(counters: dict[str, int]) -> str:
    """Counters in words, without those that are 0.

    >>> _counted({"records": 1_200, "late": 0, "dropped_late": 3})
    '1,200 records, 3 dropped late'
    """
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counters.items() if count) or "nothing"
