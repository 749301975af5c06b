"""What a plot shows of a run: inputs, the watermark, and panes, each with its processing time.

A recording is made by `Pipeline(..., record=True)` and found at `result.recording`, and in the run's checkpoint if it
has one; `headrace.plot` draws it. It is one JSON file when saved. Times are microseconds UTC; processing time is the
wall clock of the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from headrace.sdk.model.short_text import count_text, table
from headrace.sdk.recording.state_snapshot import StateSnapshot

Value: TypeAlias = int | float | str | bool | None
"""A recorded value; a value that is neither a number, text nor None is recorded as text, shortened."""

FORMAT = 1
"""Version of the file's format."""
TIMINGS = ("EARLY", "ON_TIME", "LATE", "UNKNOWN")
"""The timings that a pane may have."""

NO_STEPS = (
    "no step was recorded, and none has windows, timers or state that the checkpoint knows. Start the run with "
    "--record (record=True in Python); groupings and steps with state are recorded, of a program without them there is "
    "no picture"
)
"""Why a recording is empty, and what to do."""
NOT_RECORDED = (
    "nothing was recorded, so a picture shows what the checkpoint knows at its end: watermarks, open windows and "
    "waiting timers. Start the run with --record (record=True in Python) for inputs, panes and results of each key"
)
"""What there is to see of a run that was not recorded."""


class RecordingError(ValueError):
    """A recording lacks what was asked for, or a file is no recording.

    >>> Recording(()).step("Sum")
    Traceback (most recent call last):
      ...
    headrace.sdk.recording.recording.RecordingError: ...
    """


@dataclass(frozen=True, slots=True)
class Arrival:
    """An element that reached a grouping.

    >>> Arrival(event_time=1_000_000, processing_time=5_000_000, key="red", value=7).is_retraction
    False
    """

    event_time: int
    processing_time: int
    key: str
    value: Value
    is_retraction: bool = False


@dataclass(frozen=True, slots=True)
class WatermarkStep:
    """A change of the low watermark of a grouping, at a processing time.

    >>> WatermarkStep(processing_time=5_000_000, watermark=1_000_000).watermark
    1000000
    """

    processing_time: int
    watermark: int


@dataclass(frozen=True, slots=True)
class RecordedPane:
    """A result that a grouping put out.

    >>> pane = RecordedPane(5_000_000, "red", 12, start=0, end=60_000_000, timing="ON_TIME", index=0)
    >>> pane.value, pane.end
    (12, 60000000)
    """

    processing_time: int
    key: str
    value: Value
    start: int | None
    """Start of its window [start, end); None for the global window, which is all of event time."""
    end: int | None
    timing: str
    """`EARLY`, `ON_TIME`, `LATE` or `UNKNOWN`."""
    index: int
    """Number of panes that the window had before."""
    is_retraction: bool = False
    """Whether it takes the pane of this value back."""


@dataclass(frozen=True, slots=True)
class Production:
    """An output of a computation, or of a `DoFn` with state: a result without a pane.

    >>> Production(event_time=1_000_000, processing_time=5_000_000, key="red", value=7).key
    'red'
    """

    event_time: int
    processing_time: int
    key: str
    """Key of the call that put it out; empty for an output of `finish_bundle`, which has no key."""
    value: Value


@dataclass(frozen=True, slots=True)
class FiredTimer:
    """A timer of a computation, or of a `DoFn` with state, that called user code.

    >>> FiredTimer(timestamp=60_000_000, processing_time=61_000_000, key="red", tag="end").is_wall
    False
    """

    timestamp: int
    """The timestamp it was set to, in its time domain."""
    processing_time: int
    key: str
    tag: str
    is_wall: bool = False
    """Whether it waited for the wall clock; else for the watermark."""


LISTS: Mapping[str, type] = {
    "arrivals": Arrival,
    "watermarks": WatermarkStep,
    "panes": RecordedPane,
    "productions": Production,
    "timers": FiredTimer,
}
"""The lists of a `StepRecording`, and the class of the items of each."""


