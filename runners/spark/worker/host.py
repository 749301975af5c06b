"""The `Host` of Spark's worker processes: attempt tokens, state stores of the machine, delta files.

Delta files are written several at once while the task goes on; the last one of each interval stays in memory, so that
the next task need not read it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from secrets import token_bytes

from headrace.lowlevel.checkpoint import DeltaFile, DeltaHeader, FileChain
from headrace.lowlevel.checkpoint.files.delta_file import MOST_BYTES, decode_deltas, delta_object
from headrace.lowlevel.checkpoint.files.file_chain import epoch_of, file_name
from headrace.lowlevel.intervals.sequencer import attempt_token
from headrace.lowlevel.metric import Where
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.storage.object_store import ObjectStorage, StoreError
from headrace.runners.engine.background_calls import PendingCall, Release, Threads
from headrace.runners.engine.messages import DRIVER, Message, MessageKind, Sender, pack, unpack
from headrace.runners.engine.task.host import LocalExchange
from headrace.runners.spark.memory import TRIM
from headrace.runners.spark.statestore.disk_full import StateDiskError
from headrace.runners.spark.statestore.lmdb_private import DAMAGE
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.runners.spark.statestore.store_cache import StoreCache, advance

_REMEMBERED = 16
"""Number of intervals of which the process caches the last delta file that it wrote. The next task of the same interval
need not read the file; the delta is dropped once the state store of the interval contains it."""
_FEW_BYTES = 3 << 20
"""Size up to which a delta file is cached as Python objects, several times as large; larger files as bytes."""
_LATE_ATTEMPT = 2
"""Spark's number, from 0, of the first attempt that trusts no state store, and sends a full disk to the driver."""


@dataclass(frozen=True, slots=True)
class LastDelta:
    """One delta file, until the state stores of the interval contain its changes.

    >>> last = LastDelta("0001", {"step": Delta(cells={(bytes(16), b""): b"state"})})
    >>> last.of("other"), len(last.of("step"))
    ([], 1)
    >>> last.drop("step")
    >>> last.of("step") is None
    True
    """

    name: str
    """Its name in a file chain, without the place of a commit that carries it."""
    deltas: dict[str, Delta | bytes | None]
    """Computation -> delta, or the bytes of the whole file; None once it is dropped."""

    def is_named(self, name: str) -> bool:
        """Whether a name in a file chain is that of this file."""
        return name == self.name or name.startswith(f"{self.name}-")

    def of(self, computation: str) -> list[Delta] | None:
        """The deltas of a computation; None if they must be read from the file."""
        if computation not in self.deltas:
            return []
        deltas = self.deltas[computation]
        if isinstance(deltas, bytes):
            return list(decode_deltas(deltas, self.name, computation)[1].values())
        return None if deltas is None else [deltas]

    def drop(self, computation: str) -> None:
        """Drop the delta of a computation."""
        if computation in self.deltas:
            self.deltas[computation] = None


