"""Records a run for a picture of it: what taps see, with the clock and the watermarks of each epoch.

Taps (`recordedtap.py`) are added to the compiled pipeline only, so a recorded run computes what it would compute
anyway. Sinks are given the rows of an epoch first, then the engine tells its clock and watermarks (`Progress`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, cast

from headrace.lowlevel.metric import ENGINE, Cells, CounterCell, GaugeCell, Metric
from headrace.sdk.graph import GROUPING
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.recordedtap import Row, arrival, pane, tap, told_in, told_out
from headrace.sdk.recording import (
    Arrival,
    RecordedPane,
    Recording,
    RecordingError,
    StepRecording,
    WatermarkStep,
    covers,
)
from headrace.sdk.transforms.element import Map

LIMIT = 10_000
"""Arrivals, panes and moves of the watermark that are kept of one step; a picture of more says nothing."""
_WATERMARK = Metric("gauge", ENGINE, "watermark")
_DROPPED = Metric("counter", ENGINE, "dropped_late")

T = TypeVar("T")
U = TypeVar("U")


class EpochTold(Protocol):
    """What the engine says after an epoch, as far as it matters here (`Progress`)."""

    @property
    def epoch(self) -> int:
        """Its number."""

    @property
    def clock(self) -> int:
        """Its reading of the wall clock, microseconds UTC."""

    @property
    def metrics(self) -> Cells:
        """Step -> metric -> value."""


@dataclass(slots=True)
class _Seen:
    """Of one step so far, and its rows of the epoch that is being delivered."""

    arrivals: list[Arrival] = field(default_factory=list)
    watermarks: list[WatermarkStep] = field(default_factory=list)
    panes: list[RecordedPane] = field(default_factory=list)
    watermark: int | None = None
    dropped: int = 0
    left_out: int = 0
    epoch: int = 0
    rows_in: list[Row] = field(default_factory=list)
    rows_out: list[Row] = field(default_factory=list)

    def deliver_in(self, epoch: int, rows: list[Row]) -> None:
        """Keep the rows of an epoch until its clock is told."""
        self._begin(epoch)
        self.rows_in += rows

    def deliver_out(self, epoch: int, rows: list[Row]) -> None:
        """As `deliver_in`."""
        self._begin(epoch)
        self.rows_out += rows

    def _begin(self, epoch: int) -> None:
        # A run that goes on from a checkpoint delivers the last epoch again and tells no clock of it: it is not this
        # run's.
        if epoch != self.epoch:
            self.epoch, self.rows_in, self.rows_out = epoch, [], []

    def commit(self, epoch: int, clock: int, cells: Mapping[Metric, object]) -> None:
        """The epoch is over: everything of it was seen at its clock."""
        self._begin(epoch)
        self._keep(self.arrivals, self.rows_in, partial(arrival, clock))
        self._keep(self.panes, self.rows_out, partial(pane, clock))
        if isinstance(gauge := cells.get(_WATERMARK), GaugeCell) and gauge.value != self.watermark:
            self.watermark = gauge.value
            self._keep(self.watermarks, [gauge.value], partial(WatermarkStep, clock))
        if isinstance(dropped := cells.get(_DROPPED), CounterCell):
            self.dropped = dropped.total
        self.rows_in, self.rows_out = [], []

    def _keep(self, into: list[T], new: Sequence[U], make: Callable[[U], T]) -> None:
        room = LIMIT - len(self.arrivals) - len(self.watermarks) - len(self.panes)
        into += map(make, new[:room])
        self.left_out += len(new[room:])

    def recorded(self, label: str) -> StepRecording:
        """What was seen."""
        seen = tuple(self.arrivals), tuple(self.watermarks), tuple(self.panes)
        return StepRecording(label, *seen, self.dropped, self.left_out)


class Recorder:
    """Of one run of a pipeline.

    Args:
        pipeline: What runs.
        wanted: Labels of steps to record; a composite one stands for the groupings in it. Empty for all groupings.

    Raises:
        RecordingError: There is no grouping, or none in a step of such a label.
    """

    def __init__(self, pipeline: Pipeline, wanted: Collection[str] = ()) -> None:
        chosen = _chosen(pipeline, wanted)
        self._seen = {step.full_label: _Seen() for step in chosen}
        self._taps = [part for step in chosen for part in self._tapped(pipeline, step)]

    def steps(self, steps: Sequence[Step]) -> list[Step]:
        """The steps of the pipeline, and the taps."""
        return [*steps, *self._taps]

    def _tapped(self, pipeline: Pipeline, step: Step) -> Iterator[Step]:
        label, seen = step.full_label, self._seen[step.full_label]
        (source,) = (value for value in step.inputs if isinstance(value, PCollection))
        yield from tap(pipeline, f"{label}/recorded input", source, Map(told_in), seen.deliver_in)
        yield from tap(pipeline, f"{label}/recorded output", step.outputs[None], Map(told_out), seen.deliver_out)

    def after(self, told: EpochTold) -> None:
        """An epoch is committed and delivered."""
        for label, seen in self._seen.items():
            seen.commit(told.epoch, told.clock, told.metrics.get(label, {}))

    def followed_by(self, progress: Callable[[object], None] | None) -> Callable[[object], None]:
        """What the engine is to call after each commit: this recorder, then what the user wants to have called."""

        def both(told: object) -> None:
            self.after(cast(EpochTold, told))
            if progress is not None:
                progress(told)

        return both

    def recording(self) -> Recording:
        """What was seen."""
        return Recording(tuple(seen.recorded(label) for label, seen in self._seen.items()))


def _chosen(pipeline: Pipeline, wanted: Collection[str]) -> list[Step]:
    """The groupings to record; raises `RecordingError` where there are none."""
    groupings = [step for step in pipeline.steps if isinstance(step.transform, GROUPING)]
    if not groupings:
        raise RecordingError(
            "nothing can be recorded, as the pipeline has no grouping (CombinePerKey, GroupByKey, …); leave record out"
        )
    for label in wanted:
        if not any(covers(label, step.full_label) for step in groupings):
            known = ", ".join(repr(step.full_label) for step in groupings)
            raise RecordingError(
                f"nothing can be recorded of {label!r}, as no grouping is, or is in, a step of that label; "
                f"the pipeline's groupings are {known}"
            )
    return [step for step in groupings if not wanted or any(covers(label, step.full_label) for label in wanted)]
