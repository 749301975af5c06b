"""What the driver asks of sinks: to begin, to deliver what is committed, and to finish (`BeginningSink`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.lowlevel.sink import BeginningSink, HoldingSink, Sink
from headrace.runners.engine.outlet import failing

Sinks = Mapping[str, tuple[str, Sink]]
Receipts = dict[str, list[bytes]]


def begun(sinks: Sinks, going_on: Collection[str] = ()) -> Receipts:
    """Begin every sink, anew but for those that go on from a checkpoint; what is to be delivered first.

    Raises `StepError`.
    """
    receipts = held(sinks)
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            with failing(name):
                receipt = sink.begin(name not in going_on)
            if receipt is not None:
                receipts = after({name: [receipt]}, receipts)
    return receipts


def held(sinks: Sinks) -> Receipts:
    """What sinks are to find in the next commit, whether tasks give them rows or not."""
    asked = {name: sink.held() for name, (_, sink) in sinks.items() if isinstance(sink, HoldingSink)}
    return {name: [receipt] for name, receipt in asked.items() if receipt is not None}


def after(first: Receipts, receipts: Receipts) -> Receipts:
    """The receipts of tasks behind those of beginnings.

    >>> after({"a": [b"0"]}, {"a": [b"1"], "b": [b"2"]})
    {'a': [b'0', b'1'], 'b': [b'2']}
    """
    return {name: [*first.get(name, ()), *receipts.get(name, ())] for name in (first | receipts)}


def deliver(sinks: Sinks, epoch: int, receipts: Receipts) -> None:
    """Have the rows of a committed epoch delivered."""
    for name, (_, sink) in sinks.items():
        if some := receipts.get(name):
            sink.deliver(epoch, some)


def finish(sinks: Sinks, epoch: int, ended: bool) -> None:
    """Tell every sink that the run has ended, and whether its input has."""
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            with failing(name):
                sink.finish(epoch, ended)
