"""Sinks: destinations to which rows are delivered after the commit of an epoch, or released before it.

The MillWheel paper leaves external systems to the user (§3, delivery guarantee). A sink closes most of that gap: staged
rows stay invisible until their epoch is committed, and a delivery repeated after a crash has the same epoch number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Protocol, cast, runtime_checkable

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.gc_pause import uncollected
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.staged_rows import Staged
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.uncalled_hooks import hooks_of


class Sink(Protocol):
    """A destination of rows. It is sent to the tasks, where `stage` runs; `deliver` runs on the driver.

    >>> class Printed:
    ...     def stage(self, batch, epoch, interval, token):
    ...         return repr(batch.values).encode() if len(batch) else None
    ...     def deliver(self, epoch, receipts):
    ...         print(epoch, [receipt.decode() for receipt in receipts])
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("a", 1), ("b", 2)]))
    >>> topology.sink("print", "words", Printed())
    >>> result = LocalRunner(intervals=1).run_topology(topology)
    1 ["['a', 'b']"]
    """

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """Store the rows of one task without making them visible. It runs in the task.

        It is called at most once for each attempt at a task in an epoch. `token` is unique to the attempt: use it in
        names.

        Returns:
            A receipt by which `deliver` finds the rows; None if there is nothing to deliver.
        """

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """Make the staged rows of a committed epoch visible. It runs on the driver.

        A delivery of the newest epoch may be repeated.
        """


@runtime_checkable
class ReleasingSink(Sink, Protocol):
    """A destination that also takes rows before the commit, at least once (see `Computation.strong_productions`).

    >>> from headrace.lowlevel import CallSink, SendSink
    >>> isinstance(SendSink(lambda rows: True), ReleasingSink), isinstance(CallSink(print), ReleasingSink)
    (True, False)
    """

    def release(self, batch: Batch, epoch: int, interval: int, token: str) -> bool:
        """Deliver rows now; True if the destination has acknowledged them.

        It runs in the task as soon as the rows exist, before the commit: the epoch may be abandoned, and run again with
        other rows. On Spark each call has a thread of its own, so calls may overlap. Rows that are not acknowledged in
        time become part of the commit. The driver then releases them again, with the same epoch, interval and token,
        until they are acknowledged.
        """


class BaseSink:
    """The base of sinks: a subclass defines `stage` and `deliver`, and of the other methods those that it needs.

    By default the other methods do nothing. A sink that also takes rows before the commit has `release`, see
    `ReleasingSink`.

    >>> class Table(CallSink):
    ...     def begin(self, anew):
    ...         print("begins anew" if anew else "goes on")
    ...     def finish(self, epoch, ended):
    ...         print("finished behind epoch", epoch)
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("a", 1)]))
    >>> topology.sink("table", "words", Table(lambda epoch, rows: print(rows)))
    >>> result = LocalRunner().run_topology(topology)
    begins anew
    [('a', 1)]
    finished behind epoch 1
    """

    # What is called of a sink, in this order; a class without this base may have some of it.

    def begin(self, anew: bool) -> bytes | None:
        """Prepare the destination for a run. It runs on the driver, before any input is read.

        An exception ends the run.

        Args:
            anew: True for a run without a commit to continue from.

        Returns:
            For a run that begins anew, the first receipt of its first commit, ahead of the tasks' receipts; it is
            delivered only if that epoch is committed. None for no receipt.
        """
        return None

    def agreement(self) -> bytes | None:
        """What the tasks of the next epoch must know, such as the columns of all files. It runs on the driver.

        It travels in every message of the epoch, so it should be short. None for nothing, or as long as it is not
        known.
        """
        return None

    def agree(self, agreement: bytes) -> None:
        """Take what `agreement` has returned for the epoch. It runs in the task, before `stage`."""

    def settle(self, epoch: int, receipts: Sequence[bytes]) -> list[bytes]:
        """Compare what the tasks of an epoch have staged. It runs on the driver, before the commit.

        An exception ends the run, and nothing of the epoch is committed. It is called for every epoch in which the sink
        has a receipt.

        Args:
            epoch: The number of the epoch.
            receipts: The receipts of its tasks.

        Returns:
            The receipts to be committed instead.
        """
        return [*receipts]

    def held(self) -> bytes | None:
        """A receipt for every commit, with or without rows, such as the location of rows that are kept hidden.

        It runs on the driver. By this receipt a later run finds the rows even if its destination has another location.
        """
        return None

    def finish(self, epoch: int, ended: bool) -> None:
        """End a run that had no error. It runs on the driver; everything up to this epoch is delivered.

        Args:
            epoch: The last epoch.
            ended: Whether the input has ended. A run that was stopped can continue from its checkpoint; so can a run
                whose input has ended, if its program is changed. If the same program is started again, this method is
                called again.
        """


@runtime_checkable
class BeginningSink(Sink, Protocol):
    """A destination with `BaseSink.begin` and `BaseSink.finish`, which every class with that base has.

    >>> isinstance(CallSink(print), BeginningSink)
    True
    """

    def begin(self, anew: bool) -> bytes | None:
        """See `BaseSink.begin`."""

    def finish(self, epoch: int, ended: bool) -> None:
        """See `BaseSink.finish`."""


@runtime_checkable
class HoldingSink(BeginningSink, Protocol):
    """A destination with `BaseSink.held`, which every class with that base has.

    >>> isinstance(CallSink(print), HoldingSink)
    True
    """

    def held(self) -> bytes | None:
        """See `BaseSink.held`."""


@runtime_checkable
class AgreeingSink(Sink, Protocol):
    """A destination with `agreement`, `agree` and `settle` of `BaseSink`, which every class with that base has.

    >>> isinstance(CallSink(print), AgreeingSink)
    True
    """

    def agreement(self) -> bytes | None:
        """See `BaseSink.agreement`."""

    def agree(self, agreement: bytes) -> None:
        """See `BaseSink.agree`."""

    def settle(self, epoch: int, receipts: Sequence[bytes]) -> list[bytes]:
        """See `BaseSink.settle`."""


SINK_PROTOCOLS = ReleasingSink, BeginningSink, HoldingSink, AgreeingSink
SINK_HOOKS = hooks_of(*SINK_PROTOCOLS)
"""The names of all methods of a sink that the driver or a task calls."""


@named("CallSink")
class CallSink(BaseSink):
    """A sink that calls a function `(epoch, rows)` on the driver for every epoch; rows are (value, timestamp).

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
        """Leave the function out: tasks only stage."""
        return {"_function": None}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """See `Sink`; the receipt contains the rows. Raises TypeError for a value that cannot be pickled."""
        try:
            return self._coder.encode(Staged.of(batch))
        except Exception as error:
            raise self._unsendable(batch.values, error) from error

    def _unsendable(self, values: Sequence[object], error: Exception) -> Exception:
        """The error to raise, which names the first value that cannot be pickled."""
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
        """See `Sink`; the function is called with all rows of the epoch."""
        self._call(epoch, self.rows(receipts))

    @classmethod
    def rows(cls, receipts: Sequence[bytes]) -> list[tuple[object, int]]:
        """The rows in some receipts: (value, timestamp in microseconds UTC)."""
        with uncollected():
            return list(chain.from_iterable(map(cls._rows, receipts)))

    @classmethod
    def _rows(cls, receipt: bytes) -> Iterable[tuple[object, int]]:
        staged = cls._coder.decode(receipt)
        # `TapSink` stages a list of rows.
        return staged.rows() if isinstance(staged, Staged) else cast("list[tuple[object, int]]", staged)

    def _call(self, epoch: int, rows: list[tuple[object, int]]) -> object:
        assert self._function is not None
        return self._function(epoch, rows)


