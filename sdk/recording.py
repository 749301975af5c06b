"""What a picture needs of a run: inputs, the watermark, and panes, each with the processing time it was seen at.

A recording is made by `Pipeline(..., record=True)` and found at `result.recording`; `headrace.plot` draws it. It is
one JSON file when saved. Times are microseconds UTC; processing time is the wall clock of the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

Value: TypeAlias = int | float | str | bool | None
"""A value as it is recorded; what is neither number, text nor None stands as text, shortened."""

FORMAT = 1
"""Version of the file's format."""


class RecordingError(ValueError):
    """A recording has not got what is asked for, or is no recording."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An element that reached a grouping."""

    event_time: int
    processing_time: int
    key: str
    value: Value
    is_retraction: bool = False


@dataclass(frozen=True, slots=True)
class WatermarkStep:
    """The low watermark of a grouping from a processing time on."""

    processing_time: int
    watermark: int


@dataclass(frozen=True, slots=True)
class RecordedPane:
    """A result that a grouping put out."""

    processing_time: int
    key: str
    value: Value
    start: int | None
    """Of its window [start, end); None for the global window, which is all of event time."""
    end: int | None
    timing: str
    """`EARLY`, `ON_TIME`, `LATE` or `UNKNOWN`."""
    index: int
    """Number of panes that the window had before."""
    is_retraction: bool = False
    """Whether it takes the pane of this value back."""


@dataclass(frozen=True, slots=True)
class StepRecording:
    """What was seen of one grouping, in the order of processing time."""

    label: str
    arrivals: tuple[Arrival, ...] = ()
    watermarks: tuple[WatermarkStep, ...] = ()
    panes: tuple[RecordedPane, ...] = ()
    dropped: int = 0
    """Elements dropped because their window was closed, since the pipeline first started."""
    left_out: int = 0
    """Arrivals, panes and moves of the watermark that were seen after the limit was reached, and only counted."""

    def keys(self) -> list[str]:
        """Every key, the one with most arrivals first.

        >>> StepRecording("Sum", (Arrival(1, 5, "b", 7), Arrival(2, 5, "b", 3), Arrival(2, 5, "a", 1))).keys()
        ['b', 'a']
        """
        counts = {pane.key: 0 for pane in self.panes}
        for arrival in self.arrivals:
            counts[arrival.key] = counts.get(arrival.key, 0) + 1
        return sorted(counts, key=lambda key: (-counts[key], key))


@dataclass(frozen=True, slots=True)
class Recording:
    """Of a whole run, grouping by grouping.

    >>> recording = Recording((StepRecording("Sum", (Arrival(1_000_000, 5_000_000, "red", 7),)),))
    >>> recording.step("Sum").arrivals[0].value
    7
    """

    steps: tuple[StepRecording, ...] = ()

    def step(self, label: str | None = None) -> StepRecording:
        """The recording of a step, or of a step inside it; without a label, of the only one.

        Raises:
            RecordingError: There is none of this label, or not just one.
        """
        found = [step for step in self.steps if label is None or covers(label, step.label)]
        exact = [step for step in found if step.label == label]
        if len(exact or found) == 1:
            return (exact or found)[0]
        known = ", ".join(repr(step.label) for step in self.steps) or "none"
        if label is None:
            raise RecordingError(f"say which step of the recording is meant, with step=; it has {known}")
        several = "several steps" if found else "no step"
        raise RecordingError(f"the recording has {several} named {label!r}; it has {known}")

    def save(self, path: str | Path) -> None:
        """Write it to a JSON file."""
        told = {"format": FORMAT, "steps": [asdict(step) for step in self.steps]}
        Path(path).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read what `save` wrote. Raises `RecordingError` for a file that is something else, and `OSError`."""
        try:
            told = json.loads(Path(path).read_text(encoding="utf-8"))
            version = told["format"]
            if version == FORMAT:
                return cls(tuple(map(_step, told["steps"])))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RecordingError(
                f"{path} is no recording ({type(error).__name__}: {error}); give a file that recording.save() wrote"
            ) from error
        raise RecordingError(f"{path} has format {version!r}; this release reads {FORMAT}")


def covers(wanted: str, label: str) -> bool:
    """Whether a label is that of a step, or of one inside it.

    >>> covers("Totals", "Totals/CombinePerKey(sum)"), covers("Total", "Totals")
    (True, False)
    """
    return label == wanted or label.startswith(f"{wanted}/")


def _step(told: Mapping[str, object]) -> StepRecording:
    arrivals, watermarks, panes = (
        cast("list[dict[str, Any]]", told[name]) for name in ("arrivals", "watermarks", "panes")
    )
    return StepRecording(
        cast(str, told["label"]),
        tuple(Arrival(**its) for its in arrivals),
        tuple(WatermarkStep(**its) for its in watermarks),
        tuple(RecordedPane(**its) for its in panes),
        cast(int, told["dropped"]),
        cast(int, told["left_out"]),
    )
