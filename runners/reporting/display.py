"""Progress of a run at a terminal: a display that is redrawn in place; elsewhere, lines of JSON take its place.

There is at most one line of JSON a second, and always one for the last epoch.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import IO, Self

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.figures import (
    SHARE_OF_NAMES,
    Rates,
    TextFigure,
    backlog,
    columns_for,
    heading,
    hot_key,
    long_phase,
    slow_sink,
    step_figures,
    total,
)
from headrace.runners.reporting.reporter import LastProgress, Reporter

_EVERY = 1.0
"""Default number of seconds between two lines."""
_RUNNING_EVERY = 30.0
"""Seconds after which a phase that lasts has a line, and between two such lines."""
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


class ProgressLog:
    """Writes one line of JSON a second with the figures of the whole run.

    Args:
        file: The text file to which the lines are written.
        every: Least number of seconds between two lines.
        clock: Returns the seconds of a monotonic clock.
        details: Whether a line also has the rate of output, the phases of the epoch and the figures of each step, which
            take about 80 characters a step.

    >>> import sys
    >>> with ProgressLog(sys.stdout, clock=lambda: 0.0) as log:
    ...     log(EpochProgress(1, 3, 2, 0, 0, MAX_TIMESTAMP, 0, 0, 0.5))
    {"epoch": 1, "seconds": 0.5, "in": 3, "in_per_s": 6.0, "out": 2, "late": 0, "dropped": 0, "watermark": "end", ...}
    """

    def __init__(
        self,
        file: IO[str],
        every: float = _EVERY,
        clock: Callable[[], float] = time.monotonic,
        details: bool = False,
    ) -> None:
        self._file, self._every, self._clock = file, every, clock
        self._line = detailed_line if details else line_of
        self._rates = Rates()
        self._next: float | None = None
        self._waiting: EpochProgress | None = None
        self._activity: Activity | None = None
        self._over = threading.Event()
        self._writes = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def begin(self, activity: Activity) -> None:
        """Write a line, too, while the run is in one phase for long: `{"running": "epoch 7 has been in …"}`."""
        self._activity = activity
        threading.Thread(target=self._watch, name="headrace progress log", daemon=True).start()

    def _watch(self) -> None:
        while not self._over.wait(_RUNNING_EVERY):
            if long := long_phase(self._activity, _RUNNING_EVERY):
                self._print({"running": long})

    def __call__(self, progress: EpochProgress) -> None:
        """Note the progress after an epoch, and write a line if one is due."""
        now = self._clock()
        self._rates.note(progress, now)
        self._waiting = progress
        if self._next is None or now >= self._next:
            self._next = now + self._every
            self._write()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._write()

    def _write(self) -> None:
        if self._waiting is not None:
            self._print(self._line(self._waiting, self._rates.per_second))
            self._waiting = None

    def _print(self, line: Mapping[str, object]) -> None:
        with self._writes:
            print(json.dumps(line), file=self._file, flush=True)


def line_of(progress: EpochProgress, per_second: tuple[float, float]) -> Mapping[str, object]:
    """Return the figures of a line: times in RFC 3339, spans in seconds; `per_second` is the rates in and out."""
    waiting = {"backlog": backlog(progress.metrics), "fill": None if progress.fill is None else round(progress.fill, 2)}
    return {
        "epoch": progress.epoch,
        "seconds": round(progress.seconds, 3),
        "in": progress.records_in,
        "in_per_s": round(per_second[0], 1),
        "out": progress.records_out,
        "late": progress.late,
        "dropped": progress.dropped,
        "watermark": _time(progress.watermark),
        "lag_s": None if progress.lag is None else round(progress.lag / 1e6, 3),
        **{name: figure for name, figure in waiting.items() if figure is not None},
    }


def detailed_line(progress: EpochProgress, per_second: tuple[float, float]) -> Mapping[str, object]:
    """Return the figures of `line_of`, the rate of output, the phases, and all known figures of each step."""
    steps = step_figures(progress.metrics)
    return {
        **line_of(progress, per_second),
        "out_per_s": round(per_second[1], 1),
        "duplicates": total(steps, "duplicates"),
        "state_bytes": total(steps, "state_bytes"),
        "phases_s": {name: round(seconds, 6) for name, seconds in progress.phases.items()},
        "steps": {step.step: _known_figures(asdict(step)) for step in steps},
    }


def _known_figures(figures: dict[str, object]) -> dict[str, object]:
    """Return the known figures of a step, with times in RFC 3339 and spans in seconds."""
    known = {name: value for name, value in figures.items() if value is not None and name != "step"}
    if isinstance(lag := known.pop("lag", None), int):
        known["lag_s"] = lag / 1e6
    if isinstance(watermark := known.get("watermark"), int):
        known["watermark"] = _time(watermark)
    return known


def _time(timestamp: int) -> str | None:
    """Return a watermark in RFC 3339; None before the first watermark, `"end"` after the end of the input."""
    if timestamp == MIN_TIMESTAMP:
        return None
    if timestamp >= MAX_TIMESTAMP:
        return "end"
    try:
        return Timestamp(micros=timestamp).to_rfc3339()
    except OverflowError:
        return f"{timestamp / 1e6:.6f}"
