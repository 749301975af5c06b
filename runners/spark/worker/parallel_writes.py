"""What a task writes to the checkpoint, beside each other and beside its work: the disk takes several at once."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from headrace.lowlevel.store import Store

_AT_ONCE = 8


class Writes:
    """Of one process. Nobody counts on what is written before `settle` has returned.

    >>> from headrace.lowlevel.store import ObjectStore
    >>> store = ObjectStore("memory://")
    >>> writes = Writes(store)
    >>> writes.begin("deltas/1/a", b"a")
    >>> writes.settle()
    >>> store.get("deltas/1/a")
    b'a'
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="headrace-writes")
        self._going: list[Future[None]] = []

    def begin(self, path: str, data: bytes) -> None:
        """Write an object whose name nobody else has."""
        self._going.append(self._threads.submit(self._store.put, path, data))

    def forget(self) -> None:
        """A task begins: what another one that broke off still writes is nobody's."""
        self._going = []

    def settle(self) -> None:
        """Wait until all is written. Raises what a write raised."""
        going, self._going = self._going, []
        errors = [error for each in going if (error := each.exception()) is not None]
        if errors:
            raise errors[0]
