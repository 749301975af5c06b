"""Writes of a task to the checkpoint, several at once and while the task goes on."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from headrace.lowlevel.storage.object_store import ObjectStorage

_AT_ONCE = 8


class ParallelWrites:
    """The writes of one process. They have succeeded once `settle` has returned.

    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> store = ObjectStore("memory://")
    >>> writes = ParallelWrites(store)
    >>> writes.begin("deltas/1/a", b"a")
    >>> writes.settle()
    >>> store.get("deltas/1/a")
    b'a'
    """

    def __init__(self, store: ObjectStorage) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="headrace-writes")
        self._running: list[Future[None]] = []

    def begin(self, path: str, data: bytes) -> None:
        """Begin to write an object; its name must be unique."""
        self._running.append(self._threads.submit(self._store.put, path, data))

    def forget(self) -> None:
        """Forget the writes of a task that was interrupted; call this when another task begins."""
        self._running = []

    def settle(self) -> None:
        """Wait for all writes. Raises the error of the first write that failed."""
        writes, self._running = self._running, []
        errors = [error for each in writes if (error := each.exception()) is not None]
        if errors:
            raise errors[0]
