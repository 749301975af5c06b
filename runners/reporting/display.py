"""Progress at a terminal: drawn in place, and gone over to plain lines when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.runners.engine.options import Progress
from headrace.runners.reporting.figures import (
    Rates,
    StepFigures,
    shown_bytes,
    shown_span,
    shown_time,
    step_figures,
    total,
)

_COLUMNS: tuple[tuple[str, Callable[[StepFigures], str]], ...] = (
    ("in", lambda step: _count(step.records_in)),
    ("out", lambda step: _count(step.records_out)),
    ("late", lambda step: _count(step.late)),
    ("dropped", lambda step: _count(step.dropped_late)),
    ("watermark", lambda step: shown_time(step.watermark)),
    ("lag", lambda step: shown_span(step.lag)),
    ("state", lambda step: shown_bytes(step.state_bytes)),
)
_WITHOUT_STEPS = 8
"""Lines of a terminal that are needed for more than the steps."""


class ProgressDisplay:
    """Shows a run on a terminal: the whole in three lines, then a line for each step. Use it in a `with` block."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._rates = Rates()
        self._live = Live(Spinner("dots", "starting"), console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __call__(self, progress: Progress) -> None:
        """Take in an epoch."""
        self._rates.note(progress, self._clock())
        self._live.update(drawn(progress, self._rates.per_second, self._console.height))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def drawn(progress: Progress, per_second: tuple[float, float], height: int = 40) -> RenderableType:
    """The display of one moment, in as many lines as the terminal has."""
    steps = step_figures(progress)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("step", overflow="ellipsis", no_wrap=True, ratio=1)
    for name, _ in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    room = max(1, height - _WITHOUT_STEPS)
    for step in steps[:room]:
        table.add_row(step.step, *(show(step) for _, show in _COLUMNS))
    if len(steps) > room:
        table.add_row(f"and {len(steps) - room} more", *("" for _ in _COLUMNS))
    return Group(*_head(progress, per_second, steps), table)


def _head(progress: Progress, per_second: tuple[float, float], steps: list[StepFigures]) -> list[Text]:
    into, out = per_second
    flow = Text.assemble(
        ("epoch ", "dim"),
        (f"{progress.epoch:,}", "bold"),
        ("   in ", "dim"),
        f"{progress.records_in:,} ({into:,.0f}/s)",
        ("   out ", "dim"),
        f"{progress.records_out:,} ({out:,.0f}/s)",
    )
    for name, count in (
        ("late", progress.late),
        ("dropped", progress.dropped),
        ("duplicates", total(steps, "duplicates")),
    ):
        flow.append(f"   {name} ", "dim")
        flow.append(f"{count:,}", "yellow" if count else "")
    event_time = Text.assemble(
        ("watermark ", "dim"),
        shown_time(progress.watermark),
        ("   lag ", "dim"),
        shown_span(progress.lag),
        ("   state ", "dim"),
        shown_bytes(total(steps, "state_bytes")),
    )
    phases = Text("last epoch ", "dim")
    phases.append(f"{1000 * progress.seconds:,.0f} ms", "")
    for name, seconds in progress.phases.items():
        phases.append(f"   {name} ", "dim")
        phases.append(f"{1000 * seconds:,.0f} ms", "")
    return [flow, event_time, phases]


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
