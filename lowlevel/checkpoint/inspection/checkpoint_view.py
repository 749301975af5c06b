"""Read-only views of a checkpoint, which do not affect its driver (MillWheel paper §6.2).

A view shows one commit, whatever the run does meanwhile. Files that only this commit needs are deleted some epochs
later; then methods raise `CollectedError`, and a new view is needed. Reading runs no code that a checkpoint names,
unless a given coder does.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import nsmallest

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lowlevel.checkpoint.files.file_chain import FileChain, merged
from headrace.lowlevel.checkpoint.inspection.stored_tables import StoredTables
from headrace.lowlevel.checkpoint.inspection.values import (
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
from headrace.lowlevel.checkpoint.log import fence
from headrace.lowlevel.checkpoint.log.commit_log import commits, look
from headrace.lowlevel.checkpoint.log.fence import Lease
from headrace.lowlevel.checkpoint.log.marker import ELSEWHERE, read_marker
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, spelled_in
from headrace.lowlevel.checkpoint.manifest.manifest import Archived, Manifest
from headrace.lowlevel.coders.coder import PLAIN, STANDARD_KEYS, Coder, KeyCoder, key_hash_of
from headrace.lowlevel.errors import CheckpointError, CollectedError
from headrace.lowlevel.intervals.interval_map import key_position
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import ENCODED, KEY, POINTS, ROW, SAME
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import Location, ObjectStorage, opened_location
from headrace.lowlevel.storage.signed_store import checkpoint_store
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.timer import HOLD, TimeDomain, timer_of_hold
from headrace.lowlevel.vectorized.inspection import coder_in, has_timers, marks_in

_TIMERS = frozenset(int(domain) for domain in TimeDomain)


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """A read-only view of one commit of a checkpoint, by default the last, and of the files that it names.

    >>> from tempfile import TemporaryDirectory
    >>> from headrace.lowlevel import BoundedInjector, Computation, PickleCoder, Topology
    >>> from headrace.runners import RunOptions
    >>> from headrace.runners.local import LocalRunner
    >>> class Counter(Computation):
    ...     def process_record(self, record, context):
    ...         context.state = (context.state or 0) + 1
    ...         context.set_timer("end", 60_000_000)
    ...     def process_timer(self, timer, context):
    ...         pass
    >>> topology = Topology()
    >>> topology.injector("visits", BoundedInjector([("red", 1), ("blue", 2), ("red", 3)]))
    >>> topology.computation("count", Counter(), {"visits": str})
    >>> with TemporaryDirectory() as place:
    ...     result = LocalRunner().run_topology(topology, RunOptions(place, max_records_per_epoch=2))
    ...     view = CheckpointView.of(place)
    ...     view.manifest.epoch, [commit.epoch for commit in view.epochs()]
    ...     sorted((each.key, each.state) for each in view.states("count", PickleCoder()))
    ...     sorted((timer.key, timer.tag) for timer in view.at_epoch(1).timers("count"))
    (2, [1, 2])
    [('blue', 1), ('red', 2)]
    [('blue', 'end'), ('red', 'end')]
    """

    store: ObjectStorage
    identity: str
    """Unique id of the checkpoint; a new checkpoint at the same location has another id."""
    manifest: Manifest | None
    """The commit, with positions, counters and holders of watermarks; None before the first commit."""
    lease: Lease | None
    """The lease of the present or last driver; None if there is none."""
    key_coder: KeyCoder = PLAIN
    """Decodes keys; keys that it does not know stay encoded. The default knows plain types. `STANDARD_KEYS` also knows
    named tuples, enumerations and dataclasses, and imports their modules."""

    @classmethod
    def of(cls, place: Location, key_coder: KeyCoder = PLAIN, checkpoint_key: str | None = None) -> CheckpointView:
        """The view of the last commit.

        Args:
            place: The directory or URL that the run was given, or a store.
            key_coder: Decodes keys.
            checkpoint_key: The secret of a signed checkpoint; by default that of the environment variable
                `HEADRACE_CHECKPOINT_KEY`. A store is signed, or not, already.

        Raises:
            CheckpointError: There is no checkpoint, it is damaged, or its signatures are not of this secret.
        """
        store = opened_location(place, partial(checkpoint_store, secret=checkpoint_key))
        if (identity := read_marker(store, ELSEWHERE)) is None:
            raise CheckpointError(f"there is no checkpoint at {store.describe()}; correct the location")
        position = look(store)
        generation = fence.newest(store, object_names.LEASES)
        lease = fence.read_lease(store, generation) if generation else None
        return cls(store, identity, position.manifest, lease, key_coder)

    # From the log

    def epochs(self) -> tuple[CommittedEpoch, ...]:
        """The commits that `at_epoch` can show, oldest first: the last two, others until their files are deleted."""
        stored = self._stored()
        return tuple(
            CommittedEpoch(commit.epoch, commit.wall_clock, commit.generation, commit.owner, commit.finished)
            for commit in self.commits()
            if _objects(commit) <= stored
        )

    def commits(self) -> Iterator[Manifest]:
        """The commits that are whole in the log, oldest first; files of their state may be deleted.

        A commit that garbage collection keeps only for the small deltas that it carries may have lost its positions
        and rows, and is left out then.
        """
        return commits(self.store)

    def at_epoch(self, epoch: int) -> CheckpointView:
        """The view of another commit.

        Raises `CheckpointError` if it is not in the log, `CollectedError` if some of its files were deleted.
        """
        found = {commit.epoch: commit for commit in self.commits()}
        stored = self._stored()
        if (manifest := found.get(epoch)) is None:
            epochs = ", ".join(str(other) for other, commit in found.items() if _objects(commit) <= stored) or "none"
            raise CheckpointError(f"epoch {epoch} is not in the log of {self.store.describe()} (epochs: {epochs})")
        if deleted := sorted(_objects(manifest) - stored):
            raise CollectedError(
                f"epoch {epoch} is in the log of {self.store.describe()}, but {len(deleted)} of its files were deleted "
                f"({deleted[0]} among them); look at a newer epoch"
            )
        return replace(self, manifest=manifest)

    def _stored(self) -> set[str]:
        """Names of all objects that can have state."""
        folders = (object_names.DELTAS, object_names.SNAPSHOTS, object_names.LOG)
        return {path for folder in folders for path in self.store.list(folder)}

    # From the commit

    def watermarks(self) -> tuple[Watermarks, ...]:
        """The watermarks of every computation, in order of levels."""
        if self.manifest is None:
            return ()
        return tuple(
            self._watermarks(self.manifest, name, level)
            for level, names in enumerate(self.manifest.topology.levels, 1)
            for name in names
        )

    @staticmethod
    def _watermarks(manifest: Manifest, name: str, level: int) -> Watermarks:
        intervals = manifest.watermarks_of(name) if name in manifest.output_watermarks else {}
        output = min(intervals.values(), default=MIN_TIMESTAMP)
        return Watermarks(name, level, manifest.input_watermarks.get(name, MIN_TIMESTAMP), output, intervals)

    def holders(self) -> tuple[StoredHold, ...]:
        """The oldest hold of each computation that has one."""
        holders = {} if self.manifest is None else self.manifest.holders
        return tuple(self._hold(name, holder.key, holder.tag, holder.timestamp) for name, holder in holders.items())

    def pending(self) -> tuple[PendingRecords, ...]:
        """Pending records, in the order of delivery."""
        pending = () if self.manifest is None else self.manifest.pending
        return tuple(pending_records(item.consumer, item.oldest, item.data) for item in pending)

    def injectors(self) -> tuple[InjectorState, ...]:
        """The progress of every injector."""
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
        """The snapshots and delta files that make up the state, each once, even if several intervals need it."""
        chains = [] if self.manifest is None else list(self.manifest.chains.values())
        chains += [chain for archived in self.archive for chain in archived.chains]
        return tuple(dict.fromkeys(file for chain in chains for file in _files(chain)))

    # From the files

    def timers(
        self, computation: str | None = None, limit: int | None = None, domain: TimeDomain | None = None
    ) -> list[StoredTimer]:
        """Timers of one computation or of all, in order of time; at most `limit` if it is given.

        All files are read, but only the result and the changes since the last snapshots are kept in memory. Raises
        `CheckpointError` naming a damaged file, or `CollectedError`.
        """
        domains = _TIMERS if domain is None else frozenset([int(domain)])
        return [
            StoredTimer(name, self._key(key), tag, TimeDomain(clock), timestamp)
            for timestamp, name, key, clock, tag in self._marks(computation, domains, limit)
        ]

    def holds(self, computation: str | None = None, limit: int | None = None) -> list[StoredHold]:
        """Holds of one computation or of all, oldest first; see `timers`."""
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
        marks = itertools.chain(found, self._column_marks(names, domains))
        return sorted(marks) if limit is None else nsmallest(limit, marks)

    def _column_marks(
        self, names: Sequence[str], domains: frozenset[int]
    ) -> Iterator[tuple[int, str, bytes, int, str]]:
        """The marks of timers in segments, as `_marks` gives them."""
        for name in (name for name in names if has_timers(self._signature(name))):
            fired = MIN_TIMESTAMP if self.manifest is None else self.manifest.input_watermarks.get(name, MIN_TIMESTAMP)
            for batch in (batch for tables in self._tables(name) for batch in tables.segments()):
                for timestamp, key, domain, tag in marks_in(batch, fired, domains):
                    yield timestamp, name, key, domain, tag

    def _signature(self, computation: str) -> dict[str, str]:
        """Aspect -> value of the computation's state signature."""
        members = {} if self.manifest is None else self.manifest.topology.of_kind(COMPUTATION)
        return dict(members[computation].signature) if computation in members else {}

    def coder_of(self, computation: str) -> Coder | None:
        """The coder of a `ColumnComputation`'s state, which follows from its signature; None for other computations."""
        return coder_in(self._signature(computation))

    def states(self, computation: str, coder: Coder | None = None) -> Iterator[StoredState]:
        """The stored state of each key, in no order; decoded if the coder of states is given.

        Memory depends on the changes since the last snapshots, not on the number of keys; see `timers`.
        """
        for tables in self._tables(computation):
            for key, cells in tables.cells():
                yield self._state(computation, self._key(key), cells, coder)

    def state_of(self, computation: str, key: object, coder: Coder | None = None) -> StoredState | None:
        """The stored state of one key, None if there is none. Only the files of its key interval are read."""
        key_hash, interval = self._location(computation, key)
        for tables in self._tables(computation, interval):
            if cells := tables.cells_of(key_hash):
                return self._state(computation, key, cells, coder)
        return None

    def _location(self, computation: str, key: object) -> tuple[bytes, int | None]:
        """A key's key_hash, and the number of the interval that contains it."""
        coder = STANDARD_KEYS if self.key_coder is PLAIN else self.key_coder
        if spelled := spelled_in(self._signature(computation)):
            coder = coder.of_step(spelled)
        key_hash = key_hash_of(coder.encode(key))
        position, chains = key_position(key_hash), self._chains(computation)
        return key_hash, next((chain.interval for chain in chains if chain.start <= position < chain.stop), None)

    def lines(self, computation: str) -> Iterator[StoredLine]:
        """The lines of segments, in no order: the state of computations over columns.

        One segment at a time is in memory, besides the names of all segments.
        """
        for tables in self._tables(computation):
            for batch in tables.segments():
                yield from lines_in(batch, computation, self._key)

    def lines_of(self, computation: str, key: object) -> list[StoredLine]:
        """The lines of one key in segments. Only the files of its key interval are read."""
        key_hash, interval = self._location(computation, key)
        batches = (batch for tables in self._tables(computation, interval) for batch in tables.segments())
        return [line for batch in batches for line in lines_in(of_key_hash(batch, key_hash), computation, self._key)]

    def count_lines(self, computation: str) -> int:
        """Number of lines in segments."""
        return sum(batch.num_rows for tables in self._tables(computation) for batch in tables.segments())

    @staticmethod
    def _state(computation: str, key: object, cells: dict[bytes, bytes], coder: Coder | None) -> StoredState:
        data = cells.pop(b"", None)
        state = data if data is None or coder is None else coder.decode(data)
        return StoredState(computation, key, state, cells)

    def encoded_keys(self, computation: str) -> Iterator[bytes]:
        """The encoded keys of a computation, archived or not, in no order; some of them come several times."""
        for tables in self._tables(computation):
            yield from tables.keys()

    def count_ids(self, computation: str) -> int:
        """Number of remembered ids of processed records; ids from before a split of an interval count in both parts."""
        return sum(tables.count_ids() for tables in self._tables(computation))

    def load(self, computation: str) -> MemoryStateStore:
        """Load the whole state of a computation, archived or not, into memory.

        Raises `CheckpointError` naming a damaged file.
        """
        loaded = [chain.load(self.store, computation) for chain in self._chains(computation)]
        return merged(stores[computation] for stores in loaded if computation in stores)

    def computations(self) -> tuple[str, ...]:
        """Names of all computations, in order of levels."""
        levels = () if self.manifest is None else self.manifest.topology.levels
        return tuple(name for names in levels for name in names)

    def _tables(self, computation: str, interval: int | None = None) -> Iterator[StoredTables]:
        """The stored tables of a computation, for each key interval or for one."""
        for chain in self._chains(computation):
            if interval in (None, chain.interval):
                assert self.manifest is not None, "file chains are part of a manifest"
                yield StoredTables(self.store, chain, computation, self.manifest.epoch)

    def _chains(self, computation: str) -> list[FileChain]:
        """The file chains with the state of a computation, archived or not."""
        if (archived := self._archived(computation)) is not None:
            return list(archived.chains)
        level = self._level(computation)
        chains = () if self.manifest is None else self.manifest.chains.values()
        return [chain for chain in chains if chain.level == level]

    def _key(self, encoded: bytes) -> object:
        try:
            return self.key_coder.decode(encoded)
        except Exception:
            return encoded

    def _hold(self, computation: str, key: bytes, tag: str, timestamp: int) -> StoredHold:
        timer, tag = timer_of_hold(tag)
        return StoredHold(computation, self._key(key), tag, timestamp, timer)

    @property
    def archive(self) -> tuple[Archived, ...]:
        """Computations and injectors that were removed from the topology, with their state or position."""
        return () if self.manifest is None else self.manifest.archive

    def _archived(self, computation: str) -> Archived | None:
        return next((archived for archived in self.archive if archived.name == (COMPUTATION, computation)), None)

    def _level(self, computation: str) -> int:
        levels = () if self.manifest is None else self.manifest.topology.levels
        for level, names in enumerate(levels, 1):
            if computation in names:
                return level
        known = ", ".join(name for names in levels for name in names) or "none"
        raise CheckpointError(
            f"{self.store.describe()} has no state of a computation {computation!r} (computations: {known})"
        )


