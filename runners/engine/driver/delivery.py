"""Calls of the driver to sinks: begin, deliver a committed epoch, finish (`BeginningSink`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.lowlevel.sinks.sink import BeginningSink, HoldingSink, Sink
from headrace.runners.engine.sink_errors import failing

Sinks = Mapping[str, tuple[str, Sink]]
Receipts = dict[str, list[bytes]]


def begun(sinks: Sinks, resumed: Collection[str] = ()) -> Receipts:
    """Begin every sink; returns receipts for the next commit, without those of `held`.

    Sinks named in `resumed` go on from a checkpoint, the others are new. Raises `StepError`.
    """
    receipts: Receipts = {}
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            with failing(name):
                receipt = sink.begin(name not in resumed)
            if receipt is not None:
                receipts[name] = [receipt]
    return receipts


def held(sinks: Sinks) -> Receipts:
    """Receipts that sinks add to the next commit, besides those for rows from tasks."""
    receipts = {name: sink.held() for name, (_, sink) in sinks.items() if isinstance(sink, HoldingSink)}
    return {name: [receipt] for name, receipt in receipts.items() if receipt is not None}


def after(first: Receipts, receipts: Receipts) -> Receipts:
    """Sink -> its receipts in `first`, then those in `receipts`.

    >>> after({"a": [b"0"]}, {"a": [b"1"], "b": [b"2"]})
    {'a': [b'0', b'1'], 'b': [b'2']}
    """
    return {name: [*first.get(name, ()), *receipts.get(name, ())] for name in (first | receipts)}


def deliver(sinks: Sinks, epoch: int, receipts: Receipts) -> None:
    """Let every sink deliver the rows of a committed epoch. Raises the errors of sinks unchanged."""
    for name, (_, sink) in sinks.items():
        if sink_receipts := receipts.get(name):
            sink.deliver(epoch, sink_receipts)


def finish(sinks: Sinks, epoch: int, ended: bool) -> None:
    """Tell every sink that the run has ended, and whether the input has."""
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            with failing(name):
                sink.finish(epoch, ended)
