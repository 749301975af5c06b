"""What: joins by time, key by key: rows whose times are near each other, and the newest row at a time.

`TimeJoin` gives each bundle of a key to a `KeyJoin`, which keeps the rows of both sides (`kept_rows`):

1. *Late?* A row is dropped, and counted, when the watermark has passed its time by more than the allowed lateness.
2. *Arrive or leave*: a row is kept and meets the rows of the other side; a retraction removes the row that it retracts.
   One that finds no row, as it has overtaken it, waits until it is late itself.
3. *Settle*: once a key's records and timers are through, results come out that had to wait for the watermark.
4. *Free*: rows go that no row can meet any more. One timer waits for what is due next in the key.

`IntervalJoin` emits a match when its second row comes, at the later of both times, so that a result is late only if the
row is that has made it. A row that waits for its result, which has the row's time, holds the output watermark at it. A
correction of that result comes at most by the allowed lateness after that time, by the output watermark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import cast

from headrace.lowlevel.records.late_data import is_closed
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, Timestamp
from headrace.lowlevel.topology.computation import BundleComputation, Context
from headrace.lowlevel.topology.timer import Timer
from headrace.sdk.functions.changelog import Change, ChangeKind, retracts
from headrace.sdk.functions.kept_rows import NEVER, KeptRow, KeptRows, Outlook
from headrace.sdk.functions.matched import Matched
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS
from headrace.sdk.windows import GlobalWindow

_LEFT, _RIGHT = 0, 1
_CELLS = 32
"""About how many cells the rows fill that a side keeps for a time behind the watermark."""
_WIDTH_US = 60_000_000
"""Least length of the time whose rows share a cell in an `AsOfJoin`, microseconds."""
_DUE = "due"
"""Tag of the timer of a key."""
Index = tuple[tuple[int, int, int], ...]
"""See `KeptRows`."""
_Waiting = tuple[int, object, int]
"""A retraction that has found no row: side, element, time."""


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """What both joins by time are told. Times are microseconds."""

    matched: Matched
    """Makes the results, and says which sides keep rows without a partner."""
    output: str
    """The stream of the results: rows, or `Change`s if `changes`."""
    lateness: int
    """How far behind the watermark a row may be."""
    early: bool
    """Whether a result comes out before late rows that may change it, to be retracted then."""
    takes_back: tuple[bool, bool]
    """Whether the left rows may be retracted, and whether the right rows may."""
    late: str | None = None
    """The stream of the rows that are dropped as late: `LateElement`s, in `Change`s if rows may be retracted. None if
    they are only counted."""

    @property
    def keeps(self) -> tuple[bool, bool]:
        """Whether a left row without a partner has a result, and whether a right row has."""
        return self.matched.keep_left, self.matched.keep_right

    @property
    def changes(self) -> bool:
        """Whether results may be retracted."""
        return self.early or any(self.takes_back)


@named("TimeJoin")
class TimeJoin(BundleComputation, ABC):
    """A join by time. Its records are pairs of a key and of (side, element), where side + 2 marks a retraction."""

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan
        self._open: KeyJoin | None = None
        """The bundle of the key that the worker processes."""

    @abstractmethod
    def turn_to(self, context: Context) -> KeyJoin:
        """The bundle of a key."""

    def state_signature(self) -> dict[str, str]:
        """The kind of join and what decides how long rows are kept."""
        plan = self.plan
        return {
            **super().state_signature(),
            "rows without a partner": f"left {plan.keeps[_LEFT]}, right {plan.keeps[_RIGHT]}",
            "allowed lateness": f"{plan.lateness} us",
            "results": f"early {plan.early}, retracted {plan.changes}",
        }

    def start_bundle(self) -> None:
        """Forget a bundle that failed."""
        self._open = None

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Join the rows of a key."""
        take = self._bundle_of(context).take
        for (_, (mark, element)), time in zip(
            cast("Sequence[tuple[object, tuple[int, object]]]", batch.values), batch.timestamps, strict=True
        ):
            take(mark & 1, mark > 1, element, time)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Open the key, as something is due."""
        self._bundle_of(context)

    def finish_key(self, context: Context) -> None:
        """Emit what is due at the watermark, and store what stays."""
        if self._open is not None:
            self._open.finish()
            self._open = None

    def _bundle_of(self, context: Context) -> KeyJoin:
        if self._open is None:
            self._open = self.turn_to(context)
        return self._open


class KeyJoin(ABC):
    """A join of one key and bundle.

    Args:
        plan: The plan.
        context: The context of the key.
        width: Length of the time whose rows share a cell, microseconds.
    """

    def __init__(self, plan: JoinPlan, context: Context, width: int) -> None:
        self.plan, self.context = plan, context
        self._watermark = context.watermark
        """Input watermark of the bundle's records."""
        left, right, waiting = cast("tuple[Index, Index, Sequence[_Waiting]]", context.state or ((), (), ()))
        self._waiting, self._overtaking = waiting, list[_Waiting]()
        """Retractions that wait for their row, of earlier bundles and of this one."""
        self.sides = KeptRows(context, b"L", width, left), KeptRows(context, b"R", width, right)

    @abstractmethod
    def arrive(self, side: int, row: KeptRow) -> None:
        """Add a row, and emit its matches."""

    @abstractmethod
    def leave(self, side: int, row: KeptRow) -> None:
        """Retract the results of a row that was taken back and removed."""

    @abstractmethod
    def settle(self, watermark: int) -> int:
        """Emit what waited for the watermark; returns the watermark at which more is due than rows tell, or `NEVER`."""

    @abstractmethod
    def outlook(self, side: int, row: KeptRow) -> Outlook:
        """What is still to come of a row after `settle`."""

    def closes(self, time: int, after: int = 0) -> int:
        """The watermark at which no row up to `after` behind a time is taken any more."""
        return min(time + after + self.plan.lateness + 1, MAX_TIMESTAMP)

    def decides(self, time: int, after: int = 0) -> int:
        """The watermark at which the result of a row of this time comes out; it waits for rows up to `after` later."""
        return min(time + after + 1, MAX_TIMESTAMP) if self.plan.early else self.closes(time, after)

    def take(self, side: int, takes_back: bool, element: object, time: int) -> None:
        """Process a row or a retraction."""
        if is_closed(self.closes(time), self._watermark):
            self._drop(element, time, takes_back)
        elif not self.plan.keeps[side] and cast("tuple[object, object]", self.context.key)[0] is not None:
            # The key of a row with a None in its fields has the number of its side there, and no partner.
            return
        elif not takes_back:
            self.arrive(side, KeptRow(time, element, time if time >= self._watermark else self.closes(time) - 1))
        elif not self.take_back(side, element, time):
            self._overtaking.append((side, element, time))

    def _drop(self, element: object, time: int, takes_back: bool) -> None:
        self.context.drop_late()
        if self.plan.late is not None:
            _, key = cast("tuple[object, object]", self.context.key)
            late: object = LateElement(
                key, element, GlobalWindow(), Timestamp(micros=time), Timestamp(micros=self._watermark)
            )
            if any(self.plan.takes_back):
                late = Change(ChangeKind.DELETE if takes_back else ChangeKind.INSERT, late)
            self.context.produce(self.plan.late, late, time)

    def take_back(self, side: int, element: object, time: int) -> bool:
        """Remove the newest equal row up to a time, if rows of its time are still taken; False if there is none."""
        for row in self.sides[side].newest_first(time):
            if is_closed(self.closes(row.time), self._watermark):
                break
            if retracts(element, row.value):
                self.sides[side].remove(row)
                self.leave(side, row)
                return True
        return False

    def emit(self, left: object, right: object, time: int, takes_back: bool = False) -> None:
        """Emit a result, or its retraction."""
        row: object = self.plan.matched.row(left, right)
        if self.plan.changes:
            row = Change(ChangeKind.DELETE if takes_back else ChangeKind.INSERT, row)
        self.context.produce(self.plan.output, row, time)

    def finish(self) -> None:
        """Emit what is due at the watermark after the bundle, and store what stays."""
        context = self.context
        waiting = [each for each in self._waiting if not self.take_back(*each)]
        if overtaking := [each for each in self._overtaking if not self.take_back(*each)]:
            context.count(UNMATCHED_RETRACTIONS, len(overtaking))
        watermark = context.watermark
        waits = tuple(each for each in (*waiting, *overtaking) if not is_closed(self.closes(each[2]), watermark))
        for rows in self.sides:
            rows.note_due(watermark)
        due = self.settle(watermark)
        left, right = (rows.store(watermark, partial(self.outlook, side)) for side, rows in enumerate(self.sides))
        cells = (*left, *right)
        context.state = (left, right, waits) if cells or waits else None
        due = min([due, *(cell[1] for cell in cells), *(self.closes(each[2]) for each in waits)])
        if due < NEVER:
            hold = min([cell[2] for cell in cells], default=NEVER)
            context.set_timer(_DUE, due, hold=hold if hold < NEVER else None)
        elif context.timer(_DUE) is not None:
            context.delete_timer(_DUE)


