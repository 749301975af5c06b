"""Progress of a run at a terminal: a display that is redrawn in place; elsewhere, lines of JSON take its place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import (
    SHARE_OF_NAMES,
    Rates,
    TextFigure,
    columns_for,
    heading,
    hot_key,
    long_phase,
    slow_sink,
    step_figures,
)
from headrace.runners.reporting.log import ProgressLog
from headrace.runners.reporting.reporter import LastProgress, Reporter

_CTRL_C = len("^C")
"""Columns that stay free at the right: a terminal shows Ctrl-C behind the last line, which must not break that line."""
_BESIDES_STEPS = 3
"""Number of lines of the terminal that show neither the heading nor a step."""


class ProgressDisplay(LastProgress):
    """Shows a run on a terminal: three lines for the run, then a line for each step. Use it in a `with` block.

    >>> import io
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners import RunOptions
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10)]))
    >>> with ProgressDisplay(Console(file=io.StringIO())) as progress:
    ...     result = LocalRunner().run_topology(topology, RunOptions(progress=progress))
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._console, self._clock = console, clock
        self._rates = Rates()
        self._spinner = Spinner("dots", "starting")
        self._live = Live(console=console, refresh_per_second=8, transient=False, get_renderable=self._display)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def begin(self, activity: Activity) -> None:
        """Show what the run does while an epoch, or the wait for one, takes long."""
        self._activity = activity

    def __call__(self, progress: EpochProgress) -> None:
        """Show the progress after an epoch."""
        self._rates.note(progress, self._clock())
        super().__call__(progress)

    def _display(self) -> RenderableType:
        long = long_phase(self._activity)
        if (progress := self._last) is None:
            self._spinner.update(text=Text(long or "starting"))
            return self._spinner
        return display_of(progress, self._rates, self._console.width, self._console.height, long)

    def __exit__(self, *error: object) -> None:
        # The last display stays on the screen, without what was running, and except for "starting".
        self._activity = None
        self._live.transient = self._last is None
        self._live.stop()


def display_of(
    progress: EpochProgress, rates: Rates, width: int = 120, height: int = 40, long: str = ""
) -> RenderableType:
    """Return the display of a run's progress, for a terminal of `width` columns and `height` lines.

    `long` says what the run has been doing for a while.
    """
    steps, width = step_figures(progress.metrics), width - _CTRL_C
    head = [line for figures in heading(progress, rates, steps) for line in _lines_of(figures, width)]
    head += [Text(line, style="yellow") for line in (slow_sink(progress), hot_key(progress), long) if line]
    names, rows = columns_for(width, steps)
    # Only a table of full width shortens names alone.
    has_long_names = any(len(row[0]) > width * SHARE_OF_NAMES for row in rows)
    table = Table(box=None, expand=has_long_names, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(names[0], overflow="ellipsis", no_wrap=True, ratio=1)
    for name in names[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    room = max(1, height - _BESIDES_STEPS - len(head))
    for row in rows[:room]:
        table.add_row(*map(Text, row))
    if len(rows) > room:
        table.add_row(f"and {len(rows) - room} more")
    return Constrain(Group(*head, table), width)


def _lines_of(figures: Sequence[TextFigure], width: int) -> list[Text]:
    """Return figures as lines of at most `width` characters; a line does not end between a name and its value."""
    lines = [Text()]
    for each in figures:
        piece = Text.assemble((f"{each.name} ", "dim"), (each.value, "yellow" if each.alarming else ""))
        if len(lines[-1]) + 3 + len(piece) > width and lines[-1]:
            lines.append(Text())
        lines[-1].append("   " if lines[-1] else "").append_text(piece)
    return lines


def reporter_for(console: Console, details: bool = False) -> Reporter:
    """Return a display that is redrawn in place if the console is a terminal, else a reporter of lines of JSON.

    `details` is that of `ProgressLog`; the display ignores it.

    >>> import io
    >>> type(reporter_for(Console(file=io.StringIO()))).__name__
    'ProgressLog'
    """
    return ProgressDisplay(console) if console.is_terminal else ProgressLog(console.file, details=details)
