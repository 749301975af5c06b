"""What a task must read to bring its copy of an interval's state up to date: a snapshot, then deltas in order.

An interval whose bounds are new has no files of its own yet. Its plan names its *origins*, the plans of the intervals
that had its keys before, and reads of them what lies within its bounds; its first snapshot takes their place. So a
change of intervals, or of the level that a computation is on, is a few lines in one commit, whatever the state's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from headrace.lowlevel.checkpoint import envelope, paths
from headrace.lowlevel.checkpoint.delta_file import DeltaFile, DeltaHeader, read_deltas
from headrace.lowlevel.checkpoint.snapshot import Snapshot, is_worth_snapshot
from headrace.lowlevel.intervals import SPACE, Interval, place_of
from headrace.lowlevel.segment import restricted
from headrace.lowlevel.state import Copy, Delta, MemoryCopy
from headrace.lowlevel.store import Store

Bounds = tuple[int, int]
"""First place of an interval, and the first one behind it."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The files that make up the committed state of one level and interval, oldest first.

    Small and quick to pickle, as one goes to every task of every epoch: a file is one short string. Names are unique
    to the attempt that wrote the file, so a copy that stands at a name in `names` lacks exactly what follows it, and
    any other copy has to be made again from nothing.
    """

    level: int
    interval: int
    start: int = 0
    stop: int = SPACE
    """The interval's bounds: nothing of a key outside them is in the state, whatever the origins hold."""
    snapshot: Snapshot | None = None
    deltas: tuple[str, ...] = ()
    """Name of each delta file: `<epoch>-<token>-<size>`."""
    replay_bytes: int = 0
    """Size of the deltas that the snapshot does not cover."""
    origins: tuple[Origin, ...] = ()
    """Where the state of before the first own file is; empty once there is a snapshot."""

    @classmethod
    def of(cls, level: int, interval: Interval, origins: Iterable[Origin] = ()) -> CopyPlan:
        """The plan of an interval without files of its own."""
        return cls(level, interval.number, interval.start, interval.stop, origins=tuple(origins))

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each file, oldest first: those of origins, or the snapshot if there is one, then the deltas."""
        if self.snapshot is not None:
            return (self.snapshot.name, *self.deltas)
        if not self.origins:
            return self.deltas
        inherited = (f"{n}/{name}" for n, origin in enumerate(self.origins) for name in origin.plan.names)
        return (*inherited, *self.deltas)

    @property
    def last(self) -> str:
        """Name of the last file; empty if there is none. A copy that stands there is up to date."""
        return self.deltas[-1] if self.deltas else next(reversed(self.names), "")

    def objects(self) -> Iterator[str]:
        """Names in the store of everything that the plan needs."""
        for origin in self.origins:
            yield from origin.plan.objects()
        if self.snapshot is not None:
            yield from self.snapshot.objects()
        for name in self.deltas:
            yield self._delta(name)[0]

    def after(self, file: DeltaFile) -> CopyPlan:
        """The plan once a commit has named another delta file."""
        name = f"{file.epoch}-{paths.checked(file.token)}-{file.size}"
        return replace(self, deltas=(*self.deltas, name), replay_bytes=self.replay_bytes + file.size)

    def on(self, snapshot: Snapshot) -> CopyPlan:
        """The plan that starts from a snapshot, if the snapshot ends at a file of this plan; else this plan as it is.

        The last delta that the snapshot covers stays in the plan: applying it again changes nothing, and copies that
        stand there need not be made again.
        """
        names = self.names
        if snapshot.order.last not in names:
            return self
        covered, *rest = names[names.index(snapshot.order.last) :]
        deltas = tuple(name for name in (covered, *rest) if name in self.deltas)
        uncovered = sum(int(name.split("-")[2]) for name in deltas if name != covered)
        return replace(self, snapshot=snapshot, deltas=deltas, replay_bytes=uncovered, origins=())

    def needs_snapshot(self) -> bool:
        """Whether so much would have to be replayed that a snapshot is worth its cost; new bounds always are."""
        if self.snapshot is None:
            return bool(self.origins) or is_worth_snapshot(len(self.deltas), self.replay_bytes, 0)
        uncovered = len(self.deltas) - (self.snapshot.order.last in self.deltas[:1])
        return is_worth_snapshot(uncovered, self.replay_bytes, self.snapshot.size)

    def read(self, store: Store, name: str, computation: str) -> Iterator[Delta]:
        """One computation's deltas in the file of that name. Raises `CheckpointError` naming a file that is damaged."""
        return (delta for _, delta in self._read(store, name, computation))

    def load(self, store: Store, only: str | None = None) -> dict[str, MemoryCopy]:
        """The whole state, by computation, in memory. Raises `CheckpointError` naming a file that is damaged."""
        copies: dict[str, MemoryCopy] = {}
        for name in self.names:
            for computation, delta in self._read(store, name, only):
                copies.setdefault(computation, MemoryCopy()).apply(delta)
        return copies

    def _read(self, store: Store, name: str, only: str | None) -> Iterator[tuple[str, Delta]]:
        number, separator, rest = name.partition("/")
        if separator:
            origin = self.origins[int(number)]
            for computation, delta in origin.read(store, rest, only):
                with envelope.understood(f"{name} in {store.describe()}"):
                    here = within(delta, (origin.plan.start, origin.plan.stop), (self.start, self.stop))
                yield computation, here
            return
        for path, header in self._headers(name, only):
            yield from read_deltas(store, path, header, only).items()

    def _headers(self, name: str, only: str | None = None) -> Iterator[tuple[str, DeltaHeader]]:
        if self.snapshot is not None and name == self.snapshot.name:
            return self.snapshot.headers(only)
        return iter([self._delta(name)])

    def _delta(self, name: str) -> tuple[str, DeltaHeader]:
        epoch, token, _ = name.split("-")
        header = DeltaHeader(int(epoch), self.level, self.interval, token)
        return paths.delta(header.epoch, self.level, self.interval, token), header