class SparkHost:
    """The `Host` of the tasks of one run in one process; state stores stay open from task to task."""

    def __init__(
        self,
        storage: ObjectStorage,
        run: str,
        cache_bytes: int = 0,
        step_begins: Callable[[Where], None] | None = None,
    ) -> None:
        self.states = StateCache(cache_bytes)
        self.local_exchange: LocalExchange | None = None
        """See `Host`; the exchange of the current task."""
        self.step_begins = step_begins
        self.has_failed = False
        """Whether the last task failed or was given up, so that user code may hold records of an unfinished bundle."""
        self._storage = storage
        self._stores = StoreCache(run)
        self._leases = ExitStack()
        self._threads = Threads()
        self._writes = ParallelWrites(storage)
        self._used: list[tuple[str, str]] = []
        self._is_damaged = self._is_late = False
        self._last_deltas: OrderedDict[tuple[int, int], LastDelta] = OrderedDict()
        """(level, interval) -> the last delta file."""

    def move_to(self, storage: ObjectStorage) -> None:
        """Go on from a checkpoint at this location: the same as before, or a copy of it with the same name.

        State stores stay valid, as their positions are names of files, which are different for all attempts.
        """
        self._storage, self._writes = storage, ParallelWrites(storage)

    def begin(self, attempt: int, whole_epoch: bool = False) -> None:
        """Begin a task; `attempt` is Spark's number of the attempt, from 0. The task may be all of an epoch."""
        self.local_exchange = LocalExchange() if whole_epoch else None
        # If two attempts died, a damaged state store may be the cause: reading it can crash the process.
        self._is_damaged = self._is_late = attempt >= _LATE_ATTEMPT
        self.has_failed = False
        self._writes.forget()

    def finish(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Pass on the messages of a task, then end the task: its files are written, the views of its stores released.

        Raises `StateDiskError` if the disk of this host is full: Spark may try the task on another host. Late attempts
        send the error to the driver, which ends the run.
        """
        try:
            for message in messages:
                if message[2] == MessageKind.FAILURE:
                    self._try_elsewhere(message[3])
                yield message
            try:
                self._writes.settle()
            except StoreError as error:
                yield (0, DRIVER, MessageKind.FAILURE, pack(error))
        finally:
            self.local_exchange = None
            self._leases.close()
            if self._is_damaged:
                for key in self._used:
                    self._stores.drop(*key)
            self._used.clear()
            TRIM.task_ends()

    def failed(self, error: Exception) -> None:
        """See `Host`: if an error of LMDB is among the causes, stores that the task used are deleted.

        A full disk damages none; a store that is made again on such a disk would only fail in other ways.
        """
        self.has_failed = True
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, StateDiskError):
            self._is_damaged |= isinstance(cause, DAMAGE)
            cause = cause.__cause__ or cause.__context__

    def _try_elsewhere(self, blob: bytes) -> None:
        """Raise a failure that another host may not have, so that Spark tries the task there; not in a late attempt."""
        if not self._is_late and isinstance(error := unpack(blob), StateDiskError):
            raise error

    def token(self) -> str:
        """A token that no other attempt has, as Spark may run a task again, or twice at once."""
        return attempt_token(token_bytes(8))

    def state_store(
        self, computation: str, level: int, interval: int, epoch: int, chain: FileChain | None
    ) -> StateStore:
        """See `Host`: the state store of this host, brought to exactly the end of the chain."""
        chain = chain or FileChain(level, interval)
        store = self._lease(computation, chain, lambda store: True)
        self._drop_cached(chain, computation)
        return store

    def state_store_no_older(self, computation: str, chain: FileChain) -> StateStore:
        """The state store of this host at the end of the chain, or at a later epoch if one has changed the store."""
        return self._lease(computation, chain, lambda store: epoch_of(store.refresh()) <= epoch_of(chain.last))

    def _lease(self, computation: str, chain: FileChain, is_behind: Callable[[LmdbStateStore], bool]) -> StateStore:
        key = (computation, str(chain.interval))
        if self._is_damaged:
            self._stores.drop(*key)
        self._used.append(key)
        store = self._leases.enter_context(self._stores.lease(*key))
        try:
            if is_behind(store):
                advance(store, chain.names, partial(self._read, chain, computation))
        except DAMAGE:
            self._stores.drop(*key)
            store = self._leases.enter_context(self._stores.lease(*key))
            advance(store, chain.names, partial(self._read, chain, computation))
        for origin in chain.origins:
            # The interval of the origin is gone; at another level, its number may be that of this interval.
            if origin.chain.level == chain.level:
                self._stores.drop(computation, str(origin.chain.interval))
        return store

    def _read(self, chain: FileChain, computation: str, name: str) -> list[Delta]:
        last_delta = self._last_deltas.get((chain.level, chain.interval))
        if last_delta is not None and last_delta.is_named(name) and (deltas := last_delta.of(computation)) is not None:
            return deltas
        return list(chain.read(self._storage, name, computation))

    def _drop_cached(self, chain: FileChain, computation: str) -> None:
        """Drop the cached delta of a computation: it is in the state store now, or its epoch was given up."""
        if (last_delta := self._last_deltas.get((chain.level, chain.interval))) is not None:
            last_delta.drop(computation)

    def seconds(self) -> float:
        """Processor time of this process, which does not depend on the load of the machine."""
        return time.process_time()

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Begin to write the deltas to the checkpoint, see `finish`; they count once a commit names the file.

        The commit of an epoch of one task carries a small file itself.
        """
        path, data, written = delta_object(DeltaHeader(epoch, sender.level, interval, sender.token), deltas)
        if self.local_exchange is not None and len(data) <= MOST_BYTES:
            written = written._replace(contents=data)
        else:
            self._writes.begin(path, data)
        key = (sender.level, interval)
        self._last_deltas[key] = LastDelta(
            file_name(written), dict(deltas) if len(data) < _FEW_BYTES else dict.fromkeys(deltas, data)
        )
        self._last_deltas.move_to_end(key)
        while len(self._last_deltas) > _REMEMBERED:
            self._last_deltas.popitem(last=False)
        return written

    def begin_release(self, release: Release) -> PendingCall:
        """See `Host`: in a thread, which may go on after the task."""
        return self._threads.begin(release)


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