def _objects(commit: Manifest) -> set[str]:
    """Names of all objects with the state of a commit, that of removed computations included."""
    chains = [*commit.chains.values(), *(chain for archived in commit.archive for chain in archived.chains)]
    return {path for chain in chains for path in chain.objects()}


def _files(chain: FileChain) -> Iterator[StoredFile]:
    for origin in chain.origins:
        yield from _files(origin.chain)
    if (snapshot := chain.snapshot) is not None:
        yield StoredFile("snapshot", chain.level, chain.interval, snapshot.order.epoch, snapshot.size)
    for name in chain.deltas:
        epoch, _, size, *_ = name.split("-")
        yield StoredFile("delta", chain.level, chain.interval, int(epoch), int(size))


def lines_in(batch: pa.RecordBatch, computation: str, decode_key: Callable[[bytes], object]) -> Iterator[StoredLine]:
    """The lines of a segment; none of a segment whose lines only refer to other lines.

    >>> key_hashes = pa.array([b"r" * 16, b"s" * 16], pa.binary(16))
    >>> batch = pa.RecordBatch.from_pydict({"row": key_hashes, "key": ["a", "b"], "sum": [3, 4]})
    >>> [(line.key, line.columns) for line in lines_in(batch, "sums", bytes)]
    [('a', {'sum': 3}), ('b', {'sum': 4})]
    >>> same = batch.replace_schema_metadata({SAME: '{"end": 60}'})
    >>> [line.columns for line in lines_in(same, "sums", bytes)]
    [{'end': 60, 'sum': 3}, {'end': 60, 'sum': 4}]
    """
    schema, metadata = batch.schema, batch.schema.metadata or {}
    if POINTS in metadata:
        return
    same: dict[str, object] = json.loads(metadata.get(SAME, b"{}"))
    names = schema.names
    index = names.index(KEY) if KEY in names else names.index(ROW)
    keys = batch.column(index).to_pylist()
    if ENCODED.items() <= (schema.field(index).metadata or {}).items():
        keys = [decode_key(key) for key in keys]
    others = [n for n, name in enumerate(names) if n and name != KEY]
    columns = [batch.column(n).to_pylist() for n in others]
    for key, *values in zip(keys, *columns, strict=True):
        yield StoredLine(computation, key, {**same, **dict(zip((names[n] for n in others), values, strict=True))})


def of_key_hash(batch: pa.RecordBatch, key_hash: bytes) -> pa.RecordBatch:
    """The lines of one key."""
    return batch.filter(pc.equal(batch.column(0), pa.scalar(key_hash, pa.binary(16))))
