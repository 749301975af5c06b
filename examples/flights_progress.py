"""While it runs: how far the replay is, what is late, where the watermark stands."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.text import Text

from headrace.lowlevel import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners import EpochProgress

NEW_YORK = ZoneInfo("America/New_York")


class ProgressLine:
    """Shows an epoch's progress: redrawn in place on a terminal, now and then a plain line elsewhere.

    Use it as a context manager and give its `show` to the run as the callback `progress`.
    """

    def __init__(self, console: Console, flights: int) -> None:
        self._console = console
        self._flights = flights
        self._tenths_shown = 0
        self._live = Live(Spinner("dots", "starting"), console=console) if console.is_terminal else None
        self._epoch_ends: list[int] = []
        self._from_start = False

    @property
    def epoch_ends(self) -> list[int]:
        """Number of flights read by the end of each epoch.

        Of a run that was resumed only the last epochs are known. Then it is as if all were one epoch, which is just as
        good for telling what must be dropped as long as the answer is nothing.
        """
        return self._epoch_ends if self._from_start else [self._flights]

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, progress: EpochProgress) -> None:
        """Called after each epoch's commit."""
        self._from_start = self._from_start or progress.epoch == 1
        self._epoch_ends.append(progress.records_in)
        if self._live:
            bar = ProgressBar(total=self._flights, completed=progress.records_in, width=60)
            self._live.update(Group(bar, progress_text(progress, self._flights, "\n")))
        elif (tenths := 10 * progress.records_in // self._flights) > self._tenths_shown:
            self._tenths_shown = tenths
            self._console.print(progress_text(progress, self._flights, "  "), soft_wrap=True)


def progress_text(progress: EpochProgress, flights: int, between: str) -> Text:
    """How far a replay of so many flights is: in time, then in numbers.

    >>> progress = EpochProgress(7, 14_000, 30_000, 210, 3, 1_358_514_000_000_000, 1_358_533_800_000_000, 0, 0.25)
    >>> print(progress_text(progress, 100_000, " | "))
    14 %  Jan 18 13:30  watermark Jan 18 08:00 (lag 5 h 30) | in 14,000  out 30,000  late 210  dropped 3
    """
    percent = f"{100 * progress.records_in // flights} %"
    numbers = {
        "in": progress.records_in,
        "out": progress.records_out,
        "late": progress.late,
        "dropped": progress.dropped,
    }
    time = "  ".join([percent, clock(progress.clock), f"watermark {_watermark(progress)}"])
    return Text(time + between + "  ".join(f"{name} {number:,}" for name, number in numbers.items()))


def _watermark(progress: EpochProgress) -> str:
    """Where it is, and how far behind the clock of the replay."""
    if progress.watermark == MIN_TIMESTAMP:
        return "not known yet"
    if progress.watermark >= MAX_TIMESTAMP:
        return "at the end"
    return f"{clock(progress.watermark)} (lag {duration(progress.clock - progress.watermark)})"


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
