"""What a task must read to bring its copy of an interval's state up to date: a snapshot, then deltas in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headrace.lowlevel.checkpoint import paths
from headrace.lowlevel.checkpoint.delta_file import DeltaFile, DeltaHeader, read_deltas
from headrace.lowlevel.checkpoint.snapshot import Snapshot, is_worth_snapshot
from headrace.lowlevel.state import Copy, Delta, MemoryCopy
from headrace.lowlevel.store import Store


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The files that make up the committed state of one level and interval, oldest first.

    Small and quick to pickle, as one goes to every task of every epoch: a file is one short string. Names are unique
    to the attempt that wrote the file, so a copy that stands at a name in `names` lacks exactly what follows it, and
    any other copy has to be made again from nothing.
    """

    level: int
    interval: int
    snapshot: Snapshot | None = None
    deltas: tuple[str, ...] = ()
    """Name of each delta file: `<epoch>-<token>-<size>`."""
    replay_bytes: int = 0
    """Size of the deltas that the snapshot does not cover."""

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each file, oldest first: the snapshot if there is one, then the deltas."""
        return self.deltas if self.snapshot is None else (self.snapshot.name, *self.deltas)

    @property
    def last(self) -> str:
        """Name of the last file; empty if there is none. A copy that stands there is up to date."""
        return self.deltas[-1] if self.deltas else "" if self.snapshot is None else self.snapshot.name

    def objects(self) -> Iterator[str]:
        """Names in the store of everything that the plan needs."""
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
        if snapshot.order.last not in self.names:
            return self
        covered, *rest = self.names[self.names.index(snapshot.order.last) :]
        deltas = (covered, *rest) if covered in self.deltas else tuple(rest)
        uncovered = sum(int(name.split("-")[2]) for name in rest)
        return replace(self, snapshot=snapshot, deltas=deltas, replay_bytes=uncovered)

    def needs_snapshot(self) -> bool:
        """Whether so much would have to be replayed that a snapshot is worth its cost."""
        if self.snapshot is None:
            return is_worth_snapshot(len(self.deltas), self.replay_bytes, 0)
        uncovered = len(self.deltas) - (self.snapshot.order.last in self.deltas[:1])
        return is_worth_snapshot(uncovered, self.replay_bytes, self.snapshot.size)

    def read(self, store: Store, name: str, computation: str) -> Iterator[Delta]:
        """One computation's deltas in the file of that name. Raises `CheckpointError` naming a file that is damaged."""
        for path, header in self._headers(name, computation):
            if (delta := read_deltas(store, path, header, computation).get(computation)) is not None:
                yield delta

    def load(self, store: Store, only: str | None = None) -> dict[str, MemoryCopy]:
        """The whole state, by computation, in memory. Raises `CheckpointError` naming a file that is damaged."""
        copies: dict[str, MemoryCopy] = {}
        for name in self.names:
            for path, header in self._headers(name, only):
                for computation, delta in read_deltas(store, path, header, only).items():
                    copies.setdefault(computation, MemoryCopy()).apply(delta)
        return copies

    def _headers(self, name: str, only: str | None = None) -> Iterator[tuple[str, DeltaHeader]]:
        if self.snapshot is not None and name == self.snapshot.name:
            return self.snapshot.headers(only)
        return iter([self._delta(name)])

    def _delta(self, name: str) -> tuple[str, DeltaHeader]:
        epoch, token, _ = name.split("-")
        header = DeltaHeader(int(epoch), self.level, self.interval, token)
        return paths.delta(header.epoch, self.level, self.interval, token), header


def merged(copies: Iterable[Copy]) -> MemoryCopy:
    """One copy out of copies of different intervals."""
    total = MemoryCopy()
    for copy in copies:
        for delta in copy.dump():
            total.apply(delta)
    return total
