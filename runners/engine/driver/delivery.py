"""Calls of the driver to sinks: begin, settle an epoch, deliver it when it is committed, finish (`BeginningSink`)."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from headrace.lowlevel.sinks.sink import AgreeingSink, BeginningSink, HoldingSink, Sink
from headrace.lowlevel.user_errors import failing, naming_stored_classes
from headrace.runners.engine.activity import Activity, RunPhase

Sinks = Mapping[str, tuple[str, Sink]]
Receipts = dict[str, list[bytes]]


def begin_sinks(sinks: Sinks, activity: Activity, resumed: Collection[str] = ()) -> Receipts:
    """Begin every sink; returns receipts for the next commit, without those of `held_receipts`.

    Sinks named in `resumed` go on from a checkpoint, and so does a sink that is now inside of a step that was one, or
    the reverse, as when a number of files is asked for. The others are new. Raises `StepError`.
    """
    receipts: Receipts = {}
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            activity.begin(RunPhase.START, name)
            with failing(name):
                receipt = sink.begin(not _goes_on(name, resumed))
            if receipt is not None:
                receipts[name] = [receipt]
    return receipts


def _goes_on(name: str, resumed: Collection[str]) -> bool:
    """Whether a sink is one of those resumed, by its own label or by that of the step around one of the two.

    >>> _goes_on("Out/Files", ["Out"]), _goes_on("Out", ["Out/Files"]), _goes_on("Out2", ["Out"])
    (True, True, False)
    """
    return any(f"{name}/".startswith(f"{other}/") or f"{other}/".startswith(f"{name}/") for other in resumed)


def held_receipts(sinks: Sinks) -> Receipts:
    """Receipts that sinks add to the next commit, besides those for rows from tasks."""
    receipts = {name: sink.held() for name, (_, sink) in sinks.items() if isinstance(sink, HoldingSink)}
    return {name: [receipt] for name, receipt in receipts.items() if receipt is not None}


def agreements(sinks: Sinks) -> dict[str, bytes]:
    """What the tasks of the next epoch must know of the sinks."""
    known = {name: sink.agreement() for name, (_, sink) in sinks.items() if isinstance(sink, AgreeingSink)}
    return {name: agreement for name, agreement in known.items() if agreement is not None}


def settled(sinks: Sinks, epoch: int, receipts: Receipts) -> Receipts:
    """The receipts of an epoch's tasks as they are to be committed. Raises `StepError` if they do not fit together."""
    agreed = dict(receipts)
    for name, (_, sink) in sinks.items():
        if name in receipts and isinstance(sink, AgreeingSink):
            with failing(name):
                agreed[name] = sink.settle(epoch, receipts[name])
    return agreed


def joined_receipts(first: Receipts, receipts: Receipts) -> Receipts:
    """Sink -> its receipts in `first`, then those in `receipts`.

    >>> joined_receipts({"a": [b"0"]}, {"a": [b"1"], "b": [b"2"]})
    {'a': [b'0', b'1'], 'b': [b'2']}
    """
    return {name: [*first.get(name, ()), *receipts.get(name, ())] for name in (first | receipts)}


def deliver(sinks: Sinks, epoch: int, receipts: Receipts, activity: Activity) -> dict[str, float]:
    """Let every sink deliver the rows of a committed epoch, and return how many seconds each took.

    Raises the errors of sinks unchanged.
    """
    seconds = {}
    for name, (_, sink) in sinks.items():
        if sink_receipts := receipts.get(name):
            activity.begin(RunPhase.DELIVER, name)
            began = time.perf_counter()
            with naming_stored_classes(name):
                sink.deliver(epoch, sink_receipts)
            seconds[name] = time.perf_counter() - began
    return seconds


def finish(sinks: Sinks, epoch: int, ended: bool) -> None:
    """Tell every sink that the run has ended, and whether the input has.

    Each sink is told, even if another one fails. Raises the error of the first that does, with the others as notes.
    """
    outcome = f"epoch {epoch} is committed and delivered; start the same program again, which tells the sink once more"
    errors: list[Exception] = []
    for name, (_, sink) in sinks.items():
        if isinstance(sink, BeginningSink):
            try:
                with failing(name, outcome):
                    sink.finish(epoch, ended)
            except Exception as error:
                errors.append(error)
    if errors:
        for other in errors[1:]:
            errors[0].add_note(f"another sink failed, too: {other}")
        raise errors[0]
