"""What a worker process of Spark offers to tasks: tokens, the host's copies of state, a place for deltas."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from secrets import token_bytes

from headrace.lowlevel.checkpoint import CopyPlan, DeltaFile, DeltaHeader
from headrace.lowlevel.checkpoint.copy_plan import epoch_of
from headrace.lowlevel.checkpoint.delta_file import delta_object
from headrace.lowlevel.sequencer import attempt_token
from headrace.lowlevel.softstate import StateCache
from headrace.lowlevel.state import Copy, Delta
from headrace.lowlevel.store import Store, StoreError
from headrace.runners.engine.beside import Call, Release, Threads
from headrace.runners.engine.epoch import DRIVER, Kind, Row, Sender, pack, unpack
from headrace.runners.engine.handed import Handed
from headrace.runners.spark.allocator import TRIM
from headrace.runners.spark.copies import SWEEPING, Copies, advance
from headrace.runners.spark.copy import DAMAGE, LmdbCopy
from headrace.runners.spark.lastwords import LAST_WORDS
from headrace.runners.spark.pages import PAGES
from headrace.runners.spark.room import CopyError
from headrace.runners.spark.saved import Saved
from headrace.runners.spark.writes import Writes

_REMEMBERED = 16
"""Intervals of which the delta of this process's last task is kept. Often it runs the same one again, and need not read
the delta; as soon as the interval's copy has it, it goes."""
_FEW_BYTES = 2 << 20
"""Of a delta file that is kept as Python objects, which take several times its room; larger ones are kept as bytes."""
_LAST_TRUSTING = 2
_LMDB = b"lmdb."
"""In the traceback of what LMDB raises."""


class SparkHost:
    """The `Host` of one run's tasks in one process; its copies stay open from task to task."""

    def __init__(self, store: Store, run: str, cache_bytes: int = 0) -> None:
        SWEEPING.when_due()
        self.states = StateCache(cache_bytes)
        self.handed: Handed | None = None
        """See `Host`; of the task that runs just now."""
        self.step_begins = LAST_WORDS.step
        self._store = store
        self._copies = Copies(run)
        self._leases = ExitStack()
        self._threads = Threads()
        self._writes = Writes(store)
        self._leased: list[tuple[str, str]] = []
        self._anew = self._is_late = False
        self._saved: OrderedDict[tuple[int, int], Saved] = OrderedDict()
        """(level, interval) -> its last delta file."""

    def moves_to(self, store: Store) -> None:
        """The run goes on from a checkpoint in this place: that of before, or a copy of it that has its name.

        What copies of state hold is told by the names of files, which no two attempts share.
        """
        self._store, self._writes = store, Writes(store)

    def begin(self, attempt: int, whole_epoch: bool = False) -> None:
        """A task begins, Spark's attempt number `attempt` at it, from 0; it may be all of an epoch."""
        self.handed = Handed() if whole_epoch else None
        # What ends two attempts without a word may be the copy: a damaged file can crash the process that reads it.
        self._anew = self._is_late = attempt >= _LAST_TRUSTING
        self._writes.forget()

    def finish(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass on what the task has to say; then it is over, all that it wrote is, and the views of its copies end.

        Raises `CopyError` where this host has no room for copies: Spark may try the task on another one. Late attempts
        report it as the end of the run.
        """
        try:
            for row in rows:
                if row[2] == Kind.FAILURE:
                    self._failed(row[3])
                yield row
            try:
                self._writes.settle()
            except StoreError as error:
                yield (0, DRIVER, Kind.FAILURE, pack(error))
        finally:
            self.handed = None
            self._leases.close()
            if self._anew:
                for place in self._leased:
                    self._copies.drop(*place)
            self._leased.clear()
            TRIM.task_ends()
            PAGES.look()

    def _failed(self, blob: bytes) -> None:
        self._anew |= _LMDB in blob
        if not self._is_late and isinstance(error := unpack(blob), CopyError):
            raise error

    def token(self) -> str:
        """A token that no other attempt has: Spark may run a task again, or twice at once."""
        return attempt_token(token_bytes(8))

    def copy(self, computation: str, level: int, interval: int, epoch: int, plan: CopyPlan | None) -> Copy:
        """The copy of this host, brought to exactly what the plan says."""
        plan = plan or CopyPlan(level, interval)
        copy = self._lease(computation, plan, lambda copy: True)
        self._forget(plan, computation)
        return copy

    def copy_no_older(self, computation: str, plan: CopyPlan) -> Copy:
        """The copy of this host, brought to what the plan says unless a later epoch's task has brought it further."""
        return self._lease(computation, plan, lambda copy: epoch_of(copy.refresh()) <= epoch_of(plan.last))

    def _lease(self, computation: str, plan: CopyPlan, lacks: Callable[[LmdbCopy], bool]) -> Copy:
        place = (computation, str(plan.interval))
        if self._anew:
            self._copies.drop(*place)
        self._leased.append(place)
        copy = self._leases.enter_context(self._copies.lease(*place))
        try:
            if lacks(copy):
                advance(copy, plan.names, partial(self._read, plan, computation))
        except DAMAGE:
            self._copies.drop(*place)
            copy = self._leases.enter_context(self._copies.lease(*place))
            advance(copy, plan.names, partial(self._read, plan, computation))
        for origin in plan.origins:
            # Its interval is no more; where it was on another level, that copy may be this one.
            if origin.plan.level == plan.level:
                self._copies.drop(computation, str(origin.plan.interval))
        return copy

    def _read(self, plan: CopyPlan, computation: str, name: str) -> list[Delta]:
        saved = self._saved.get((plan.level, plan.interval))
        if saved is not None and saved.name == name and (kept := saved.of(computation)) is not None:
            return kept
        return list(plan.read(self._store, name, computation))

    def _forget(self, plan: CopyPlan, computation: str) -> None:
        """The computation's copy is where its task begins: what was saved before is in it, or was given up."""
        if (saved := self._saved.get((plan.level, plan.interval))) is not None:
            saved.forget(computation)

    def seconds(self) -> float:
        """Processor time of this process: what an interval costs, whatever else the machine does."""
        return time.process_time()

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Write the attempt's deltas to the checkpoint, where only a commit makes them count; see `finish`."""
        # The interval is done; its delta is about to take the most room.
        PAGES.look()
        path, data, written = delta_object(DeltaHeader(epoch, sender.level, interval, sender.token), deltas)
        self._writes.begin(path, data)
        place = (sender.level, interval)
        name = CopyPlan(sender.level, interval).after(written).last
        self._saved[place] = Saved(name, dict(deltas) if len(data) < _FEW_BYTES else dict.fromkeys(deltas, data))
        self._saved.move_to_end(place)
        while len(self._saved) > _REMEMBERED:
            self._saved.popitem(last=False)
        return written

    def beside(self, release: Release) -> Call:
        """In a thread, which goes on behind the task if it takes longer."""
        return self._threads.begin(release)
