"""Records a run for a picture of it: what taps see, with the clock and the watermarks of each epoch.

Taps are added to the compiled pipeline only (`recordedtap.py` at groupings, `recordedcall.py` around computations), so
a recorded run computes what it would compute anyway. Sinks are given the rows of an epoch first, then the engine tells
its clock and watermarks (`Progress`). With a checkpoint the recording lies in it (`recordlog.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

from headrace.lowlevel.checkpoint import CheckpointView, Manifest
from headrace.lowlevel.checkpoint.fingerprint import SINK
from headrace.lowlevel.intervalcomputation import IntervalComputation
from headrace.lowlevel.metric import ENGINE, Cells, CounterCell, GaugeCell, Metric
from headrace.lowlevel.sink import TapSink
from headrace.lowlevel.topology import Topology
from headrace.sdk.graph import GROUPING, stateful_signature
from headrace.sdk.pipeline import Pipeline, Step
from headrace.sdk.pvalue import PCollection
from headrace.sdk.recordedcall import of_call, watched
from headrace.sdk.recordedstep import Make, Moment, Seen
from headrace.sdk.recordedtap import arrival, pane, tap, told_in, told_out
from headrace.sdk.recording import Recording, RecordingError, covers
from headrace.sdk.recordlog import JOIN_AT, RecordLog
from headrace.sdk.transforms.computation import RunComputation
from headrace.sdk.transforms.element import Map

_WATERMARK = Metric("gauge", ENGINE, "watermark")
_DROPPED = Metric("counter", ENGINE, "dropped_late")


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


class Recorder:
    """Of one run.

    Args:
        groupings: Steps of a pipeline to record that are groupings.
        computations: Names of computations to record, in the topology.
        log: Where the recording lies besides; None to keep it for the run's result only.
    """

    def __init__(
        self, groupings: Sequence[Step] = (), computations: Collection[str] = (), log: RecordLog | None = None
    ) -> None:
        self._groupings = groupings
        self._computations = computations
        taps: dict[str, dict[str, Make]] = {
            step.full_label: {_input(step): arrival, _output(step): pane} for step in groupings
        }
        taps |= {name: {_stream(name): of_call} for name in computations}
        self._seen = {
            label: Seen(label, {_sink(tap): make for tap, make in its.items()}) for label, its in taps.items()
        }
        self._log = log
        self._caught_up = False
        self._added = 0

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline, wanted: Collection[str] = (), log: RecordLog | None = None) -> Recorder:
        """Of a pipeline: of the groupings and computations in steps of the labels wanted, or of all.

        Raises:
            RecordingError: There is none, or none in a step of such a label.
        """
        chosen = _chosen([step.full_label for step in pipeline.steps if _can_be_recorded(step)], wanted)
        steps = [step for step in pipeline.steps if step.full_label in chosen and _can_be_recorded(step)]
        groupings = [step for step in steps if isinstance(step.transform, GROUPING)]
        return cls(groupings, [step.full_label for step in steps if step not in groupings], log)

    @classmethod
    def of_topology(cls, topology: Topology, wanted: Collection[str] = (), log: RecordLog | None = None) -> Recorder:
        """Of a topology: of the computations of the names wanted, or of all. Raises as `of_pipeline`."""
        names = [
            name for name, place in topology.keyed.items() if not isinstance(place.computation, IntervalComputation)
        ]
        return cls((), _chosen(names, wanted), log)

    # Adding taps

    def steps(self, pipeline: Pipeline) -> list[Step]:
        """The steps of the pipeline, and the taps of groupings."""
        return [*pipeline.steps, *(part for step in self._groupings for part in self._tapped(pipeline, step))]

    def _tapped(self, pipeline: Pipeline, step: Step) -> Iterator[Step]:
        seen = self._seen[step.full_label]
        (source,) = (value for value in step.inputs if isinstance(value, PCollection))
        came, went = partial(seen.deliver, arrival), partial(seen.deliver, pane)
        yield from tap(pipeline, _input(step), source, Map(told_in), came)
        yield from tap(pipeline, _output(step), step.outputs[None], Map(told_out), went)

    def topology(self, topology: Topology) -> Topology:
        """The topology, with taps around its computations."""
        keyed, sinks = dict(topology.keyed), dict(topology.sinks)
        for name in self._computations:
            stream = _stream(name)
            keyed[name] = watched(keyed[name], stream)
            sinks[_sink(stream)] = stream, TapSink(partial(self._seen[name].deliver, of_call))
        return Topology(dict(topology.injectors), keyed, dict(topology.inlines), sinks, topology.key_coder)

    # Seeing

    def after(self, told: EpochTold) -> None:
        """An epoch is committed and delivered."""
        self._catch_up(told.epoch)
        self._commit(told.epoch, {label: _moment(told, label) for label in self._seen})

    def followed_by(self, progress: Callable[[object], None] | None) -> Callable[[object], None]:
        """What the engine is to call after each commit: this recorder, then what the user wants to have called."""

        def both(told: object) -> None:
            self.after(cast(EpochTold, told))
            if progress is not None:
                progress(told)

        return both

    def recording(self) -> Recording:
        """What was seen."""
        self._catch_up(None)
        return Recording(tuple(seen.step for seen in self._seen.values()))

    def _commit(self, epoch: int, moments: Mapping[str, Moment]) -> None:
        news = Recording(tuple(self._seen[label].commit(epoch, moment) for label, moment in moments.items()))
        if self._log is not None:
            self._log.add((epoch, epoch), news)
            self._added += 1
            if self._added % JOIN_AT == 0:
                self._log.join()

    # Going on from a checkpoint

    def _catch_up(self, before: int | None) -> None:
        """With the recording of earlier runs, and with what an earlier driver has committed but not written to it."""
        if self._caught_up or self._log is None:
            return
        self._caught_up = True
        earlier = {step.label: step for step in self._log.read().steps}
        for label, seen in self._seen.items():
            if label in earlier:
                seen.begin(earlier[label])
        last = max((last for _, last in self._log.objects()), default=0)
        commits = [
            commit for commit in CheckpointView.of(self._log.store).commits() if before is None or commit.epoch < before
        ]
        driver = None
        for commit in commits:
            if commit.epoch > last:
                if driver not in (None, commit.generation):
                    self._restart()
                self._take(commit)
            driver = commit.generation
        if commits:
            self._restart()

    def _restart(self) -> None:
        for seen in self._seen.values():
            seen.restart()

    def _take(self, commit: Manifest) -> None:
        """What a commit says of its epoch. Its rows are those that the sinks were, or were to be, given."""
        tapped = commit.topology.of_kind(SINK)
        moments = {}
        for label, seen in self._seen.items():
            seen.forget(commit.epoch)
            if tapped.keys() >= seen.sinks.keys():
                moments[label] = _moment_of(commit, label)
                for name, make in seen.sinks.items():
                    seen.deliver(make, commit.epoch, TapSink.rows(commit.receipts.get(name, ())))
        self._commit(commit.epoch, moments)


def _input(step: Step) -> str:
    return f"{step.full_label}/recorded input"


def _output(step: Step) -> str:
    return f"{step.full_label}/recorded output"


def _stream(name: str) -> str:
    return f"{name}/recorded"


def _sink(tap: str) -> str:
    return f"{tap}/sink"


def _moment(told: EpochTold, label: str) -> Moment:
    cells = told.metrics.get(label, {})
    gauge, dropped = cells.get(_WATERMARK), cells.get(_DROPPED)
    return Moment(
        told.clock,
        gauge.value if isinstance(gauge, GaugeCell) else None,
        dropped.total if isinstance(dropped, CounterCell) else 0,
    )


def _moment_of(commit: Manifest, label: str) -> Moment:
    dropped = commit.counters.get(label, {}).get("dropped_late", 0)
    return Moment(commit.wall_clock, commit.input_watermarks.get(label), dropped)


def _can_be_recorded(step: Step) -> bool:
    transform = step.transform
    if isinstance(transform, RunComputation):
        return not isinstance(transform.computation, IntervalComputation)
    return isinstance(transform, GROUPING) or stateful_signature(step) is not None


def _chosen(labels: Sequence[str], wanted: Collection[str]) -> list[str]:
    """The labels to record; raises `RecordingError` where there are none."""
    if not labels:
        raise RecordingError(
            "nothing can be recorded, as the pipeline has no grouping (CombinePerKey, GroupByKey, …), no computation "
            "that takes key by key and no DoFn with state or timers; leave record out"
        )
    for label in wanted:
        if not any(covers(label, its) for its in labels):
            raise RecordingError(
                f"nothing can be recorded of {label!r}, as no grouping, computation or DoFn with state is, or is in, a "
                f"step of that label; the pipeline has {', '.join(map(repr, labels))}"
            )
    return [its for its in labels if not wanted or any(covers(label, its) for label in wanted)]
