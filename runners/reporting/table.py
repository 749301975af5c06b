"""What people are shown of a run's progress, as words: a few lines of the whole, and a line for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.runners.engine.options import Progress
from headrace.runners.reporting.figures import Rates, StepFigures, shown_bytes, shown_span, shown_time, total


@dataclass(frozen=True, slots=True)
class Told:
    """A figure and its name."""

    name: str
    value: str
    alarming: bool = False
    """Something was late, dropped or came twice."""


def heading(progress: Progress, rates: Rates, steps: Sequence[StepFigures]) -> list[list[Told]]:
    """Of the whole run: how much has come and gone, how far it is in event time, and how long the last epoch took.

    >>> flow, *_ = heading(Progress(7, 1_200, 40, 0, 0, 0, 0, 0, 0.25), Rates(), [])
    >>> " ".join(f"{told.name} {told.value}" for told in flow)
    'epoch 7 in 1,200 out 40 late 0 dropped 0 duplicates 0'
    """
    into, out = (f" ({rate:,.0f}/s)" for rate in rates.per_second) if rates.known else ("", "")
    lost = {"late": progress.late, "dropped": progress.dropped, "duplicates": total(steps, "duplicates")}
    flow = [
        Told("epoch", f"{progress.epoch:,}"),
        Told("in", f"{progress.records_in:,}{into}"),
        Told("out", f"{progress.records_out:,}{out}"),
        *(Told(name, f"{count:,}", alarming=count > 0) for name, count in lost.items()),
    ]
    event_time = [
        Told("watermark", shown_time(progress.watermark)),
        Told("lag", shown_span(progress.lag)),
        Told("state", shown_bytes(total(steps, "state_bytes"))),
    ]
    phases = {"last epoch": progress.seconds, **progress.phases}
    return [flow, event_time, [Told(name, f"{1000 * seconds:,.0f} ms") for name, seconds in phases.items()]]


Column = tuple[str, Callable[[StepFigures], str]]

COLUMNS: tuple[Column, ...] = (
    ("in", lambda step: _count(step.records_in)),
    ("out", lambda step: _count(step.records_out)),
    ("late", lambda step: _count(step.late)),
    ("dropped", lambda step: _count(step.dropped_late)),
    ("watermark", lambda step: "" if step.watermark is None else shown_time(step.watermark)),
    ("lag", lambda step: "" if step.lag is None else shown_span(step.lag)),
    ("state", lambda step: "" if step.state_bytes is None else shown_bytes(step.state_bytes)),
)

_MOST_TELLING = ("lag", "in", "watermark", "late", "state", "out", "dropped")
"""Columns in the order in which they are taken into a narrow table; of most others, the heading has the sum."""
_GAP = 2
_SHORTEST_NAME = 12


def columns_for(width: int, steps: Sequence[StepFigures]) -> tuple[list[str], list[list[str]]]:
    """As much as fits into so many characters: headings, and the cells of each step.

    >>> steps = [StepFigures("Sum", records_in=120, late=3, watermark=0, lag=5_000_000)]
    >>> columns_for(36, steps)
    (['step', 'in', 'late', 'lag'], [['Sum', '120', '3', '5 s']])
    """
    known = {column[0]: column for column in COLUMNS if any(column[1](step) for step in steps)}
    room, names = width - _SHORTEST_NAME, set()
    for name in _MOST_TELLING:
        if name in known and (needed := _width(known[name], steps)) <= room:
            room -= needed
            names.add(name)
    chosen = [column for name, column in known.items() if name in names]
    # What reads comes first, as it does in the pipeline.
    steps = sorted(steps, key=lambda step: step.records_in is not None)
    return (
        ["step", *(heading for heading, _ in chosen)],
        [[step.step, *(show(step) for _, show in chosen)] for step in steps],
    )


def _width(column: Column, steps: Sequence[StepFigures]) -> int:
    heading, show = column
    return _GAP + max([len(heading), *(len(show(step)) for step in steps)])


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
