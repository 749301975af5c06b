"""What the page shows of one pipeline: plain values, which JSON can represent. Nothing here reads a run or a clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.reporting.figures import shown_time


class Phase(StrEnum):
    """What is known of a pipeline's driver."""

    RUNNING = "running"
    WAITING = "waiting"
    """The driver lives, and has committed nothing for a while: it waits for input or for a timer, or works."""
    BUSY = "busy"
    """The driver has been in one epoch for a while."""
    SILENT = "silent"
    """Nothing was committed for a while, and whether the driver lives cannot be seen from here."""
    DEAD = "dead"
    """The driver has ended before the input has."""
    FAILED = "failed"
    """The run that serves the page has ended with an error."""
    FINISHED = "finished"
    """The input has ended, and nothing is left to do."""
    STARTING = "starting"
    """The run that serves the page has committed nothing yet."""
    EMPTY = "empty"
    """Nothing is committed yet."""
    UNREADABLE = "unreadable"
    """The checkpoint cannot be read."""
    UNREAD = "unread"
    """The checkpoint is being read for the first time."""


@dataclass(frozen=True, slots=True)
class Status:
    """Whether a pipeline runs, in a word and in a sentence."""

    phase: Phase
    sentence: str
    committed: float | None = None
    """The wall-clock time of the last commit, seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ChartedTime:
    """A time in event time, as text and for charts."""

    text: str
    seconds: float | None
    """Seconds since 1970; None at the ends of time."""

    @classmethod
    def of(cls, timestamp: int) -> ChartedTime:
        """The time of a timestamp in microseconds UTC.

        >>> ChartedTime.of(1_500_000), ChartedTime.of(MAX_TIMESTAMP).seconds
        (ChartedTime(text='1970-01-01 00:00:01', seconds=1.5), None)
        """
        inside = MIN_TIMESTAMP < timestamp < MAX_TIMESTAMP
        return cls(shown_time(timestamp), timestamp / 1e6 if inside else None)


@dataclass(frozen=True, slots=True)
class Totals:
    """Figures of the whole pipeline."""

    records_in: int
    records_out: int
    in_rate: float | None
    """Records a second over the last ten seconds; None if that is not known, or the pipeline does not run."""
    out_rate: float | None
    late: int
    dropped: int
    duplicates: int
    dead_letters: int
    watermark: ChartedTime
    lag: str
    """How far the least watermark is behind the greatest timestamp read, as text."""
    state: str
    """Bytes of state, as text."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """Figures of one step; None for a figure that it lacks or that is not known."""

    step: str
    records_in: int | None
    records_out: int | None
    in_rate: float | None
    out_rate: float | None
    late: int | None
    dropped: int | None
    duplicates: int | None
    dead_letters: int | None
    timers: int | None
    watermark: ChartedTime | None
    lag: str
    state: str
    still: float | None
    """Seconds since the watermark has moved, while records came; None if it moves."""
    still_at_first: bool
    """Whether it stood there when it was first seen, so that it may have stood for longer."""


@dataclass(frozen=True, slots=True)
class WatermarkRow:
    """The watermarks of a computation, and what they wait for."""

    step: str
    input: ChartedTime
    output: ChartedTime
    held_by: str
    """The key whose hold the output watermark waits for; empty if there is none."""
    waits_for: str
    """The oldest unfinished work before the step: a source, a hold, or records on their way; empty if there is none."""


@dataclass(frozen=True, slots=True)
class History:
    """The course of a run: a point for each of the latest epochs, at most one a second."""

    clocks: Sequence[float]
    """Wall-clock times, seconds since 1970."""
    epochs: Sequence[int]
    """Numbers of the epochs at these times; those between two of them were not seen."""
    watermarks: Mapping[str, Sequence[float | None]]
    """Step -> its watermark at each of these times, seconds since 1970; None at the ends of time."""
    in_rates: Sequence[float | None]
    """Records a second between each point and the one before it."""


@dataclass(frozen=True, slots=True)
class EpochBar:
    """The durations of one epoch."""

    epoch: int
    clock: float
    """Its wall-clock time, seconds since 1970."""
    seconds: float
    phases: Mapping[str, float]
    """Part -> seconds."""
    records: int | None
    """Records read since the epoch before it that is shown."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One key interval of a level."""

    number: int
    start: float
    """Where it begins and ends in the key space, from 0 to 1."""
    stop: float
    task: int
    size: int
    """Bytes of state in its files."""
    changed: int
    """Bytes of the changes of the last epoch."""
    watermark: str
    """The least output watermark of the level's computations there."""
    hot: bool
    """Whether far more is changed or stored there than in others of the level."""


@dataclass(frozen=True, slots=True)
class LevelRow:
    """The key intervals of one level of computations."""

    level: int
    steps: Sequence[str]
    intervals: Sequence[IntervalRow]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The progress of a source."""

    source: str
    watermark: str
    greatest: str
    ended: bool
    position: str


@dataclass(frozen=True, slots=True)
class PendingRow:
    """Records that are delivered with the next epoch."""

    to: str
    records: int
    oldest: str


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What only a checkpoint tells of a pipeline, as of its last commit."""

    epoch: int
    driver: str
    topology: str
    """Changes when the graph does."""
    watermarks: Sequence[WatermarkRow] = ()
    levels: Sequence[LevelRow] = ()
    sources: Sequence[SourceRow] = ()
    pending: Sequence[PendingRow] = ()
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class PipelineSnapshot:
    """Everything that the page shows of a pipeline without being asked for more."""

    title: str
    place: str
    """Where the checkpoint is; empty if there is none."""
    live: bool
    """Whether the run itself serves the page, so that the durations of epochs are known."""
    status: Status
    epoch: int | None = None
    totals: Totals | None = None
    steps: Sequence[StepRow] = ()
    history: History | None = None
    epochs: Sequence[EpochBar] = ()
    stored: StoredFacts | None = None
    problem: str = ""
    """Why the checkpoint could not be read; empty if it could."""
    notices: Sequence[str] = ()
    """Which sink took most of the last epoch, and which key had most of its records, in words."""
