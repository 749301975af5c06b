"""The worker: one bundle of one computation and key interval becomes one `Commit` (MillWheel paper §6.1.1).

For each key in turn: records are checked against the ids of earlier deliveries and given to user code at the watermark
that the computation had before; then wall time and low watermark advance and due timers fire, each in order of
timestamp. What user code changes stays in memory until the driver commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from headrace.lowlevel.computation import BundleComputation, Computation
from headrace.lowlevel.context import KeyContext
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.idspace import space_of
from headrace.lowlevel.intervalcomputation import IntervalComputation, IntervalContext
from headrace.lowlevel.layered import Layered
from headrace.lowlevel.metric import at
from headrace.lowlevel.part import Part, count_late
from headrace.lowlevel.poison import run_around_poison
from headrace.lowlevel.record import Batch, Emit, Record, new_tuple
from headrace.lowlevel.savepoint import Due
from headrace.lowlevel.softstate import StateCache
from headrace.lowlevel.state import Copy, Delta, Mark
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.timer import HOLD, TimeDomain
from headrace.lowlevel.topology import Keyed

if TYPE_CHECKING:
    from headrace.lowlevel.parcel import Parcel

_FIRST_LOOK = 16
"""Keys of a bundle that are looked up before it is known whether states are asked for,"""
_LOOK_AHEAD = 1_024
"""and keys that are looked up together after that."""
ENDLESS = 1_000_000
"""Timers that one key may fire in one bundle before it counts as an endless loop."""


Keys = dict[bytes, tuple[bytes, list[Part]]]
"""row -> (encoded key, its records)."""


@dataclass(slots=True)
class Bundle:
    """Input of one computation and interval in one epoch."""

    keys: Keys = field(default_factory=dict)
    """The worker takes them out."""
    watermark_before: int = MIN_TIMESTAMP
    watermark: int = MIN_TIMESTAMP
    """Input low watermark that timers see; microseconds UTC."""
    wall_time: int = 0
    """Microseconds UTC."""
    parcels: list[Parcel] = field(default_factory=list)
    """For an `IntervalComputation`: the records as they travelled, instead of `keys`."""
    epoch: int = 0
    interval: int = 0
    """Its number."""
    more: Iterable[Keys] = ()
    """Further keys, all of them others, which are asked for when those before them are done."""


@dataclass(slots=True)
class Commit:
    """What a bundle changes: everything of a key in one piece."""

    delta: Delta
    counters: dict[str, int]
    hold: Mark | None
    """The oldest hold that is left."""
    next_wall_timer: int | None
    """When the earliest wall-time timer is due, microseconds UTC."""
    holder: bytes = b""
    """Encoded key of the hold, if it is of a timer in a segment."""


class Worker:
    """Runs bundles of one computation against one interval's committed copy."""

    def __init__(
        self,
        place: Keyed,
        copy: Copy,
        emit: Emit,
        id_slacks: Mapping[str, int] | None = None,
        partial: frozenset[str] = frozenset(),
        states: StateCache | None = None,
    ) -> None:
        self._place = place
        self._computation = place.computation
        self._decode_key = place.key_coder.decode
        self._copy = copy
        self._emit = emit
        slacks = id_slacks or {}
        self._id_slacks = {stream: slacks[stream] for stream in place.inputs if stream in slacks}
        self._partial = partial
        """Streams of which it is known already how many of the elements that their records stand for were late."""
        self._states = states
        """What this process keeps decoded from bundle to bundle."""
        self._run_part = self._way_of(self._computation)
        self._finishes = type(self._computation).finish_key is not Computation.finish_key
        self._aside = place.aside
        self._records = self._fired = 0

    def run(self, bundle: Bundle) -> Commit:
        """Process the bundle; raises `StepError` if user code does."""
        if isinstance(self._computation, IntervalComputation):
            return self._run_columns(self._computation, bundle)
        self._records = self._fired = 0
        layered = self._taken_over(bundle)
        if layered is not None:
            self._copy = layered
        states = None
        if self._states is not None:
            states = self._states.of(self._place.name, self._computation, bundle.watermark_before)
        context = KeyContext(self._place, self._copy, self._emit, states)
        context.open(bundle.watermark_before, bundle.watermark, bundle.wall_time)
        due = self._due(bundle)
        if bundle.keys or bundle.more or due:
            with at(self._place.step):
                self._run_keys(context, bundle, due)
        commit = self._commit(context, bundle)
        if layered is not None:
            commit.delta = layered.committed(commit.delta)
        return commit

    def _taken_over(self, bundle: Bundle) -> Layered | None:
        """The copy with what a computation of whole intervals has left in segments; None if there is nothing."""
        if not self._copy.segment_names():
            return None
        context = IntervalContext(self._place, self._copy, self._emit, bundle)
        self._bracket(lambda: self._computation.take_over(context))
        return Layered(self._copy, context.delta) if context.delta else None

    def _run_columns(self, computation: IntervalComputation, bundle: Bundle) -> Commit:
        """A bundle of a computation that takes all keys at once."""
        context = IntervalContext(self._place, self._copy, self._emit, bundle, self._id_slacks)
        with at(self._place.step):
            self._bracket(lambda: computation.process_interval(bundle.parcels, context))
        self._forget_ids(context.delta, bundle)
        return Commit(context.delta, context.counters, context.hold, context.next_wall_timer, context.holder)

    def _run_keys(self, context: KeyContext, bundle: Bundle, due: dict[bytes, list[Due]]) -> None:
        self._bracket(self._computation.start_bundle)
        for keys in bundle.more:
            # These first: only when their last portion is there it is known which keys have due timers and no records.
            self._run_portion(context, list(keys), keys, due)
        self._run_portion(context, [*bundle.keys, *(row for row in due if row not in bundle.keys)], bundle.keys, due)
        context.flush()
        self._bracket(lambda: self._computation.finish_bundle(self._emit))

    def _run_portion(self, context: KeyContext, rows: Sequence[bytes], keys: Keys, due: dict[bytes, list[Due]]) -> None:
        """The keys of these rows, with their records and due timers; both are taken out, and go when a key is done."""
        for start, stop in pairwise([0, *range(_FIRST_LOOK, len(rows), _LOOK_AHEAD), len(rows)]):
            context.ahead.turn_to(rows[start:stop], keys)
            for row in rows[start:stop]:
                encoded, parts = keys.pop(row, None) or (context.ahead.keys[row], ())
                self._run_key(context, row, encoded, parts, due.pop(row, []))

    def _bracket(self, hook: Callable[[], None]) -> None:
        """Call what begins or ends a bundle."""
        try:
            hook()
        except Exception as error:
            raise failed_step(error, self._place.name, None, None) from error

    def _due(self, bundle: Bundle) -> dict[bytes, list[Due]]:
        """Committed timers that this bundle reaches, in order by row; rows in order of their earliest timer."""
        due: dict[bytes, list[Due]] = {}
        last: Due = (0, 0, "")
        limits = ((TimeDomain.WALL_TIME, bundle.wall_time), (TimeDomain.LOW_WATERMARK, bundle.watermark))
        for domain, limit in limits:
            first = -int(domain)
            timestamps, rows, tags = self._copy.due(domain, limit)
            for row, timer in zip(rows, zip(repeat(first), timestamps, tags, strict=False), strict=True):
                # Neighbours are often timers of several keys that say the same, and all wait here until they fire.
                if timer == last:
                    timer = last
                last = timer
                if (timers := due.get(row)) is None:
                    due[row] = [timer]
                else:
                    timers.append(timer)
        return due

    def _run_key(self, context: KeyContext, row: bytes, encoded: bytes, parts: Iterable[Part], due: list[Due]) -> None:
        try:
            key = self._decode_key(encoded)
        except Exception as error:
            raise failed_step(error, self._place.name, encoded, None) from error
        context.begin(row, key, encoded, due)
        for part in parts:
            if part.ids is not None and self._computation.exactly_once:
                part = self._unseen(context, part)
            if part.values:
                self._count(context, part)
                self._run_part(context, part)
        context.advance()
        if context.due:
            self._fire(context)
        if self._finishes:
            self._finish(context)
        context.end()

    def _finish(self, context: KeyContext) -> None:
        try:
            self._computation.finish_key(context)
        except Exception as error:
            raise failed_step(error, self._place.name, context.key, None) from error

    def _unseen(self, context: KeyContext, part: Part) -> Part:
        """The part without records that were processed before (paper §6.1.1); the rest is journaled."""
        assert part.ids is not None
        fresh = []
        slack, space = self._id_slacks.get(part.stream, 0), space_of(part.stream)
        for index, (record_id, timestamp) in enumerate(zip(part.ids, part.timestamps, strict=True)):
            if context.journal_id(space + record_id, timestamp + slack):
                fresh.append(index)
        if repeated := len(part.ids) - len(fresh):
            context.count("duplicates", repeated)
        if not fresh:
            return Part(part.stream, (), ())
        pick = itemgetter(*fresh) if len(fresh) > 1 else lambda column: (column[fresh[0]],)
        return Part(part.stream, pick(part.values), pick(part.timestamps), pick(part.ids))

    def _way_of(self, computation: Computation) -> Callable[[KeyContext, Part], None]:
        """How records are processed."""
        if isinstance(computation, BundleComputation):
            return partial(self._run_batch, computation)
        if self._place.dead_letters is None:
            return self._run_records
        return partial(run_around_poison, self._place)

    def _count(self, context: KeyContext, part: Part) -> None:
        if part.stream in self._aside:
            context.count("aside", len(part.values))
            return
        self._records += len(part.values)
        if part.oldest >= context.watermark or part.stream in self._partial:
            return
        if late := count_late(part.timestamps, context.watermark):
            context.count("late", late)

    def _run_batch(self, computation: BundleComputation, context: KeyContext, part: Part) -> None:
        context.now = part.timestamps[-1]
        try:
            computation.process_batch(part.stream, Batch(part.values, part.timestamps, part.ids), context)
        except Exception as error:
            raise failed_step(error, self._place.name, context.key, None) from error

    def _run_records(self, context: KeyContext, part: Part) -> None:
        process = self._computation.process_record
        fields = zip(repeat(context.key), part.values, part.timestamps, part.ids or repeat(None))
        record = None
        try:
            for record in map(new_tuple, repeat(Record), fields):
                context.now = record[2]
                process(record, context)
        except Exception as error:
            raise failed_step(error, self._place.name, context.key, record and record.value) from error

    def _fire(self, context: KeyContext) -> None:
        """Fire what is due, wall time first, until nothing is; timers set meanwhile take their place in the order."""
        process = self._computation.process_timer
        fired = 0
        while (timer := context.pop_due()) is not None:
            fired += 1
            if fired > ENDLESS:
                raise StepError(
                    self._place.name,
                    context.key,
                    timer,
                    f"{ENDLESS} timers fired for this key in one bundle; set the next timer later than the last",
                )
            context.now = timer.timestamp
            try:
                process(timer, context)
            except Exception as error:
                raise failed_step(error, self._place.name, context.key, timer) from error
        self._fired += fired

    def _commit(self, context: KeyContext, bundle: Bundle) -> Commit:
        for counter, number in (("records", self._records), ("timers", self._fired)):
            if number:
                context.count(counter, number)
        delta = context.delta
        self._forget_ids(delta, bundle)
        changed: dict[int, list[Mark]] = {HOLD: [], TimeDomain.WALL_TIME: []}
        # Nearly all marks are timers on the watermark, whose least one nobody asks for.
        for (row, domain, tag), timestamp in [change for change in delta.marks.items() if change[0][1]]:
            if timestamp is not None:
                changed[domain].append(Mark(timestamp, row, tag))
        wall = self._oldest(delta, TimeDomain.WALL_TIME, changed[TimeDomain.WALL_TIME])
        hold = self._oldest(delta, HOLD, changed[HOLD])
        return Commit(delta, context.counters, hold, wall.timestamp if wall else None)

    def _forget_ids(self, delta: Delta, bundle: Bundle) -> None:
        if self._id_slacks and bundle.watermark > MIN_TIMESTAMP:
            delta.forget_ids_before = min(bundle.watermark, MAX_TIMESTAMP)

    def _oldest(self, delta: Delta, domain: int, changed: list[Mark]) -> Mark | None:
        """The least mark of a domain once the delta is committed, `changed` being those that it sets."""
        for mark in self._copy.until(domain, MAX_TIMESTAMP):
            if (mark.row, domain, mark.tag) not in delta.marks:
                changed.append(mark)
                break
        return min(changed, default=None)