@dataclass(frozen=True, slots=True)
class Origin:
    """A plan that another one begins with: there, its files have its number and a slash before their names."""

    plan: CopyPlan
    computations: frozenset[str] | None = None
    """Those that are taken from it; None for all."""

    def read(self, store: Store, name: str, only: str | None) -> Iterator[tuple[str, Delta]]:
        """What the file of that name holds of its computations, or of `only` one."""
        if only is not None and not self._has(only):
            return
        yield from ((found, delta) for found, delta in self.plan._read(store, name, only) if self._has(found))

    def _has(self, computation: str) -> bool:
        return self.computations is None or computation in self.computations


def epoch_of(name: str) -> int:
    """The epoch that a file of a plan belongs to; -1 for none.

    >>> [epoch_of(name) for name in ("", "7-t-100", "s7-1-t", "1/0/7-t-100")]
    [-1, 7, 7, 7]
    """
    return int(name.rpartition("/")[2].lstrip("s").split("-")[0]) if name else -1


def within(delta: Delta, old: Bounds, new: Bounds) -> Delta:
    """What a delta of an interval says of keys in another one. Ids stay whole: whose they are they do not say."""
    start, stop = new
    segments = {_inherited(name, old): _piece(contents, new) for name, contents in delta.segments.items()}
    if new == (0, SPACE):
        return replace(delta, segments=segments)

    def here(row: bytes) -> bool:
        return start <= place_of(row) < stop

    return Delta(
        {row: key for row, key in delta.keys.items() if here(row)},
        {cell: contents for cell, contents in delta.cells.items() if here(cell[0])},
        {mark: timestamp for mark, timestamp in delta.marks.items() if here(mark[0])},
        delta.ids,
        delta.forget_ids_before,
        segments,
    )


def _inherited(name: bytes, old: Bounds) -> bytes:
    """The name of a piece of a segment, by the bounds of the interval that it comes from.

    The origins of an interval have different bounds, so what they called by the same name has two names here, and
    neither is one that the interval gives itself.
    """
    return name + blake2b(b"%d-%d" % old, digest_size=8).digest()


def _piece(contents: bytes | None, new: Bounds) -> bytes | None:
    """What an interval has of a segment; where that is nothing, it takes away what was there before."""
    return contents if contents is None or new == (0, SPACE) else restricted(contents, *new)


def merged(copies: Iterable[Copy]) -> MemoryCopy:
    """One copy out of copies of different intervals; names of segments get the number of the copy behind them."""
    total = MemoryCopy()
    for number, copy in enumerate(copies):
        for delta in copy.dump():
            segments = {b"%b/%d" % (name, number): contents for name, contents in delta.segments.items()}
            total.apply(replace(delta, segments=segments))
    return total