@dataclass(frozen=True, slots=True, repr=False)
class StepRecording:
    """The recording of one grouping or computation, in the order of processing time.

    >>> step = StepRecording("Sum", arrivals=(Arrival(1_000_000, 5_000_000, "red", 7),))
    >>> step, step.keys()
    (Sum: 1 input, 1 key, ['red'])
    """

    label: str
    arrivals: tuple[Arrival, ...] = ()
    watermarks: tuple[WatermarkStep, ...] = ()
    panes: tuple[RecordedPane, ...] = ()
    dropped: int = 0
    """Elements dropped because their window was closed, since the pipeline first started."""
    left_out: int = 0
    """Items beyond the limit, which were only count_text."""
    productions: tuple[Production, ...] = ()
    timers: tuple[FiredTimer, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()
    """First and last epoch of each recorded range; empty where the epochs are not known."""
    committed: int = 0
    """Last epoch of the checkpoint that it was read from; 0 if it was read from no checkpoint."""
    restarts: tuple[int, ...] = ()
    """Processing times of the first epochs of later drivers, each of which continued a stopped or killed run."""
    standing: StateSnapshot | None = None
    """What a checkpoint knows of a step that was not recorded; None for one that was."""

    def __repr__(self) -> str:
        return f"{self.label}: {self.summary()}"

    def summary(self) -> str:
        """The number of items of each kind, in words.

        >>> StepRecording("Sum", (Arrival(1, 5, "b", 7), Arrival(2, 5, "b", 3))).summary()
        '2 inputs, 1 key'
        """
        kinds = {
            "input": len(self.arrivals),
            "pane": len(self.panes),
            "result": len(self.productions),
            "timer": len(self.timers),
            "key": len(self.keys()),
            "restart": len(self.restarts),
        }
        parts = [count_text(count, kind) for kind, count in kinds.items() if count]
        parts += [f"{self.left_out:,} left out"] if self.left_out else []
        return ", ".join([*parts, *(["not recorded"] if self.standing is not None else [])]) or "nothing"

    @property
    def unrecorded(self) -> list[tuple[int, int]]:
        """Ranges of epochs, up to the last committed, that are not in the recording.

        >>> StepRecording("Sum", epochs=((1, 3), (6, 7)), committed=9).unrecorded
        [(4, 5), (8, 9)]
        """
        ends = [0, *(last for _, last in self.epochs)]
        begins = [*(first for first, _ in self.epochs), max(self.committed, ends[-1]) + 1]
        return [(end + 1, begin - 1) for end, begin in zip(ends, begins, strict=True) if begin > end + 1]

    def followed_by(self, later: StepRecording) -> StepRecording:
        """This recording with a later one of the same step appended."""
        lists: dict[str, Any] = {name: getattr(self, name) + getattr(later, name) for name in LISTS}
        return replace(
            later,
            **lists,
            left_out=self.left_out + later.left_out,
            epochs=_joined_ranges(self.epochs + later.epochs),
            restarts=tuple(sorted({*self.restarts, *later.restarts})),
        )

    def keys(self) -> list[str]:
        """Every key, the one with most arrivals first.

        >>> StepRecording("Sum", (Arrival(1, 5, "b", 7), Arrival(2, 5, "b", 3), Arrival(2, 5, "a", 1))).keys()
        ['b', 'a']
        """
        counts = {pane.key: 0 for pane in self.panes}
        counts.update(dict.fromkeys(filter(None, [production.key for production in self.productions]), 0))
        counts.update({timer.key: 0 for timer in self.timers})
        if self.standing is not None:
            counts.update(dict.fromkeys(self.standing.keys(), 0))
        for arrival in self.arrivals:
            counts[arrival.key] = counts.get(arrival.key, 0) + 1
        return sorted(counts, key=lambda key: (-counts[key], key))


@dataclass(frozen=True, slots=True, repr=False)
class Recording:
    """The recording of a run, step by step.

    >>> recording = Recording((StepRecording("Sum", (Arrival(1_000_000, 5_000_000, "red", 7),)),))
    >>> recording.step("Sum").arrivals[0].value
    7
    >>> recording
    a recording of 1 step; headrace.plot.html(recording, "run.html", step="Sum") draws one
      Sum: 1 input, 1 key
    """

    steps: tuple[StepRecording, ...] = ()

    def __repr__(self) -> str:
        return "\n  ".join([self._title(), *map(repr, self.steps)])

    def _repr_html_(self) -> str:
        """What a notebook shows: how much was recorded of each step."""
        return table(self._title(), ["step", "recorded"], [[step.label, step.summary()] for step in self.steps])

    def _title(self) -> str:
        example = (
            f'; headrace.plot.html(recording, "run.html", step="{self.steps[0].label}") draws one' if self.steps else ""
        )
        return f"a recording of {count_text(len(self.steps), 'step')}{example}"

    def step(self, label: str | None = None) -> StepRecording:
        """The recording of a step, or of a step inside it; without a label, of the only one.

        Raises:
            RecordingError: No step has this label, or several do.
        """
        steps = [step for step in self.steps if label is None or covers(label, step.label)]
        if label is None:
            # Steps that were not recorded are found by their label only.
            steps = [step for step in steps if step.standing is None] or steps
        exact = [step for step in steps if step.label == label]
        if len(exact or steps) == 1:
            return (exact or steps)[0]
        if not self.steps:
            raise RecordingError(f"there is nothing to draw: {NO_STEPS}")
        known = ", ".join(repr(step.label) for step in self.steps)
        if label is None:
            raise RecordingError(f"say which step of the recording is meant, with step= (or --step=); it has {known}")
        several = "several steps" if steps else "no step"
        raise RecordingError(f"the recording has {several} named {label!r}; it has {known}")

    def save(self, path: str | Path) -> None:
        """Write the recording to a JSON file."""
        Path(path).write_text(self.to_json(indent=1) + "\n", encoding="utf-8")

    def to_json(self, indent: int | None = None) -> str:
        """The recording as the text that `save` writes."""
        return json.dumps({"format": FORMAT, "steps": [asdict(step) for step in self.steps]}, indent=indent)

    def followed_by(self, later: Recording) -> Recording:
        """This recording with a later one appended, step by step."""
        steps = {step.label: step for step in self.steps}
        for step in later.steps:
            steps[step.label] = steps[step.label].followed_by(step) if step.label in steps else step
        return Recording(tuple(steps.values()))

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read what `save` wrote. Raises `RecordingError` for a file that is something else, and `OSError`."""
        return cls.of_json(Path(path).read_bytes(), str(path))

    @classmethod
    def of_json(cls, data: bytes, name: str) -> Recording:
        """The recording of a `to_json`; messages call it `name`. Raises `RecordingError`."""
        try:
            document = json.loads(data.decode("utf-8"))
            version = document["format"]
            if version == FORMAT:
                return cls(tuple(map(_step, document["steps"])))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise RecordingError(
                f"{name} is no recording ({type(error).__name__}: {error}); give a file that recording.save() wrote"
            ) from error
        raise RecordingError(f"{name} has format {version!r}; this release reads {FORMAT}")


def covers(wanted: str, label: str) -> bool:
    """Whether a label is that of a step, or of one inside it.

    >>> covers("Totals", "Totals/CombinePerKey(sum)"), covers("Total", "Totals")
    (True, False)
    """
    return label == wanted or label.startswith(f"{wanted}/")


_NUMBERS = ("event_time", "processing_time", "watermark", "timestamp", "start", "end", "index")


def _step(document: Mapping[str, Any]) -> StepRecording:
    """A step of `to_json`. Raises LookupError, TypeError, AttributeError or ValueError for malformed input."""
    values: dict[str, Any] = {
        name: tuple(_item(kind, fields) for fields in document.get(name, ())) for name, kind in LISTS.items()
    }
    values |= {name: _number(document.get(name, 0)) for name in ("dropped", "left_out", "committed")}
    values["epochs"] = tuple((_number(first), _number(last)) for first, last in document.get("epochs", ()))
    values["restarts"] = tuple(map(_number, document.get("restarts", ())))
    if (standing := document.get("standing")) is not None:
        values["standing"] = StateSnapshot.of(standing)
    return StepRecording(_text(document["label"]), **values)


def _item(kind: type, fields: Mapping[str, Any]) -> Any:
    """An item of a kind. Raises TypeError or ValueError if a plot could not show its fields."""
    for name, value in fields.items():
        if name in _NUMBERS and not (value is None and name in ("start", "end")):
            _number(value)
        elif name in ("key", "tag", "timing"):
            _text(value)
        elif name == "value" and not (value is None or isinstance(value, (int, float, str))):
            raise TypeError(f"value {value!r:.80} is no number, text or null")
    if fields.get("timing", "UNKNOWN") not in TIMINGS:
        raise ValueError(f"timing {fields['timing']!r:.80} is none of {', '.join(TIMINGS)}")
    return kind(**fields)


def _number(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise TypeError(f"{value!r:.80} is no number of 64 bits")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def _joined_ranges(runs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Ranges of epochs, with adjacent ones joined.

    >>> _joined_ranges(((4, 6), (1, 2), (3, 3)))
    ((1, 6),)
    """
    joined: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)
