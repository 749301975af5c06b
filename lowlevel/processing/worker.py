"""The worker: one bundle of one computation and key interval becomes one `Commit` (MillWheel paper §6.1.1).

For each key in turn: records are checked against the ids of earlier deliveries and processed at the watermark of the
previous epoch; then wall time and low watermark advance and due timers fire, each in order of timestamp. Changes stay
in memory until the driver commits them.

Poison records, for which user code raises, become dead letters. The effects of a poison record before it raised are
undone: the key is restored from a savepoint and its records are processed again without the poison. Only one savepoint
is made before the first failure, so other keys cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from operator import itemgetter

from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.metric import at
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.interval_context import BundleIntervalContext
from headrace.lowlevel.processing.key_context import Due, KeyContext
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.lowlevel.records.late_data import count_late
from headrace.lowlevel.records.record import Batch, Emit, KeyRecords, Keys, Record, new_tuple
from headrace.lowlevel.state.id_journal import IdJournal
from headrace.lowlevel.state.memory_store import Layered
from headrace.lowlevel.state.state_store import Delta, Mark, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.computation import BundleComputation, Computation, IntervalComputation
from headrace.lowlevel.topology.nodes import DEAD_LETTERS, DeadLetter, Keyed
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.lowlevel.user_errors import failed_step, own_traceback

_STRIDE = 64
"""Number of records between savepoints after the first failure; a failure processes at most so many of them again."""
_FIRST_PREFETCH_SIZE = 16
"""Number of keys in the first prefetch, before the worker knows whether the computation reads states and cells."""
_PREFETCH_SIZE = 1_024
"""Number of keys in each further prefetch."""
ENDLESS = 1_000_000
"""Largest number of timers that may fire for one key in one bundle; more count as an endless loop."""


@dataclass(slots=True)
class Commit:
    """The result of a bundle. All changes of a key are in one commit."""

    delta: Delta
    counters: dict[str, int]
    hold: Mark | None
    """The oldest hold after the bundle; None if there is none."""
    next_wall_timer: int | None
    """When the earliest wall-time timer is due, microseconds UTC; None if there is none."""
    holder: bytes = b""
    """Encoded key of the hold, if an interval computation set it; else empty."""


class Worker:
    """Runs bundles of one computation with the committed state of one interval."""

    def __init__(
        self,
        node: Keyed,
        store: StateStore,
        emit: Emit,
        id_slacks: Mapping[str, int] | None = None,
        partial: frozenset[str] = frozenset(),
        states: StateCache | None = None,
    ) -> None:
        self._node = node
        self._computation = node.computation
        self._decode_key = node.key_coder.decode
        self._store = store
        self._emit = emit
        slacks = id_slacks or {}
        self._id_slacks = {stream: slacks[stream] for stream in node.inputs if stream in slacks}
        self._partial = partial
        """Input streams of partial results. Their late elements are counted before the shuffle."""
        self._states = states
        """Decoded state that this process keeps from bundle to bundle; None without a cache."""
        self._values = DecodedValues(0) if states is None else states.values
        self._process_records = _record_runner(node)
        self._finishes = type(self._computation).finish_key is not Computation.finish_key
        self._aside = node.aside
        self._records = self._fired = 0

    def run(self, bundle: Bundle) -> Commit:
        """Process the bundle. Raises `StepError` if user code raises."""
        if (at_end := self._node.at_end) is not None and bundle.watermark >= MAX_TIMESTAMP:
            self._emit = _changing(self._emit, at_end)
        if isinstance(self._computation, IntervalComputation):
            return self._run_interval(self._computation, bundle)
        self._records = self._fired = 0
        layered = self._migrated_store(bundle)
        if layered is not None:
            self._store = layered
        states = None
        if self._states is not None:
            states = self._states.of(self._node.name, self._computation, bundle.watermark_before)
        context = KeyContext(self._node, self._store, self._emit, states, self._values)
        context.open(bundle.watermark_before, bundle.watermark, bundle.wall_time)
        self._journal = IdJournal(self._store, context.delta, self._id_slacks, context.counters)
        due = self._due(bundle)
        if bundle.keys or bundle.more or due:
            with at(self._node.step):
                self._run_keys(context, bundle, due)
        commit = self._commit(context, bundle)
        if layered is not None:
            commit.delta = layered.committed(commit.delta)
        return commit

    def _migrated_store(self, bundle: Bundle) -> Layered | None:
        """The store with the state that the computation migrates from segments; None if nothing is migrated."""
        if not self._store.segment_names():
            return None
        context = BundleIntervalContext(self._node, self._store, self._emit, bundle)
        self._call_hook(lambda: self._computation.take_over(context))
        return Layered(self._store, context.delta) if context.delta else None

    def _run_interval(self, computation: IntervalComputation, bundle: Bundle) -> Commit:
        """Process the bundle of a computation that takes all keys at once."""
        context = BundleIntervalContext(self._node, self._store, self._emit, bundle, self._id_slacks)
        with at(self._node.step):
            self._call_hook(lambda: computation.process_interval(bundle.blocks, context))
        self._forget_ids(context.delta, bundle)
        return Commit(context.delta, context.counters, context.hold, context.next_wall_timer, context.holder)

    def _run_keys(self, context: KeyContext, bundle: Bundle, due: dict[bytes, list[Due]]) -> None:
        self._call_hook(self._computation.start_bundle)
        for keys in bundle.more:
            # Sub-bundles come first: only after the last one is known which keys have due timers but no records.
            self._run_sub_bundle(context, list(keys), keys, due)
        self._run_sub_bundle(
            context, [*bundle.keys, *(key_hash for key_hash in due if key_hash not in bundle.keys)], bundle.keys, due
        )
        context.flush()
        self._call_hook(lambda: self._computation.finish_bundle(self._emit))

    def _run_sub_bundle(
        self, context: KeyContext, key_hashes: Sequence[bytes], keys: Keys, due: dict[bytes, list[Due]]
    ) -> None:
        """Run the keys with these hashes; removes each from `keys` and `due` before it runs, to free memory early."""
        for start, stop in pairwise(
            [0, *range(_FIRST_PREFETCH_SIZE, len(key_hashes), _PREFETCH_SIZE), len(key_hashes)]
        ):
            context.prefetch.read(key_hashes[start:stop], keys)
            for key_hash in key_hashes[start:stop]:
                encoded, records = keys.pop(key_hash, None) or (context.prefetch.keys[key_hash], ())
                self._run_key(context, key_hash, encoded, records, due.pop(key_hash, []))

    def _call_hook(self, hook: Callable[[], None]) -> None:
        """Call a hook of the computation; raises `StepError` if it fails."""
        try:
            hook()
        except Exception as error:
            raise failed_step(error, self._node.name, None, None) from error

    def _due(self, bundle: Bundle) -> dict[bytes, list[Due]]:
        """Hash of each key with due committed timers -> its timers in order; keys in order of their earliest timer."""
        due: dict[bytes, list[Due]] = {}
        last: Due = (0, 0, "")
        limits = ((TimeDomain.WALL_TIME, bundle.wall_time), (TimeDomain.LOW_WATERMARK, bundle.watermark))
        for domain, limit in limits:
            first = -int(domain)
            timestamps, key_hashes, tags = self._store.due(domain, limit)
            for key_hash, timer in zip(key_hashes, zip(repeat(first), timestamps, tags, strict=False), strict=True):
                # Many keys have equal timers next to each other: one tuple for all of them saves memory.
                if timer == last:
                    timer = last
                last = timer
                if (timers := due.get(key_hash)) is None:
                    due[key_hash] = [timer]
                else:
                    timers.append(timer)
        return due

    def _run_key(
        self, context: KeyContext, key_hash: bytes, encoded: bytes, records: Iterable[KeyRecords], due: list[Due]
    ) -> None:
        try:
            key = self._decode_key(encoded)
        except Exception as error:
            raise failed_step(error, self._node.name, encoded, None) from error
        context.begin(key_hash, key, encoded, due)
        for of_stream in records:
            if of_stream.ids is not None and self._computation.exactly_once:
                of_stream = self._fresh(of_stream)
            if of_stream.values:
                self._count(context, of_stream)
                self._process_records(context, of_stream)
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
            raise failed_step(error, self._node.name, context.key, None) from error

    def _fresh(self, records: KeyRecords) -> KeyRecords:
        """The records that were not processed before (paper §6.1.1); their ids are journaled."""
        assert records.ids is not None
        fresh = self._journal.fresh(records.stream, records.ids, records.timestamps)
        if not fresh:
            return KeyRecords(records.stream, (), ())
        pick = itemgetter(*fresh) if len(fresh) > 1 else lambda column: (column[fresh[0]],)
        return KeyRecords(records.stream, pick(records.values), pick(records.timestamps), pick(records.ids))

    def _count(self, context: KeyContext, records: KeyRecords) -> None:
        if records.stream in self._aside:
            context.count("aside", len(records.values))
            return
        self._records += len(records.values)
        if records.oldest >= context.watermark or records.stream in self._partial:
            return
        if late := count_late(records.timestamps, context.watermark):
            context.count("late", late)

    def _fire(self, context: KeyContext) -> None:
        """Fire timers, wall time first, until none is due, including those that user code sets meanwhile."""
        process = self._computation.process_timer
        fired = 0
        while (timer := context.pop_due()) is not None:
            fired += 1
            if fired > ENDLESS:
                raise StepError(
                    self._node.name,
                    context.key,
                    timer,
                    f"{ENDLESS} timers fired for this key in one bundle; set the next timer later than the last; "
                    "at the end of bounded input a real-time timer does not wait, so it may not set itself without end",
                )
            context.now = timer.timestamp
            try:
                process(timer, context)
            except Exception as error:
                raise failed_step(error, self._node.name, context.key, timer) from error
        self._fired += fired

    def _commit(self, context: KeyContext, bundle: Bundle) -> Commit:
        for counter, number in (("records", self._records), ("timers", self._fired)):
            if number:
                context.count(counter, number)
        delta = context.delta
        self._forget_ids(delta, bundle)
        changed: dict[int, list[Mark]] = {HOLD: [], TimeDomain.WALL_TIME: []}
        if context.has_other_marks:
            # Nearly all marks are timers on the watermark, whose minimum nothing needs.
            for (key_hash, domain, tag), timestamp in [change for change in delta.marks.items() if change[0][1]]:
                if timestamp is not None:
                    changed[domain].append(Mark(timestamp, key_hash, tag))
        wall = self._oldest(delta, TimeDomain.WALL_TIME, changed[TimeDomain.WALL_TIME])
        hold = self._oldest(delta, HOLD, changed[HOLD])
        return Commit(delta, context.counters, hold, wall.timestamp if wall else None)

    def _forget_ids(self, delta: Delta, bundle: Bundle) -> None:
        if self._id_slacks and bundle.watermark > MIN_TIMESTAMP:
            delta.forget_ids_before = min(bundle.watermark, MAX_TIMESTAMP)

    def _oldest(self, delta: Delta, domain: int, changed: list[Mark]) -> Mark | None:
        """The least mark of a domain after the commit; None if there is none.

        Args:
            delta: Changes of the bundle.
            domain: The domain of marks.
            changed: The marks of the domain that the delta sets. The least stored mark may be added to the list.
        """
        for mark in self._store.until(domain, MAX_TIMESTAMP):
            if (mark.key_hash, domain, mark.tag) not in delta.marks:
                changed.append(mark)
                break
        return min(changed, default=None)


def _changing(emit: Emit, change: Callable[[Batch], Batch]) -> Emit:
    """An `emit` that changes each batch."""
    return lambda stream, batch: emit(stream, change(batch))


def _record_runner(node: Keyed) -> Callable[[KeyContext, KeyRecords], None]:
    """A function that processes the records of a key and stream.

    No method: a worker in a reference cycle would keep its bundle's changes in memory until the next collection.
    """
    if isinstance(node.computation, BundleComputation):
        return partial(_run_batch, node.name, node.computation)
    return partial(_run_records if node.dead_letters is None else run_without_poison, node)


def _run_batch(step: str, computation: BundleComputation, context: KeyContext, records: KeyRecords) -> None:
    context.now = records.timestamps[-1]
    batch = Batch(records.values, records.timestamps, records.ids)
    try:
        computation.process_batch(records.stream, batch, context)
    except Exception as error:
        raise failed_step(error, step, context.key, None) from error


def _run_records(node: Keyed, context: KeyContext, records: KeyRecords) -> None:
    process = node.computation.process_record
    timestamps = records.timestamps
    fields = zip(repeat(context.key), records.values, timestamps, records.ids or repeat(None))
    record = None
    try:
        for context.now, record in zip(timestamps, map(new_tuple, repeat(Record), fields), strict=True):
            process(record, context)
    except Exception as error:
        raise failed_step(error, node.name, context.key, record and record.value) from error


def run_without_poison(node: Keyed, context: KeyContext, key_records: KeyRecords) -> None:
    """Process the records of a key; a record that `process_record` raises for becomes a dead letter."""
    columns = (key_records.values, key_records.timestamps, key_records.ids or repeat(None))
    records = list(map(Record, repeat(context.key), *columns))
    letters: dict[int, DeadLetter] = {}
    saved, begin = context.savepoint(), 0
    while begin < len(records):
        stop = len(records) if not letters else min(begin + _STRIDE, len(records))
        failed = _run(node, context, records, begin, stop, letters)
        if failed:
            context.restore(saved)
        else:
            begin = stop
            if begin < len(records):
                saved = context.savepoint()
    for index, letter in letters.items():
        assert node.dead_letters is not None
        context.produce(node.dead_letters, letter, records[index].timestamp)
    if letters:
        context.count(DEAD_LETTERS, len(letters))


def _run(
    node: Keyed, context: KeyContext, records: list[Record], begin: int, stop: int, letters: dict[int, DeadLetter]
) -> bool:
    """Process the records from `begin` to before `stop`, except known poison; True if another record failed."""
    process = node.computation.process_record
    for index in range(begin, stop):
        if index in letters:
            continue
        record = records[index]
        context.now = record.timestamp
        try:
            process(record, context)
        except Exception as error:
            letters[index] = DeadLetter(node.name, record.key, record.value, own_traceback(error))
            return True
    return False
