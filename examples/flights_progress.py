"""While it runs: how far the replay is, what is late, where the watermark stands."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.options import Progress

NEW_YORK = ZoneInfo("America/New_York")
_PLAIN_EVERY = 10
"""Where lines cannot be redrawn, one is printed for so many percent of the replay."""


class ProgressLine:
    """Shows an epoch's progress: redrawn in place on a terminal, now and then a plain line elsewhere.

    Use it as a context manager and give its `show` to the run as the callback `progress`. `epoch_ends` keeps the number
    of flights read by the end of each epoch.
    """

    def __init__(self, console: Console, flights: int) -> None:
        self._console = console
        self._flights = flights
        self._percent_shown = 0
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        self.epoch_ends: list[int] = []

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Called after each epoch's commit."""
        self.epoch_ends.append(progress.records_in)
        percent = 100 * progress.records_in // max(self._flights, 1)
        if self._live:
            bar = ProgressBar(total=self._flights, completed=progress.records_in, width=40)
            self._live.update(Group(bar, progress_text(progress, percent)), refresh=True)
        elif percent >= self._percent_shown + _PLAIN_EVERY or percent == 100 > self._percent_shown:
            self._percent_shown = percent
            self._console.print(progress_text(progress, percent), soft_wrap=True)


def progress_text(progress: Progress, percent: int) -> Text:
    """One line on an epoch.

    >>> progress = Progress(7, 14_000, 30_000, 210, 3, 1_358_514_000_000_000, 0, 1_358_528_400_000_000, 0.25)
    >>> print(progress_text(progress, 4))
      4 %  epoch 7  flights 14,000  rows out 30,000  late 210  dropped 3  watermark Jan 18 08:00  lag 4 h 00
    """
    parts = [
        f"{percent:3} %",
        f"epoch {progress.epoch}",
        f"flights {progress.records_in:,}",
        f"rows out {progress.records_out:,}",
        f"late {progress.late:,}",
        f"dropped {progress.dropped:,}",
        f"watermark {_watermark(progress.watermark)}",
        f"lag {'none' if progress.lag is None else duration(progress.lag)}",
    ]
    return Text("  ".join(parts))


def _watermark(watermark_us: int) -> str:
    if watermark_us == MIN_TIMESTAMP:
        return "not known yet"
    return "at the end" if watermark_us >= MAX_TIMESTAMP else clock(watermark_us)


def clock(instant_us: int) -> str:
    """Day and time in New York.

    >>> clock(1_358_514_000_000_000)
    'Jan 18 08:00'
    """
    return datetime.fromtimestamp(instant_us / 1_000_000, NEW_YORK).strftime("%b %d %H:%M")


def duration(span_us: int) -> str:
    """Hours and minutes.

    >>> duration(5_400_000_000)
    '1 h 30'
    """
    hours, minutes = divmod(span_us // 60_000_000, 60)
    return f"{hours} h {minutes:02}"
