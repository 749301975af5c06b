"""What a worker process of Spark offers to tasks: tokens, the host's copies of state, a place for deltas."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack
from functools import partial
from secrets import token_bytes

from headrace.lowlevel.checkpoint import CopyPlan, DeltaFile, DeltaHeader, write_deltas
from headrace.lowlevel.sequencer import attempt_token
from headrace.lowlevel.state import Copy, Delta
from headrace.lowlevel.store import Store
from headrace.runners.engine.epoch import Sender
from headrace.runners.spark.copies import Copies, advance

_REMEMBERED = 16
"""Deltas of the tasks that this process ran last. Often it runs the same interval again, and need not read them."""


class SparkHost:
    """The `Host` of one run's tasks in one process; its copies stay open from task to task."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self._copies = Copies(run)
        self._leases = ExitStack()
        self._saved: OrderedDict[str, dict[str, Delta]] = OrderedDict()

    def token(self) -> str:
        """A token that no other attempt has: Spark may run a task again, or twice at once."""
        return attempt_token(token_bytes(8))

    def copy(self, computation: str, level: int, interval: int, epoch: int, plan: CopyPlan | None) -> Copy:
        """The copy of this host, brought to exactly what the plan says."""
        plan = plan or CopyPlan(level, interval)
        copy = self._leases.enter_context(self._copies.lease(computation, str(interval)))
        advance(copy, plan.names, partial(self._read, plan, computation))
        return copy

    def copy_no_older(self, computation: str, plan: CopyPlan) -> Copy:
        """The copy of this host, brought to what the plan says unless a later epoch's task has brought it further."""
        copy = self._leases.enter_context(self._copies.lease(computation, str(plan.interval)))
        if _epoch_of(copy.refresh()) <= _epoch_of(plan.last):
            advance(copy, plan.names, partial(self._read, plan, computation))
        return copy

    def _read(self, plan: CopyPlan, computation: str, name: str) -> list[Delta]:
        if (saved := self._saved.get(name)) is not None:
            return [saved[computation]] if computation in saved else []
        return list(plan.read(self._store, name, computation))

    def save(self, epoch: int, sender: Sender, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Write the attempt's deltas to the checkpoint, where only a commit makes them count."""
        written = write_deltas(self._store, DeltaHeader(epoch, sender.level, sender.index, sender.token), deltas)
        self._saved[CopyPlan(sender.level, sender.index).after(written).last] = deltas
        while len(self._saved) > _REMEMBERED:
            self._saved.popitem(last=False)
        return written

    def finish(self) -> None:
        """The task is over: end the views of the copies that it used."""
        self._leases.close()


def _epoch_of(name: str) -> int:
    """The epoch that a file of a `CopyPlan` belongs to; -1 for none. Names begin with it, snapshots' after an s."""
    return int(name.lstrip("s").split("-")[0]) if name else -1
