"""Stores for tests: one that can be copied and looked into, one that crashes, one under a scheduler's control."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import TypeVar

from headrace.lowlevel.storage.object_store import ObjectStorage

T = TypeVar("T")


class DictStore:
    """A store as a dictionary."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})

    def get(self, path: str) -> bytes | None:
        return self.objects.get(path)

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data

    def put_if_absent(self, path: str, data: bytes) -> bool:
        taken = path in self.objects
        return not taken and self.objects.setdefault(path, data) is data

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self.objects if path.startswith(f"{prefix}/"))

    def delete(self, path: str) -> None:
        self.objects.pop(path, None)

    def is_empty(self) -> bool:
        return not self.objects

    def describe(self) -> str:
        return "dict://"


class WrappedStore:
    """Passes every operation through `around(name, operation)`."""

    def __init__(self, inner: ObjectStorage) -> None:
        self.inner = inner

    def around(self, name: str, operation: Callable[[], T]) -> T:
        return operation()

    def get(self, path: str) -> bytes | None:
        return self.around(f"get {path}", lambda: self.inner.get(path))

    def put(self, path: str, data: bytes) -> None:
        self.around(f"put {path}", lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.around(f"put_if_absent {path}", lambda: self.inner.put_if_absent(path, data))

    def list(self, prefix: str) -> list[str]:
        return self.around(f"list {prefix}", lambda: self.inner.list(prefix))

    def delete(self, path: str) -> None:
        self.around(f"delete {path}", lambda: self.inner.delete(path))

    def is_empty(self) -> bool:
        return self.around("is_empty", self.inner.is_empty)

    def describe(self) -> str:
        return self.inner.describe()


class CrashError(Exception):
    """The process died here."""


class FaultyStore(WrappedStore):
    """Crashes at the operation number `crash_at` (from 0), before its effect or just after it, and then always."""

    def __init__(self, inner: ObjectStorage, crash_at: int, after: bool) -> None:
        super().__init__(inner)
        self.crash_at, self.after = crash_at, after
        self.operations: list[str] = []
        self.crashed = False

    def around(self, name: str, operation: Callable[[], T]) -> T:
        if self.crashed:
            raise CrashError(name)
        number = len(self.operations)
        self.operations.append(name)
        if number == self.crash_at:
            self.crashed = True
            if self.after:
                operation()
            raise CrashError(name)
        return operation()


class LostAnswerStore(WrappedStore):
    """Every conditional write that succeeds says that the name was taken, as when a client tries again on its own."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.inner.put_if_absent(path, data)
        return False


class Scheduler:
    """Lets threads take turns at store operations, one at a time, in an order drawn from a seed.

    A thread that is not drawn for a long time is a process that was stopped: what it does next comes late.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._turn = threading.Condition()
        self._waiting: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._chosen: str | None = None
        self._running = 0

    def run(self, jobs: dict[str, Callable[[], None]]) -> None:
        """Run all jobs to their ends."""
        threads = [threading.Thread(target=self._job, args=(name, job), daemon=True) for name, job in jobs.items()]
        self._running = len(threads)
        for thread in threads:
            thread.start()
        with self._turn:
            while self._running:
                self._turn.wait_for(lambda: self._chosen is None and len(self._waiting) == self._running, timeout=30)
                if self._waiting:
                    self._chosen = self._draw()
                    self._turn.notify_all()
        for thread in threads:
            thread.join(timeout=30)

    def _draw(self) -> str:
        # Speeds change all the time, over orders of magnitude, so that threads overtake each other by much.
        names = sorted(self._waiting)
        for name in names:
            if name not in self._weights or self._random.random() < 0.05:
                self._weights[name] = 10 ** self._random.uniform(-3, 0)
        return self._random.choices(names, [self._weights[name] for name in names])[0]

    def _job(self, name: str, job: Callable[[], None]) -> None:
        try:
            job()
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    def step(self, name: str, operation: Callable[[], T]) -> T:
        """One operation of a thread, when it is its turn."""
        with self._turn:
            self._waiting[name] = 1
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._chosen == name)
            del self._waiting[name]
            try:
                return operation()
            finally:
                self._chosen = None
                self._turn.notify_all()


class ScheduledStore(WrappedStore):
    """A store whose every operation waits for its thread's turn."""

    def __init__(self, inner: ObjectStorage, scheduler: Scheduler, name: str) -> None:
        super().__init__(inner)
        self._scheduler, self._name = scheduler, name

    def around(self, name: str, operation: Callable[[], T]) -> T:
        return self._scheduler.step(self._name, operation)