@named("IntervalJoin")
class IntervalJoin(TimeJoin):
    """Matches a left row with the right rows of its key from `before` before its time to `after` after it.

    Args:
        plan: The plan.
        before: Microseconds, at least 0.
        after: Microseconds, at least 0.
    """

    def __init__(self, plan: JoinPlan, before: int, after: int) -> None:
        super().__init__(plan)
        self._before, self._after = before, after
        self._width = max(before + after, (max(before, after) + plan.lateness) // _CELLS, 1)

    def state_signature(self) -> dict[str, str]:
        """See `TimeJoin`."""
        return {**super().state_signature(), "within": f"{self._before} us before, {self._after} us after"}

    def turn_to(self, context: Context) -> KeyJoin:
        """See `TimeJoin`."""
        return _MatchesOfKey(self.plan, context, self._width, (self._before, self._after))


class _MatchesOfKey(KeyJoin):
    """An interval join of one key; a partner's time is from `reach[side]` before a row's to `reach[1 - side]` after."""

    def __init__(self, plan: JoinPlan, context: Context, width: int, reach: tuple[int, int]) -> None:
        super().__init__(plan, context, width)
        self._reach = reach

    def arrive(self, side: int, row: KeptRow) -> None:
        """See `KeyJoin`."""
        self.sides[side].add(row)
        for other in self._partners(side, row):
            self._count(side, row, other, 1)
            if other.said is not None:
                self._emit_alone(1 - side, other, takes_back=True)
                other.said = None
            self._emit_match(side, row, other)

    def leave(self, side: int, row: KeptRow) -> None:
        """See `KeyJoin`."""
        if row.said is not None:
            self._emit_alone(side, row, takes_back=True)
        for other in self._partners(side, row):
            self._count(side, row, other, -1)
            self._emit_match(side, row, other, takes_back=True)

    def settle(self, watermark: int) -> int:
        """See `KeyJoin`: emit rows without a partner."""
        for side, rows in enumerate(self.sides):
            for row in rows.changed() if self.plan.keeps[side] else ():
                if self._outlook_alone(side, row) <= watermark:
                    row.said = (None,)
                    self._emit_alone(side, row)
        return NEVER

    def outlook(self, side: int, row: KeptRow) -> Outlook:
        """See `KeyJoin`."""
        later = self._reach[1 - side]
        freed = self.closes(row.time, later)
        if not self.plan.keeps[side]:
            return Outlook(freed)
        may_be_alone = not row.partners or self.plan.takes_back[1 - side]
        if row.said is not None or is_closed(self.decides(row.time, later), self.context.watermark):
            # The result may still be corrected, which is late for what follows, but by no more than allowed.
            return Outlook(freed, NEVER, self.closes(row.time) - 1 if may_be_alone else NEVER)
        return Outlook(freed, self._outlook_alone(side, row), row.hold if may_be_alone else NEVER)

    def _outlook_alone(self, side: int, row: KeptRow) -> int:
        """The watermark at which a row comes out without a partner; `NEVER` if it does not."""
        if row.partners or row.said is not None or not self.plan.keeps[side]:
            return NEVER
        return self.decides(row.time, self._reach[1 - side])

    def _partners(self, side: int, row: KeptRow) -> Iterator[KeptRow]:
        return self.sides[1 - side].between(row.time - self._reach[side], row.time + self._reach[1 - side])

    def _count(self, side: int, row: KeptRow, other: KeptRow, number: int) -> None:
        if self.plan.keeps[side]:
            row.partners += number
        if self.plan.keeps[1 - side]:
            other.partners += number
            self.sides[1 - side].note(other)

    def _emit_match(self, side: int, row: KeptRow, other: KeptRow, takes_back: bool = False) -> None:
        left, right = (row, other) if side == _LEFT else (other, row)
        self.emit(left.value, right.value, max(left.time, right.time), takes_back)

    def _emit_alone(self, side: int, row: KeptRow, takes_back: bool = False) -> None:
        left, right = (row.value, None) if side == _LEFT else (None, row.value)
        self.emit(left, right, row.time, takes_back)


@named("AsOfJoin")
class AsOfJoin(TimeJoin):
    """Gives each left row the newest right row of its key with a time that is not after its own.

    A right row counts from its time on. A retraction with the row's own time takes it back altogether; one with a later
    time says that it does not count from that time on, as in a change log: then left rows after that time have no right
    row until another one comes.

    Args:
        plan: The plan.
        oldest: How much older than the left row the right row may be, microseconds; None for no bound.
    """

    def __init__(self, plan: JoinPlan, oldest: int | None) -> None:
        super().__init__(plan)
        self._oldest = oldest
        self._width = max(_WIDTH_US, plan.lateness // _CELLS)

    def state_signature(self) -> dict[str, str]:
        """See `TimeJoin`."""
        return {**super().state_signature(), "oldest": f"{self._oldest} us"}

    def turn_to(self, context: Context) -> KeyJoin:
        """See `TimeJoin`."""
        return _VersionsOfKey(self.plan, context, self._width, self._oldest)


class _VersionsOfKey(KeyJoin):
    """An as-of join of one key."""

    def __init__(self, plan: JoinPlan, context: Context, width: int, oldest: int | None) -> None:
        super().__init__(plan, context, width)
        self._oldest = oldest
        self._changed_from = NEVER
        """The least time from which on the bundle has changed the right rows."""

    def arrive(self, side: int, row: KeptRow) -> None:
        """See `KeyJoin`."""
        self.sides[side].add(row)
        if side == _RIGHT:
            self._changed_from = min(self._changed_from, row.time)

    def leave(self, side: int, row: KeptRow) -> None:
        """See `KeyJoin`."""
        if side == _RIGHT:
            self._changed_from = min(self._changed_from, row.time)
        elif row.said is not None:
            self._emit(row, row.said, takes_back=True)

    def take_back(self, side: int, element: object, time: int) -> bool:
        """Remove the newest equal row up to a time; a right row that is older ends at that time."""
        if side == _LEFT:
            return super().take_back(side, element, time)
        rows = self.sides[_RIGHT]
        row = next((row for row in rows.newest_first(time) if row.end == NEVER and retracts(element, row.value)), None)
        if row is None:
            return False
        self._changed_from = min(self._changed_from, time)
        if row.time == time:
            rows.remove(row)
        else:
            row.end = time
            rows.note(row)
        return True

    def settle(self, watermark: int) -> int:
        """See `KeyJoin`: emit results and their corrections."""
        left = self.sides[_LEFT]
        for row in left.between(self._changed_from, MAX_TIMESTAMP) if self.plan.early else ():
            if row.said is not None and not retracts((now := self._newest(row.time))[0], row.said[0]):
                self._emit(row, row.said, takes_back=True)
                self._say(row, now)
        for row in left.changed():
            if row.said is None and is_closed(self.decides(row.time), watermark):
                self._say(row, self._newest(row.time))
        return self._free_right(watermark)

    def outlook(self, side: int, row: KeptRow) -> Outlook:
        """See `KeyJoin`."""
        if side == _RIGHT:
            return Outlook(NEVER)
        waits = row.said is None
        return Outlook(self.closes(row.time), self.decides(row.time) if waits else NEVER, row.hold if waits else NEVER)

    def _newest(self, time: int) -> tuple[object]:
        """The right row at a time, or None, in a tuple."""
        row = next(self.sides[_RIGHT].newest_first(time), None)
        return (None,) if row is None or time >= self._until(row) else (row.value,)

    def _until(self, row: KeptRow) -> int:
        """The time from which on a right row does not count, whatever other rows there are."""
        return row.end if self._oldest is None else min(row.end, row.time + self._oldest + 1)

    def _say(self, row: KeptRow, said: tuple[object]) -> None:
        row.said = said
        self.sides[_LEFT].note(row)
        self._emit(row, said)

    def _emit(self, row: KeptRow, said: tuple[object], takes_back: bool = False) -> None:
        (right,) = said
        if right is not None or self.plan.keeps[_LEFT]:
            self.emit(row.value, right, row.time, takes_back)

    def _free_right(self, watermark: int) -> int:
        """Remove right rows that no left row can get any more; returns the watermark that frees the next one."""
        rows, least = self.sides[_RIGHT], watermark - self.plan.lateness
        if watermark >= MAX_TIMESTAMP:
            rows.clear()
            return NEVER
        older = list(rows.newest_first(least - 1))
        kept = [row for row in older[:1] if self._until(row) > least]
        for row in older[len(kept) :]:
            rows.remove(row)
        oldest = [*kept, *islice(rows.between(least, MAX_TIMESTAMP), 2)]
        dues = [*(self._until(row) - 1 for row in oldest[:1]), *(row.time for row in oldest[1:2])]
        return min(map(self.closes, dues), default=NEVER)
