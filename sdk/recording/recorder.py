"""Records a run for a plot of it: what taps see, with the clock and the watermarks of each epoch.

Only the compiled pipeline gets taps (`recorded_step.py` at groupings, `call_recorder.py` around computations), so a
recorded run computes the same results. Sinks receive the rows of an epoch first, then the engine reports its clock and
watermarks (`EpochProgress`). With a checkpoint, the recording is stored in it (`checkpoint_recording.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

from headrace.lowlevel.checkpoint import CheckpointView, Manifest
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK
from headrace.lowlevel.metric import ENGINE, MetricValues, TypedMetricName
from headrace.lowlevel.metric_cells import CounterCell, GaugeCell
from headrace.lowlevel.sinks.sink import TapSink
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.graph.pvalue import BasePipeline, PCollection, Step
from headrace.sdk.recording.call_recorder import call_item, with_recorded_calls
from headrace.sdk.recording.checkpoint_recording import JOIN_AT, RecordLog
from headrace.sdk.recording.recorded_step import (
    EpochClock,
    Make,
    RecordedStep,
    arrival,
    input_fields,
    output_fields,
    pane,
    tap,
)
from headrace.sdk.recording.recording import Recording, RecordingError, covers
from headrace.sdk.transforms.core.low_level import RunComputation
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.steps import GROUPING, declared_state

_WATERMARK = TypedMetricName("gauge", ENGINE, "watermark")
_DROPPED = TypedMetricName("counter", ENGINE, "dropped_late")


class ReportedEpoch(Protocol):
    """What the engine reports after an epoch, as far as a recorder uses it (`EpochProgress`)."""

    @property
    def epoch(self) -> int:
        """The number of the epoch."""

    @property
    def clock(self) -> int:
        """The wall clock of the epoch, microseconds UTC."""

    @property
    def metrics(self) -> MetricValues:
        """Step -> metric -> value."""


class Recorder:
    """Collects the recording of one run.

    Args:
        groupings: Steps of a pipeline to record that are groupings.
        computations: Names of computations to record, in the topology.
        log: Stores the recording in the checkpoint; None to keep it for the result of the run only.
    """

    def __init__(
        self, groupings: Sequence[Step] = (), computations: Collection[str] = (), log: RecordLog | None = None
    ) -> None:
        self._groupings = groupings
        self._computations = computations
        taps: dict[str, dict[str, Make]] = {
            step.full_label: {_input(step): arrival, _output(step): pane} for step in groupings
        }
        taps |= {name: {_stream(name): call_item} for name in computations}
        self._recorded = {
            label: RecordedStep(label, {_sink(tap): make for tap, make in makers.items()})
            for label, makers in taps.items()
        }
        self._log = log
        self._caught_up = False
        self._added = 0

    @classmethod
    def of_pipeline(
        cls, pipeline: BasePipeline, wanted: Collection[str] = (), log: RecordLog | None = None
    ) -> Recorder:
        """A recorder of the groupings and computations in steps of the labels wanted, or of all in the pipeline.

        Raises:
            RecordingError: There is none, or none in a step of such a label.
        """
        chosen = _labels_to_record([step.full_label for step in pipeline.steps if _can_be_recorded(step)], wanted)
        steps = [step for step in pipeline.steps if step.full_label in chosen and _can_be_recorded(step)]
        groupings = [step for step in steps if isinstance(step.transform, GROUPING)]
        return cls(groupings, [step.full_label for step in steps if step not in groupings], log)

    @classmethod
    def of_topology(cls, topology: Topology, wanted: Collection[str] = (), log: RecordLog | None = None) -> Recorder:
        """A recorder of the computations of the names wanted, or of all in the topology. Raises as `of_pipeline`."""
        names = [
            name for name, place in topology.keyed.items() if not isinstance(place.computation, IntervalComputation)
        ]
        return cls((), _labels_to_record(names, wanted), log)

    # Adding taps

    def steps(self, pipeline: BasePipeline) -> list[Step]:
        """The steps of the pipeline, and the taps of groupings."""
        return [*pipeline.steps, *(part for step in self._groupings for part in self._taps(step))]

    def _taps(self, step: Step) -> Iterator[Step]:
        recorded = self._recorded[step.full_label]
        (source,) = (value for value in step.inputs if isinstance(value, PCollection))
        arrivals, panes = (TapSink(partial(recorded.deliver, make)) for make in (arrival, pane))
        yield from tap(_input(step), source, Map(input_fields), arrivals)
        yield from tap(_output(step), step.outputs[None], Map(output_fields), panes)

    def topology(self, topology: Topology) -> Topology:
        """The topology, with taps around its computations."""
        keyed, sinks = dict(topology.keyed), dict(topology.sinks)
        for name in self._computations:
            stream = _stream(name)
            keyed[name] = with_recorded_calls(keyed[name], stream)
            sinks[_sink(stream)] = stream, TapSink(partial(self._recorded[name].deliver, call_item))
        return replace(
            topology, injectors=dict(topology.injectors), keyed=keyed, inlines=dict(topology.inlines), sinks=sinks
        )

    # Seeing

    def record_epoch(self, epoch: ReportedEpoch) -> None:
        """Record an epoch that is committed and delivered."""
        self._catch_up(epoch.epoch)
        self._commit(epoch.epoch, {label: _clock_of_epoch(epoch, label) for label in self._recorded})

    def with_progress(self, progress: Callable[[object], None] | None) -> Callable[[object], None]:
        """A function for the engine to call after each commit: it calls this recorder, then `progress`."""

        def record_and_report(epoch: object) -> None:
            self.record_epoch(cast(ReportedEpoch, epoch))
            if progress is not None:
                progress(epoch)

        return record_and_report

    def recording(self) -> Recording:
        """The recording so far."""
        self._catch_up(None)
        return Recording(tuple(recorded.step for recorded in self._recorded.values()))

    def _commit(self, epoch: int, moments: Mapping[str, EpochClock]) -> None:
        news = Recording(tuple(self._recorded[label].commit(epoch, moment) for label, moment in moments.items()))
        if self._log is not None:
            self._log.add((epoch, epoch), news)
            self._added += 1
            if self._added % JOIN_AT == 0:
                self._log.join()

    # Going on from a checkpoint

    def _catch_up(self, before: int | None) -> None:
        """Add the recording of earlier runs, and what an earlier driver committed but did not record."""
        if self._caught_up or self._log is None:
            return
        self._caught_up = True
        earlier = {step.label: step for step in self._log.read().steps}
        for label, recorded in self._recorded.items():
            if label in earlier:
                recorded.begin(earlier[label])
        last = max((last for _, last in self._log.objects()), default=0)
        commits = [
            commit for commit in CheckpointView.of(self._log.store).commits() if before is None or commit.epoch < before
        ]
        driver = None
        for commit in commits:
            if commit.epoch > last:
                if driver not in (None, commit.generation):
                    self._restart()
                self._record_commit(commit)
            driver = commit.generation
        if commits:
            self._restart()

    def _restart(self) -> None:
        for recorded in self._recorded.values():
            recorded.restart()

    def _record_commit(self, commit: Manifest) -> None:
        """Record the epoch of a commit, with the rows that its sinks received, or were about to receive."""
        tapped = commit.topology.of_kind(SINK)
        moments = {}
        for label, recorded in self._recorded.items():
            recorded.forget(commit.epoch)
            if tapped.keys() >= recorded.sinks.keys():
                moments[label] = _clock_of_commit(commit, label)
                for name, make in recorded.sinks.items():
                    recorded.deliver(make, commit.epoch, TapSink.rows(commit.receipts.get(name, ())))
        self._commit(commit.epoch, moments)


def _input(step: Step) -> str:
    return f"{step.full_label}/recorded input"


def _output(step: Step) -> str:
    return f"{step.full_label}/recorded output"


def _stream(name: str) -> str:
    return f"{name}/recorded"


def _sink(tap: str) -> str:
    return f"{tap}/sink"


def _clock_of_epoch(epoch: ReportedEpoch, label: str) -> EpochClock:
    cells = epoch.metrics.get(label, {})
    gauge, dropped = cells.get(_WATERMARK), cells.get(_DROPPED)
    return EpochClock(
        epoch.clock,
        gauge.value if isinstance(gauge, GaugeCell) else None,
        dropped.total if isinstance(dropped, CounterCell) else 0,
    )


def _clock_of_commit(commit: Manifest, label: str) -> EpochClock:
    dropped = commit.counters.get(label, {}).get("dropped_late", 0)
    return EpochClock(commit.wall_clock, commit.input_watermarks.get(label), dropped)


def _can_be_recorded(step: Step) -> bool:
    transform = step.transform
    if isinstance(transform, RunComputation):
        return not isinstance(transform.computation, IntervalComputation)
    return isinstance(transform, GROUPING) or declared_state(step) is not None


def _labels_to_record(labels: Sequence[str], wanted: Collection[str]) -> list[str]:
    """The labels to record; raises `RecordingError` where there are none."""
    if not labels:
        raise RecordingError(
            "nothing can be recorded, as the pipeline has no grouping (CombinePerKey, GroupByKey, …), no computation "
            "that works key by key and no DoFn with state or timers; leave record out"
        )
    for label in wanted:
        if not any(covers(label, full_label) for full_label in labels):
            raise RecordingError(
                f"nothing can be recorded of {label!r}, as no grouping, computation or DoFn with state is, or is in, a "
                f"step of that label; the pipeline has {', '.join(map(repr, labels))}"
            )
    return [full_label for full_label in labels if not wanted or any(covers(label, full_label) for label in wanted)]
