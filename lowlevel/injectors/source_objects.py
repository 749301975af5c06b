"""Objects in which an injector keeps what would be too large for each commit; its positions name them.

An object never changes, and is named after its contents. It is written before a commit can name it, and deleted once
neither of the last two commits does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import envelope
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore, StoreError

KIND, FORMAT_VERSION = "what a source keeps", 1


class SourceObjects:
    """The objects of one injector.

    >>> objects = SourceObjects.in_memory()
    >>> objects.get(objects.put(b"paths"))
    b'paths'

    Args:
        store: The store, usually the checkpoint.
        folder: The folder in it that this injector alone uses.
    """

    def __init__(self, store: ObjectStorage, folder: str) -> None:
        self._store, self._folder = store, folder
        self._last: frozenset[str] | None = None
        """Names in the last commit; None before a commit of this run."""
        self._garbage: frozenset[str] | None = None
        """Names that were in the commit before and are not in the last one; None before it is known."""

    @classmethod
    def in_memory(cls) -> SourceObjects:
        """Objects of a run without a checkpoint."""
        return cls(ObjectStore("memory://"), "source")

    def put(self, data: bytes) -> str:
        """Write an object; returns its name."""
        name = blake2b(data, digest_size=16).hexdigest()
        self._store.put_if_absent(self._path(name), envelope.wrap(KIND, FORMAT_VERSION, [data]))
        return name

    def get(self, name: str) -> bytes:
        """Read an object. Raises `CheckpointError` if it is missing or damaged."""
        path = self._path(name)
        described = f"{path} in {self._store.describe()}"
        data = self._store.get(path)
        if data is None:
            raise CheckpointError(
                f"{described} is missing, which the position of a source names; put it back, or start over on an "
                "empty checkpoint"
            )
        (contents,) = envelope.unwrap(KIND, FORMAT_VERSION, data, described)
        return bytes(contents)

    def committed(self, names: Iterable[str]) -> None:
        """Note the names in a new commit, and delete what neither it nor the commit before names.

        What a killed driver has left is found at the second commit of a run: nothing else can still need it.
        """
        current = frozenset(names)
        if self._last is not None:
            garbage = self._all() if self._garbage is None else self._garbage
            # What cannot be deleted now is found when a run starts again.
            with suppress(StoreError):
                for name in sorted(garbage - self._last - current):
                    self._store.delete(self._path(name))
            self._garbage = self._last - current
        self._last = current

    def _all(self) -> frozenset[str]:
        with suppress(StoreError):
            return frozenset(path.rpartition("/")[2] for path in self._store.list(self._folder))
        return frozenset()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"
