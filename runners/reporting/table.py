"""The progress of a run as names and texts: a few lines for the run, and a table with a line for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import Rates, StepFigures, shown_bytes, shown_span, shown_time, total


@dataclass(frozen=True, slots=True)
class TextFigure:
    """A figure as text, with its name."""

    name: str
    value: str
    alarming: bool = False
    """Whether the figure counts late, dropped or duplicate records, and is not 0."""


def heading(progress: EpochProgress, rates: Rates, steps: Sequence[StepFigures]) -> list[list[TextFigure]]:
    """Return three lines of figures of the whole run: counts of records, event time, and durations of the last epoch.

    >>> flow, *_ = heading(EpochProgress(7, 1_200, 40, 0, 0, 0, 0, 0, 0.25), Rates(), [])
    >>> " ".join(f"{figure.name} {figure.value}" for figure in flow)
    'epoch 7 in 1,200 out 40 late 0 dropped 0 duplicates 0'
    """
    into, out = (f" ({rate:,.0f}/s)" for rate in rates.per_second) if rates.are_known else ("", "")
    lost = {"late": progress.late, "dropped": progress.dropped, "duplicates": total(steps, "duplicates")}
    flow = [
        TextFigure("epoch", f"{progress.epoch:,}"),
        TextFigure("in", f"{progress.records_in:,}{into}"),
        TextFigure("out", f"{progress.records_out:,}{out}"),
        *(TextFigure(name, f"{count:,}", alarming=count > 0) for name, count in lost.items()),
    ]
    event_time = [
        TextFigure("watermark", shown_time(progress.watermark)),
        TextFigure("lag", shown_span(progress.lag)),
        TextFigure("state", shown_bytes(total(steps, "state_bytes"))),
    ]
    phases = {"last epoch": progress.seconds, **progress.phases}
    return [flow, event_time, [TextFigure(name, f"{1000 * seconds:,.0f} ms") for name, seconds in phases.items()]]


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
"""Names of columns by importance. A narrow table has the first ones; for most others, the heading has the sum."""
_GAP = 2
_SHORTEST_NAME = 12
SHARE_OF_NAMES = 1 / 3
"""Part of the width that is kept free for the names of steps."""


def columns_for(width: int, steps: Sequence[StepFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings, and the cells of each step, with as many columns as fit into `width` characters.

    >>> steps = [StepFigures("Sum", records_in=120, late=3, watermark=0, lag=5_000_000)]
    >>> columns_for(36, steps)
    (['step', 'in', 'late', 'lag'], [['Sum', '120', '3', '5 s']])
    """
    known = {column[0]: column for column in COLUMNS if any(column[1](step) for step in steps)}
    longest = max((len(step.step) for step in steps), default=0)
    room, names = width - max(_SHORTEST_NAME, min(longest, int(width * SHARE_OF_NAMES))), set()
    for name in _MOST_TELLING:
        if name in known and (needed := _width(known[name], steps)) <= room:
            room -= needed
            names.add(name)
    chosen = [column for name, column in known.items() if name in names]
    # Steps that read input come first, as in the pipeline; they have no records in.
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
