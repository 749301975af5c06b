"""One step of a run that is being recorded: rows wait for the clock of their epoch, then join what was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from headrace.sdk.recordedtap import Row
from headrace.sdk.recording import Arrival, FiredTimer, Production, RecordedPane, StepRecording, WatermarkStep

LIMIT = 10_000
"""What is kept of one step of each kind; a picture of more says nothing."""
Thing: TypeAlias = Arrival | RecordedPane | Production | FiredTimer | WatermarkStep
_LIST_OF: Mapping[type, str] = {
    Arrival: "arrivals",
    WatermarkStep: "watermarks",
    RecordedPane: "panes",
    Production: "productions",
    FiredTimer: "timers",
}
Make = Callable[[int, Row], Thing]
"""From a clock and a row to what it says."""


class Moment(NamedTuple):
    """What an epoch's commit says of a step."""

    clock: int
    watermark: int | None
    dropped: int


class Seen:
    """Of one step so far, and its rows of epochs whose clock is not known yet."""

    def __init__(self, label: str, sinks: Mapping[str, Make]) -> None:
        self.step = StepRecording(label)
        self.sinks = sinks
        """What its rows come from, by name, and what makes something of them."""
        self._rows: dict[int, list[tuple[Make, list[Row]]]] = {}
        self._watermark: int | None = None
        self._restarts = False

    def restart(self) -> None:
        """The next epoch is the first of another driver."""
        self._restarts = True

    def begin(self, earlier: StepRecording) -> None:
        """Go on with what was seen by earlier drivers."""
        self.step = earlier
        self._watermark = earlier.watermarks[-1].watermark if earlier.watermarks else None

    def deliver(self, make: Make, epoch: int, rows: list[Row]) -> None:
        """Keep the rows of an epoch until its clock is told."""
        self._rows.setdefault(epoch, []).append((make, rows))

    def forget(self, epoch: int) -> None:
        """The rows of an epoch, which were delivered again."""
        self._rows.pop(epoch, None)

    def commit(self, epoch: int, moment: Moment) -> StepRecording:
        """The epoch is over, and everything of it was seen at its clock; returns what is new."""
        rows = self._rows.pop(epoch, [])
        # What was delivered of earlier epochs, again, is no part of the recording.
        self._rows = {other: its for other, its in self._rows.items() if other > epoch}
        moves: list[Thing] = []
        if moment.watermark is not None and moment.watermark != self._watermark:
            self._watermark = moment.watermark
            moves = [WatermarkStep(moment.clock, moment.watermark)]
        told = [(make, row) for make, its in rows for row in its]
        # Of very many rows a tap tells the number only.
        more = sum(row[0] for _, row in told if isinstance(row[0], int))
        things = [make(moment.clock, row) for make, row in told if not isinstance(row[0], int)] + moves
        new = self._kept(things, more, epoch, moment)
        self.step = self.step.followed_by(new)
        return new

    def _kept(self, things: Sequence[Thing], more: int, epoch: int, moment: Moment) -> StepRecording:
        """As much of each kind as there is room for; the rest is counted."""
        lists: dict[str, Any] = {}
        for kind, name in _LIST_OF.items():
            room = max(0, LIMIT - len(getattr(self.step, name)))
            lists[name] = tuple(islice((its for its in things if type(its) is kind), room))
        left_out = len(things) - sum(map(len, lists.values())) + more
        restarts, self._restarts = (moment.clock,) if self._restarts else (), False
        return StepRecording(
            self.step.label,
            **lists,
            dropped=moment.dropped,
            left_out=left_out,
            epochs=((epoch, epoch),),
            restarts=restarts,
        )
