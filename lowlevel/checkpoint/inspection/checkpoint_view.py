"""A checkpoint as somebody sees it who only looks: nothing is written, no driver is disturbed (paper §6.2).

Everything is of one commit, whatever the run does meanwhile. What only that commit needed is deleted when the run has
gone on by some epochs; then listings raise `CollectedError`, and a new view is needed. Reading runs no code that a
checkpoint names, unless a coder given does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import chain

from headrace.lowlevel.checkpoint import fence, paths
from headrace.lowlevel.checkpoint.archive import Archived
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan, merged
from headrace.lowlevel.checkpoint.fence import Lease
from headrace.lowlevel.checkpoint.fingerprint import COMPUTATION
from headrace.lowlevel.checkpoint.lines import lines_in, of_row
from headrace.lowlevel.checkpoint.listing import (
    CommittedEpoch,
    InjectorState,
    PendingRecords,
    StoredFile,
    StoredHold,
    StoredLine,
    StoredState,
    StoredTimer,
    Watermarks,
    pending_records,
)
from headrace.lowlevel.checkpoint.log import look, read_entry
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.checkpoint.marker import ELSEWHERE, read_marker
from headrace.lowlevel.checkpoint.stored import StoredTables
from headrace.lowlevel.coder import STANDARD_KEYS, Coder, KeyCoder, row_of
from headrace.lowlevel.columnwise.stored import coder_in, has_timers, marks_in
from headrace.lowlevel.errors import CheckpointError, CollectedError
from headrace.lowlevel.intervals import place_of
from headrace.lowlevel.plaindata import PLAIN
from headrace.lowlevel.state import MemoryCopy
from headrace.lowlevel.store import Store
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.timer import HOLD, TimeDomain

_TIMERS = frozenset(int(domain) for domain in TimeDomain)


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """One commit of a checkpoint, the last one as a rule, and everything that it names.

    >>> from headrace.lowlevel.checkpoint import Checkpoint, Fingerprint
    >>> from headrace.lowlevel.store import ObjectStore
    >>> store = ObjectStore("memory://")
    >>> CheckpointView.of(store)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.errors.CheckpointError: there is no checkpoint at memory://; correct the name of the place
    >>> _ = Checkpoint.open(store, "host a", Fingerprint(()), now_us=0)
    >>> view = CheckpointView.of(store)
    >>> view.lease.owner, view.epochs(), view.timers(limit=10)
    ('host a', (), [])
    """

    store: Store
    identity: str
    """The same for as long as the checkpoint exists; another one at the same place has another."""
    manifest: Manifest | None
    """The commit, with positions, counters, who holds which watermark and everything else; None before the first."""
    lease: Lease | None
    """Who drives it, or drove it last."""
    key_coder: KeyCoder = PLAIN
    """Decodes keys. As a rule those of plain types alone; others stay encoded. `STANDARD_KEYS` knows named tuples,
    enumerations and dataclasses too, and imports the modules that these are of."""

    @classmethod
    def of(cls, store: Store, key_coder: KeyCoder = PLAIN) -> CheckpointView:
        """The view of a checkpoint as it is now. Raises `CheckpointError` where there is none, or a damaged one."""
        if (identity := read_marker(store, ELSEWHERE)) is None:
            raise CheckpointError(f"there is no checkpoint at {store.describe()}; correct the name of the place")
        position = look(store)
        generation = fence.newest(store, paths.LEASES)
        lease = fence.read_lease(store, generation) if generation else None
        return cls(store, identity, position.manifest, lease, key_coder)

    # What the log says

    def epochs(self) -> tuple[CommittedEpoch, ...]:
        """The commits that are still in the log, oldest first: the last two, and what was not collected yet."""
        return tuple(
            CommittedEpoch(found.epoch, found.wall_clock, found.generation, found.owner, found.finished)
            for found in self.commits()
        )

    def commits(self) -> Iterator[Manifest]:
        """The commits themselves, as `epochs`."""
        for path in self.store.list(paths.LOG):
            entry = None if (place := paths.number_of(path)) is None else read_entry(self.store, place)
            if isinstance(entry, Manifest):
                yield entry

    def at_epoch(self, epoch: int) -> CheckpointView:
        """The view of another commit.

        Raises `CheckpointError` if it is not in the log, `CollectedError` if files that it names are gone.
        """
        commits = {found.epoch: found for found in self.commits()}
        if (manifest := commits.get(epoch)) is None:
            there = ", ".join(map(str, commits)) or "none"
            raise CheckpointError(f"epoch {epoch} is not in the log of {self.store.describe()} (epochs: {there})")
        kept = {*self.store.list(paths.DELTAS), *self.store.list(paths.SNAPSHOTS)}
        gone = sorted({path for plan in manifest.plans.values() for path in plan.objects()} - kept)
        if gone:
            raise CollectedError(
                f"epoch {epoch} is in the log of {self.store.describe()}, but {len(gone)} of its files were deleted, "
                f"{gone[0]} among them; look at a newer epoch"
            )
        return replace(self, manifest=manifest)

    # What the commit says

    def watermarks(self) -> tuple[Watermarks, ...]:
        """Those of every computation, in order of levels."""
        if self.manifest is None:
            return ()
        return tuple(
            self._watermarks(self.manifest, name, level)
            for level, names in enumerate(self.manifest.topology.levels, 1)
            for name in names
        )

    @staticmethod
    def _watermarks(manifest: Manifest, name: str, level: int) -> Watermarks:
        of = manifest.watermarks_of(name) if name in manifest.output_watermarks else {}
        entered = manifest.input_watermarks.get(name, MIN_TIMESTAMP)
        return Watermarks(name, level, entered, min(of.values(), default=MIN_TIMESTAMP), of)

    def holders(self) -> tuple[StoredHold, ...]:
        """Who has the oldest hold of each computation that has one."""
        holders = {} if self.manifest is None else self.manifest.holders
        return tuple(self._hold(name, one.key, one.tag, one.timestamp) for name, one in holders.items())

    def pending(self) -> tuple[PendingRecords, ...]:
        """Records on their way, in the order in which they are to be delivered."""
        waiting = () if self.manifest is None else self.manifest.pending
        return tuple(pending_records(one.consumer, one.oldest, one.data) for one in waiting)

    def injectors(self) -> tuple[InjectorState, ...]:
        """How far every stream from outside has been taken in."""
        if (commit := self.manifest) is None:
            return ()
        return tuple(
            InjectorState(
                stream,
                PLAIN.decode(position),
                commit.injector_watermarks[stream],
                commit.greatest_timestamps[stream],
                stream in commit.ended,
            )
            for stream, position in commit.positions.items()
        )

    def files(self) -> tuple[StoredFile, ...]:
        """The snapshots and delta files that make up the state; one that two intervals need is named once."""
        plans = [] if self.manifest is None else list(self.manifest.plans.values())
        plans += [plan for one in self.archive for plan in one.plans]
        return tuple(dict.fromkeys(file for plan in plans for file in _files(plan)))

    # What the files say

    def timers(
        self, computation: str | None = None, limit: int | None = None, domain: TimeDomain | None = None
    ) -> list[StoredTimer]:
        """Timers in order of time, of one computation or of all; with `limit` the first so many.

        All files are read, but only as many timers are kept in memory as are asked for, besides what changed since the
        last snapshots. Raises `CheckpointError` naming a file that is damaged, `CollectedError`.
        """
        domains = _TIMERS if domain is None else frozenset([int(domain)])
        return [
            StoredTimer(name, self._key(key), tag, TimeDomain(clock), timestamp)
            for timestamp, name, key, clock, tag in self._marks(computation, domains, limit)
        ]

    def holds(self, computation: str | None = None, limit: int | None = None) -> list[StoredHold]:
        """What holds watermarks back, oldest first; see `timers`."""
        found = self._marks(computation, frozenset([HOLD]), limit)
        return [self._hold(name, key, tag, timestamp) for timestamp, name, key, _, tag in found]

    def _marks(
        self, computation: str | None, domains: frozenset[int], limit: int | None
    ) -> list[tuple[int, str, bytes, int, str]]:
        """(timestamp, computation, encoded key, domain, tag) in order."""
        names = self.computations() if computation is None else (computation,)
        found = (
            (timestamp, name, key, domain, tag)
            for name in names
            for tables in self._tables(name)
            for key, (_, domain, tag), timestamp in tables.marks(domains)
        )
        every = chain(found, self._column_marks(names, domains))
        return sorted(every) if limit is None else nsmallest(limit, every)

    def _column_marks(
        self, names: Sequence[str], domains: frozenset[int]
    ) -> Iterator[tuple[int, str, bytes, int, str]]:
        """The same of timers in segments."""
        for name in filter(self._has_column_timers, names):
            fired = MIN_TIMESTAMP if self.manifest is None else self.manifest.input_watermarks.get(name, MIN_TIMESTAMP)
            for batch in (batch for tables in self._tables(name) for batch in tables.segments()):
                for timestamp, key, domain, tag in marks_in(batch, fired, domains):
                    yield timestamp, name, key, domain, tag

    def _has_column_timers(self, computation: str) -> bool:
        return has_timers(self._signature(computation))

    def _signature(self, computation: str) -> dict[str, str]:
        """What the checkpoint says of the meaning of its state."""
        members = {} if self.manifest is None else self.manifest.topology.of_kind(COMPUTATION)
        return dict(members[computation].signature) if computation in members else {}

    def coder_of(self, computation: str) -> Coder | None:
        """What reads a computation's state, if the checkpoint itself says what it is: that of a `ColumnComputation`."""
        return coder_in(self._signature(computation))

    def states(self, computation: str, coder: Coder | None = None) -> Iterator[StoredState]:
        """What is stored of each key, in no order; decoded if its state's coder is given.

        Memory follows from what changed since the last snapshots, not from the number of keys; see `timers`.
        """
        for tables in self._tables(computation):
            for key, cells in tables.cells():
                yield self._state(computation, self._key(key), cells, coder)

    def state_of(self, computation: str, key: object, coder: Coder | None = None) -> StoredState | None:
        """What is stored of one key, None if nothing is; the files of its key interval are read."""
        row, interval = self._place(computation, key)
        for tables in self._tables(computation, interval):
            if cells := tables.cells_of(row):
                return self._state(computation, key, cells, coder)
        return None

    def _place(self, computation: str, key: object) -> tuple[bytes, int | None]:
        """A key's row, and the number of the interval that it lies in."""
        knows = STANDARD_KEYS if self.key_coder is PLAIN else self.key_coder
        row = row_of(knows.encode(key))
        here = place_of(row)
        return row, next((plan.interval for plan in self._plans(computation) if plan.start <= here < plan.stop), None)

    def lines(self, computation: str) -> Iterator[StoredLine]:
        """What is stored in segments, in no order: the state of computations that work by columns.

        A segment is in memory at a time, besides the names of all.
        """
        for tables in self._tables(computation):
            for batch in tables.segments():
                yield from lines_in(batch, computation, self._key)

    def lines_of(self, computation: str, key: object) -> list[StoredLine]:
        """The lines of one key in segments; the files of its key interval are read."""
        row, interval = self._place(computation, key)
        batches = (batch for tables in self._tables(computation, interval) for batch in tables.segments())
        return [line for batch in batches for line in lines_in(of_row(batch, row), computation, self._key)]

    def count_lines(self, computation: str) -> int:
        """How many lines there are in segments."""
        return sum(batch.num_rows for tables in self._tables(computation) for batch in tables.segments())

    @staticmethod
    def _state(computation: str, key: object, cells: dict[bytes, bytes], coder: Coder | None) -> StoredState:
        data = cells.pop(b"", None)
        state = data if data is None or coder is None else coder.decode(data)
        return StoredState(computation, key, state, cells)

    def count_ids(self, computation: str) -> int:
        """How many ids of processed records are remembered; after a split both intervals remember those before it."""
        return sum(tables.count_ids() for tables in self._tables(computation))

    def load(self, computation: str) -> MemoryCopy:
        """The whole state of a computation, in memory, archived or not.

        Raises `CheckpointError` naming a file that is damaged.
        """
        loaded = [plan.load(self.store, computation) for plan in self._plans(computation)]
        return merged(copies[computation] for copies in loaded if computation in copies)

    def computations(self) -> tuple[str, ...]:
        """Names of all that may have state, in order of levels."""
        levels = () if self.manifest is None else self.manifest.topology.levels
        return tuple(name for names in levels for name in names)

    def _tables(self, computation: str, interval: int | None = None) -> Iterator[StoredTables]:
        """What each key interval has of a computation, or only one interval."""
        for plan in self._plans(computation):
            if interval in (None, plan.interval):
                assert self.manifest is not None, "it has plans"
                yield StoredTables(self.store, plan, computation, self.manifest.epoch)

    def _plans(self, computation: str) -> list[CopyPlan]:
        """What makes up the state of a computation, archived or not."""
        if (archived := self._archived(computation)) is not None:
            return list(archived.plans)
        level = self._level(computation)
        plans = () if self.manifest is None else self.manifest.plans.values()
        return [plan for plan in plans if plan.level == level]

    def _key(self, encoded: bytes) -> object:
        try:
            return self.key_coder.decode(encoded)
        except Exception:
            return encoded

    def _hold(self, computation: str, key: bytes, tag: str, timestamp: int) -> StoredHold:
        timer = None
        if tag.startswith("\0"):
            # It belongs to a timer, see `KeyContext.set_timer`.
            timer, tag = TimeDomain(int(tag[1])), tag[2:]
        return StoredHold(computation, self._key(key), tag, timestamp, timer)

    @property
    def archive(self) -> tuple[Archived, ...]:
        """Computations and injectors that were removed from the topology, with what they had."""
        return () if self.manifest is None else self.manifest.archive

    def _archived(self, computation: str) -> Archived | None:
        return next((one for one in self.archive if one.name == (COMPUTATION, computation)), None)

    def _level(self, computation: str) -> int:
        levels = () if self.manifest is None else self.manifest.topology.levels
        for level, names in enumerate(levels, 1):
            if computation in names:
                return level
        known = ", ".join(name for names in levels for name in names) or "none"
        raise CheckpointError(
            f"{self.store.describe()} has no state of a computation {computation!r} (computations: {known})"
        )


def _files(plan: CopyPlan) -> Iterator[StoredFile]:
    for origin in plan.origins:
        yield from _files(origin.plan)
    if (snapshot := plan.snapshot) is not None:
        yield StoredFile("snapshot", plan.level, plan.interval, snapshot.order.epoch, snapshot.size)
    for name in plan.deltas:
        epoch, _, size = name.split("-")
        yield StoredFile("delta", plan.level, plan.interval, int(epoch), int(size))
