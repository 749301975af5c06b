"""The files that a source has taken from a folder, exactly and for ever, although a commit stays small.

The newest files are in the position itself. Earlier ones are in runs: objects of the source that never change, and that
the position names. Several runs of a size become one, as in a log-structured merge tree, so that a million files are in
a few dozen runs, and each file is written again a few times in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import decode_tables, numbers_in, of_bytes, of_integers
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.sdk.io.files.filesystem import MatchedFile

TAIL = 256
"""Greatest number of files in a position."""
_FAN = 8
"""Number of runs of a size that become one."""
_DIGEST = 16
_SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modified", pa.int64())])
UNKNOWN = -1
"""Size and time of a file that a checkpoint names without them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The files that were taken. Persisted as part of a position: every field."""

    tail: tuple[MatchedFile, ...] = ()
    """The newest ones."""
    runs: tuple[tuple[str, int], ...] = ()
    """Name and number of files of each run, the largest first."""

    def plain(self) -> object:
        """The value as nested tuples."""
        return tuple((file.path, file.size, file.modified_us) for file in self.tail), self.runs

    @classmethod
    def of(cls, plain: object) -> Seen:
        """The value of the result of `plain`."""
        tail, runs = cast("tuple[tuple[tuple[str, int, int], ...], tuple[tuple[str, int], ...]]", plain)
        return cls(tuple(MatchedFile(*file) for file in tail), runs)

    @property
    def names(self) -> frozenset[str]:
        """Names of the objects."""
        return frozenset(name for name, _ in self.runs)


def _digest(path: str) -> bytes:
    return blake2b(path.encode(), digest_size=_DIGEST).digest()


@dataclass(frozen=True)
class _Run:
    """The files of a run, ordered by the digests of their paths; 32 bytes a file."""

    digests: npt.NDArray[np.bytes_]
    sizes: npt.NDArray[np.int64]
    modified: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> _Run:
        """The run of a table of paths."""
        paths = table.column("path").to_pylist()
        digests = np.frombuffer(b"".join(map(_digest, paths)), f"S{_DIGEST}")
        sizes, modified = (numbers_in(table.column(name).combine_chunks()) for name in ("size", "modified"))
        return cls(digests, sizes, modified).ordered()

    @classmethod
    def joined(cls, runs: Sequence[_Run]) -> _Run:
        """The files of several runs."""
        columns = ((run.digests, run.sizes, run.modified) for run in runs)
        return cls(*map(np.concatenate, zip(*columns, strict=True))).ordered()

    def ordered(self) -> _Run:
        """The same files, ordered."""
        order = np.argsort(self.digests, kind="stable")
        return _Run(self.digests[order], self.sizes[order], self.modified[order])

    def find(self, wanted: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """The index of each digest; -1 for one that is not there."""
        at = np.minimum(np.searchsorted(self.digests, wanted), len(self.digests) - 1)
        return np.where(self.digests[at] == wanted, at, -1)


@dataclass
class SeenFiles:
    """Looks files up, and adds them; `objects` has the runs."""

    objects: SourceObjects
    _runs: dict[str, _Run] = field(default_factory=dict, repr=False)
    """The runs in memory, by name."""
    _paths: dict[str, list[str]] = field(default_factory=dict, repr=False)
    """The paths in runs, by name, for `paths` only."""

    def find(self, seen: Seen, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Those of the paths that were taken, each with the size and time (microseconds UTC) that it had then."""
        newest = {file.path: (file.size, file.modified_us) for file in seen.tail}
        found = {path: newest[path] for path in paths if path in newest}
        if not seen.runs or len(found) == len(paths):
            return found
        others = [path for path in paths if path not in found]
        wanted = np.frombuffer(b"".join(map(_digest, others)), f"S{_DIGEST}")
        self._runs = {name: self._runs.get(name) or _Run.of(self._table(name)) for name, _ in seen.runs}
        for run in self._runs.values():
            at = run.find(wanted)
            for index in np.flatnonzero(at >= 0).tolist():
                found[others[index]] = int(run.sizes[at[index]]), int(run.modified[at[index]])
        return found

    def added(self, seen: Seen, files: Iterable[MatchedFile]) -> Seen:
        """The value with more files; writes a run when the position would become large."""
        tail = (*seen.tail, *files)
        if len(tail) <= TAIL:
            return Seen(tail, seen.runs)
        return Seen((), self._merged([*seen.runs, self._written(_table(tail))]))

    def paths(self, seen: Seen) -> list[str]:
        """All paths, sorted. It reads all runs once; they stay in memory."""
        self._paths = {name: self._paths.get(name) or self._paths_in(name) for name, _ in seen.runs}
        return sorted([file.path for file in seen.tail] + [path for paths in self._paths.values() for path in paths])

    def _merged(self, runs: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """The runs, fewer than `_FAN` of each size."""
        while True:
            sizes = [_tier(count) for _, count in runs]
            full = next((tier for tier in sorted(set(sizes)) if sizes.count(tier) >= _FAN), None)
            if full is None:
                return tuple(sorted(runs, key=lambda run: (-run[1], run[0])))
            small = [run for run, tier in zip(runs, sizes, strict=True) if tier <= full]
            merged = self._written(pa.concat_tables([self._table(name) for name, _ in small]))
            if all(name in self._runs for name, _ in small):
                # Digests are made once for each path, as they are most of the work.
                self._runs[merged[0]] = _Run.joined([self._runs[name] for name, _ in small])
            runs = [run for run in runs if run not in small] + [merged]

    def _written(self, table: pa.Table) -> tuple[str, int]:
        return self.objects.put(_encoded(table)), table.num_rows

    def _table(self, name: str) -> pa.Table:
        return pa.Table.from_batches(decode_tables(self.objects.get(name)), _SCHEMA)

    def _paths_in(self, name: str) -> list[str]:
        return cast("list[str]", self._table(name).column("path").to_pylist())


def _table(files: Sequence[MatchedFile]) -> pa.Table:
    paths = of_bytes([file.path.encode() for file in files], pa.string())
    sizes, modified = [file.size for file in files], [file.modified_us for file in files]
    return pa.Table.from_arrays(
        [paths, of_integers(sizes, pa.int64()), of_integers(modified, pa.int64())], schema=_SCHEMA
    )


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table.combine_chunks())
    return bytes(memoryview(sink.getvalue()))


def packed(files: Sequence[MatchedFile]) -> bytes:
    """Files as the contents of an object.

    >>> files_in(packed([MatchedFile("/a.csv", 7, 5)]))
    [MatchedFile(path='/a.csv', size=7, modified_us=5)]
    """
    return _encoded(_table(files))


def files_in(data: bytes) -> list[MatchedFile]:
    """The files of the result of `packed`."""
    table = pa.Table.from_batches(decode_tables(data), _SCHEMA)
    return [MatchedFile(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _tier(count: int) -> int:
    """The size of a run, as a power of `_FAN`."""
    tier, most = 0, TAIL * 2
    while count >= most:
        tier, most = tier + 1, most * _FAN
    return tier