@named("TapSink")
class TapSink(CallSink):
    """A sink that shows the first rows of each task and epoch to an observer on the driver.

    It is no part of the program: a run can continue from a checkpoint without it, and rows that were not delivered are
    then lost. A task stages at most `most` rows of an epoch. If there are more, one row follows whose value is the
    number of rows left out. None of these rows is counted as an output of the run.

    >>> sink = TapSink(lambda epoch, rows: None, most=2)
    >>> TapSink.rows([sink.stage(Batch(["a", "b", "c", "d"], [5, 6, 7, 8]), 3, 0, "t")])
    [('a', 5), ('b', 6), (2, 0)]
    """

    def __init__(self, function: Callable[[int, list[tuple[object, int]]], object], most: int = 10_000) -> None:
        super().__init__(function)
        self._most = most

    def __getstate__(self) -> dict[str, object]:
        """See `CallSink`."""
        return {"_function": None, "_most": self._most}

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """See `Sink`; the receipt contains the first rows, and the number of rows left out."""
        rows: list[tuple[object, int]] = list(islice(batch.rows(), self._most))
        if len(batch) > self._most:
            rows.append((len(batch) - self._most, 0))
        return self._coder.encode(rows)


@named("SendSink")
class SendSink(CallSink):
    """A sink whose function `(epoch, rows)` sends rows to a service, and returns False if the service refuses them.

    Rows of a step with `strong_productions = False` are sent by the task before the commit, and again until they are
    acknowledged; all others are sent by the driver after the commit. The function is pickled and sent to the tasks,
    which call it in a thread of its own.

    >>> sink = SendSink(lambda epoch, rows: len(rows) < 2)
    >>> sink.release(Batch(["a"], [5]), 3, 0, "t"), sink.release(Batch(["a", "b"], [5, 6]), 3, 0, "t")
    (True, False)
    """

    def __getstate__(self) -> dict[str, object]:
        """Keep the function: tasks call it."""
        return {"_function": self._function}

    def release(self, batch: Batch, epoch: int, interval: int, token: str) -> bool:
        """See `ReleasingSink`; any result of the function but False is an acknowledgement."""
        return self._call(epoch, list(batch.rows())) is not False

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """See `Sink`; the function is called with all rows. Raises `RuntimeError` if it returns False."""
        rows = self.rows(receipts)
        if self._call(epoch, rows) is False:
            raise RuntimeError(
                f"the {len(rows)} rows of epoch {epoch} were not acknowledged; the epoch is committed and its rows "
                "are sent again when the program is started again"
            )
