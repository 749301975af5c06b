"""Where streams leave the system: staged in the task and delivered after the commit, or released before it.

The paper leaves external systems to the user (§3, delivery guarantee). A sink closes most of that gap: what a task
writes stays invisible until its epoch is committed, and a delivery repeated after a crash has the same epoch number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Protocol, cast, runtime_checkable

from headrace.lowlevel.coder import PickleCoder
from headrace.lowlevel.record import Batch
from headrace.lowlevel.staged import Staged
from headrace.lowlevel.uncollected import uncollected


class Sink(Protocol):
    """A destination. It is shipped to the tasks for `stage`; `deliver` runs on the driver."""

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: keep the rows safe and say in a receipt how to find them; None if there is nothing to deliver.

        Called at most once a task and epoch. `token` is unique to the attempt: use it in names.
        """

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver, after the commit: make the staged rows visible. May be repeated for the newest epoch."""


@runtime_checkable
class ReleasingSink(Sink, Protocol):
    """A destination that also takes weak productions: before the commit, at least once (paper §6.1.3)."""

    def release(self, batch: Batch, epoch: int, interval: int, token: str) -> bool:
        """Deliver rows now; whether the destination has acknowledged them, whatever that means to it.

        Called in the task as soon as it has the rows, before anything is committed: the epoch may be given up, run
        again and release other rows. On Spark each call has a thread, so one that is slow may meet the next. Rows that
        are not acknowledged in time, or not at all, become part of the commit and are released again on the driver,
        under the same epoch, interval and token, until they are.
        """


@runtime_checkable
class BeginningSink(Sink, Protocol):
    """A destination that is told when a run begins and when it has ended."""

    def begin(self, anew: bool) -> bytes | None:
        """On the driver, before anything is read: a run begins anew, or goes on from a checkpoint.

        What is returned for a run that begins anew becomes the first receipt of its first commit, ahead of those of
        tasks, so that it is delivered if that epoch is committed and not otherwise. What raises here ends the run.
        """

    def finish(self, epoch: int, ended: bool) -> None:
        """On the driver, when the run has ended without an error: everything up to this epoch is delivered.

        `ended` says whether the input has ended; a run that was stopped goes on later, from the same checkpoint. So may
        one whose input has ended, with another program, and one that is only started again finishes again.
        """


@runtime_checkable
class HoldingSink(BeginningSink, Protocol):
    """A destination that does not show everything at once that is delivered to it."""

    def held(self) -> bytes | None:
        """On the driver: a receipt for every commit, with rows or without, that says where hidden rows are.

        A later life of the program may have the destination elsewhere; by the receipt it finds them.
        """


class CallSink:
    """Hands every epoch's rows to a function `(epoch, rows)` on the driver; rows are (value, timestamp).

    >>> seen = []
    >>> sink = CallSink(lambda epoch, rows: seen.append((epoch, rows)))
    >>> sink.deliver(3, [sink.stage(Batch(["a"], [5]), 3, 0, "t")])
    >>> seen
    [(3, [('a', 5)])]
    """

    _coder = PickleCoder()

    def __init__(self, function: Callable[[int, list[tuple[object, int]]], object]) -> None:
        self._function: Callable[[int, list[tuple[object, int]]], object] | None = function

    def __getstate__(self) -> dict[str, object]:
        """The function stays on the driver: tasks only stage."""
        return {"_function": None}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The rows themselves are the receipt, as columns where they are."""
        try:
            return self._coder.encode(Staged.of(batch))
        except Exception as error:
            raise self._unsendable(batch.values, error) from error

    def _unsendable(self, values: Sequence[object], error: Exception) -> Exception:
        """Names the first value that cannot be sent."""
        for value in values:
            try:
                self._coder.encode(value)
            except Exception as reason:
                return TypeError(
                    f"{value!r:.200} cannot be sent to the driver ({type(reason).__name__}: {reason}); "
                    "send what it is made of instead"
                )
        return error

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Call the function with all rows of the epoch."""
        self._call(epoch, self.rows(receipts))

    @classmethod
    def rows(cls, receipts: Sequence[bytes]) -> list[tuple[object, int]]:
        """What was staged."""
        with uncollected():
            return list(chain.from_iterable(map(cls._rows, receipts)))

    @classmethod
    def _rows(cls, receipt: bytes) -> Iterable[tuple[object, int]]:
        staged = cls._coder.decode(receipt)
        # A list of rows is what a tap stages, and what earlier releases did.
        return staged.rows() if isinstance(staged, Staged) else cast("list[tuple[object, int]]", staged)

    def _call(self, epoch: int, rows: list[tuple[object, int]]) -> object:
        assert self._function is not None
        return self._function(epoch, rows)


class TapSink(CallSink):
    """Tells the driver of a run what somebody who only looks wants to know.

    It is no part of the program: a run may go on from a checkpoint without it, and what it was not told yet is lost. Of
    an epoch a task tells no more than so many rows, and how many more there were, as a row whose value is that number.
    None of them is an output of the run.

    >>> sink = TapSink(lambda epoch, rows: None, most=2)
    >>> TapSink.rows([sink.stage(Batch(["a", "b", "c", "d"], [5, 6, 7, 8]), 3, 0, "t")])
    [('a', 5), ('b', 6), (2, 0)]
    """

    def __init__(self, function: Callable[[int, list[tuple[object, int]]], object], most: int = 10_000) -> None:
        super().__init__(function)
        self._most = most

    def __getstate__(self) -> dict[str, object]:
        """The function stays on the driver."""
        return {"_function": None, "_most": self._most}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """The first rows, and how many more there are."""
        rows: list[tuple[object, int]] = list(islice(batch.rows(), self._most))
        if len(batch) > self._most:
            rows.append((len(batch) - self._most, 0))
        return self._coder.encode(rows)


class SendSink(CallSink):
    """Hands rows to a function `(epoch, rows)` that sends them to a service; False says that it did not take them.

    Weak productions are sent by the task that makes them, before the commit, and again until they are taken; strong
    ones by the driver, after it. The function is shipped to the tasks, and called there in a thread of its own.

    >>> sink = SendSink(lambda epoch, rows: len(rows) < 2)
    >>> sink.release(Batch(["a"], [5]), 3, 0, "t"), sink.release(Batch(["a", "b"], [5, 6]), 3, 0, "t")
    (True, False)
    """

    def __getstate__(self) -> dict[str, object]:
        """The function goes to the tasks."""
        return {"_function": self._function}

    def release(self, batch: Batch, epoch: int, interval: int, token: str) -> bool:
        """Call the function; whatever it gives but False is an acknowledgement."""
        return self._call(epoch, list(batch.rows())) is not False

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Send the rows of a committed epoch. Raises `RuntimeError` if they are not taken."""
        rows = self.rows(receipts)
        if self._call(epoch, rows) is False:
            raise RuntimeError(
                f"the {len(rows)} rows of epoch {epoch} were not acknowledged; the epoch is committed and its rows "
                "are sent again when the program is started again"
            )
