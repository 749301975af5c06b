"""One step of a run that is being recorded: rows wait for the clock of their epoch, then join the recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from headrace.sdk.recording.recording import (
    LISTS,
    Arrival,
    FiredTimer,
    Production,
    RecordedPane,
    StepRecording,
    WatermarkStep,
)
from headrace.sdk.recording.tap import TimedValue

LIMIT = 10_000
"""Items of each kind that a recording keeps of one step; a plot of more would be unreadable."""
Item: TypeAlias = Arrival | RecordedPane | Production | FiredTimer | WatermarkStep
Make = Callable[[int, TimedValue], Item]
"""From the clock of an epoch and a row to an item of the recording."""


class EpochClock(NamedTuple):
    """Clock, watermark and dropped records of a step at the commit of an epoch."""

    clock: int
    watermark: int | None
    dropped: int


class RecordedStep:
    """The recording of one step so far, and its rows of epochs whose clock is not known yet."""

    def __init__(self, label: str, sinks: Mapping[str, Make]) -> None:
        self.step = StepRecording(label)
        self.sinks = sinks
        """Name of a sink that delivers rows -> what makes items of them."""
        self._rows: dict[int, list[tuple[Make, list[TimedValue]]]] = {}
        self._watermark: int | None = None
        self._restarts = False

    def restart(self) -> None:
        """Note that the next epoch is the first of another driver."""
        self._restarts = True

    def begin(self, earlier: StepRecording) -> None:
        """Continue the recording of earlier drivers."""
        self.step = earlier
        self._watermark = earlier.watermarks[-1].watermark if earlier.watermarks else None

    def deliver(self, make: Make, epoch: int, rows: list[TimedValue]) -> None:
        """Keep the rows of an epoch until its clock is known."""
        self._rows.setdefault(epoch, []).append((make, rows))

    def forget(self, epoch: int) -> None:
        """Drop the rows of an epoch, as they are delivered again."""
        self._rows.pop(epoch, None)

    def commit(self, epoch: int, moment: EpochClock) -> StepRecording:
        """Add the rows of a committed epoch, with its clock as their processing time; returns the new items."""
        rows = self._rows.pop(epoch, [])
        # Rows of earlier epochs that were delivered again are not part of the recording.
        self._rows = {other: its for other, its in self._rows.items() if other > epoch}
        moves: list[Item] = []
        if moment.watermark is not None and moment.watermark != self._watermark:
            self._watermark = moment.watermark
            moves = [WatermarkStep(moment.clock, moment.watermark)]
        recorded = [(make, row) for make, its in rows for row in its]
        # A tap reports only the number of rows where there are very many.
        more = sum(row[0] for _, row in recorded if isinstance(row[0], int))
        items = [make(moment.clock, row) for make, row in recorded if not isinstance(row[0], int)] + moves
        new = self._within_limit(items, more, epoch, moment)
        self.step = self.step.followed_by(new)
        return new

    def _within_limit(self, items: Sequence[Item], more: int, epoch: int, moment: EpochClock) -> StepRecording:
        """As many items of each kind as the limit allows; the rest are counted."""
        lists: dict[str, Any] = {}
        for name, kind in LISTS.items():
            room = max(0, LIMIT - len(getattr(self.step, name)))
            lists[name] = tuple(islice((item for item in items if type(item) is kind), room))
        left_out = len(items) - sum(map(len, lists.values())) + more
        restarts, self._restarts = (moment.clock,) if self._restarts else (), False
        return StepRecording(
            self.step.label,
            **lists,
            dropped=moment.dropped,
            left_out=left_out,
            epochs=((epoch, epoch),),
            restarts=restarts,
        )
