"""Where streams leave the system: staged in the task, delivered once the epoch is committed.

The paper leaves external systems to the user (§3, delivery guarantee). A sink closes most of that gap: what a task
writes stays invisible until its epoch is committed, and a delivery repeated after a crash has the same epoch number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from headrace.lowlevel.coder import PickleCoder
from headrace.lowlevel.record import Batch


class Sink(Protocol):
    """A destination. It is shipped to the tasks for `stage`; `deliver` runs on the driver."""

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: keep the rows safe and say in a receipt how to find them; None if there is nothing to deliver.

        Called at most once a task and epoch. `token` is unique to the attempt: use it in names.
        """

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver, after the commit: make the staged rows visible. May be repeated for the newest epoch."""


class CallSink:
    """Hands every epoch's rows to a function `(epoch, rows)` on the driver; rows are (value, timestamp).

    >>> seen = []
    >>> sink = CallSink(lambda epoch, rows: seen.append((epoch, rows)))
    >>> sink.deliver(3, [sink.stage(Batch(["a"], [5]), 3, 0, "t")])
    >>> seen
    [(3, [('a', 5)])]
    """

    _coder = PickleCoder()

    def __init__(self, function: Callable[[int, list[tuple[object, int]]], None]) -> None:
        self._function: Callable[[int, list[tuple[object, int]]], None] | None = function

    def __getstate__(self) -> dict[str, object]:
        """The function stays on the driver: tasks only stage."""
        return {"_function": None}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The rows themselves are the receipt."""
        return self._coder.encode(list(batch.rows()))

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Call the function with all rows of the epoch."""
        assert self._function is not None
        rows: list[tuple[object, int]] = []
        for receipt in receipts:
            rows += cast("list[tuple[object, int]]", self._coder.decode(receipt))
        self._function(epoch, rows)
