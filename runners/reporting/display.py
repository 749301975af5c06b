"""Progress at a terminal: drawn in place, and gone over to plain lines when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.runners.engine.options import Progress
from headrace.runners.reporting.figures import Rates, step_figures
from headrace.runners.reporting.table import Told, columns_for, heading

_BESIDES_STEPS = 3
"""Lines of a terminal that are needed for more than the heading and the steps."""


class ProgressDisplay:
    """Shows a run on a terminal: the whole in three lines, then a line for each step. Use it in a `with` block."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._rates = Rates()
        self._started = False
        self._live = Live(Spinner("dots", "starting"), console=console, refresh_per_second=8, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __call__(self, progress: Progress) -> None:
        """Take in an epoch."""
        self._rates.note(progress, self._clock())
        self._started = True
        self._live.update(drawn(progress, self._rates, self._console.width, self._console.height))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What is shown last stays; that it was starting is not worth a line.
        self._live.transient = not self._started
        self._live.stop()


def drawn(progress: Progress, rates: Rates, width: int = 120, height: int = 40) -> RenderableType:
    """The display of one moment, in as many columns and lines as the terminal has."""
    steps = step_figures(progress)
    head = [line for told in heading(progress, rates, steps) for line in _folded(told, width)]
    names, rows = columns_for(width, steps)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(names[0], overflow="ellipsis", no_wrap=True, ratio=1)
    for name in names[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    room = max(1, height - _BESIDES_STEPS - len(head))
    for row in rows[:room]:
        table.add_row(*map(Text, row))
    if len(rows) > room:
        table.add_row(f"and {len(rows) - room} more")
    return Group(*head, table)


def _folded(told: Sequence[Told], width: int) -> list[Text]:
    """Lines of figures; a name is not torn from its value."""
    lines = [Text()]
    for each in told:
        piece = Text.assemble((f"{each.name} ", "dim"), (each.value, "yellow" if each.alarming else ""))
        if len(lines[-1]) + 3 + len(piece) > width and lines[-1]:
            lines.append(Text())
        lines[-1].append("   " if lines[-1] else "").append_text(piece)
    return lines
