"""What the tasks of an epoch reported, put together; and whether their attempts fit together (paper §6.1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.checkpoint import DeltaFile
from headrace.lowlevel.metric import Cells, added
from headrace.lowlevel.sequencer import mismatched
from headrace.runners.engine.epoch import COMMITTED, Kind, Pending, Report, Row, unpack


@dataclass(slots=True)
class Outcome:
    """The reports of one epoch as one value."""

    failure: Exception | None = None
    """What user code raised, if any did."""
    mixed: str = ""
    """Which attempts do not fit together; empty if all do."""
    deltas: dict[tuple[int, int], DeltaFile] = field(default_factory=dict)
    """(level, interval) -> the delta file that its task wrote."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: Cells = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    holders: dict[str, tuple[int, bytes, str]] = field(default_factory=dict)
    wall_timers: dict[str, dict[int, int]] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=dict)
    receipts: dict[str, list[bytes]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)


def gather(rows: Iterable[Row]) -> Outcome:
    """One outcome from the rows that reached the driver."""
    outcome = Outcome()
    reports: list[Report] = []
    for _, _, kind, blob in rows:
        if kind == Kind.REPORT:
            reports.append(cast(Report, unpack(blob)))
        elif kind == Kind.FAILURE and outcome.failure is None:
            outcome.failure = cast(Exception, unpack(blob))
    reports.sort(key=lambda report: (report.sender.level, report.sender.index))
    outcome.mixed = mixed_attempts(reports)
    for report in reports:
        _add(outcome, report)
    return outcome


def mixed_attempts(reports: Iterable[Report]) -> str:
    """Names tasks of which one attempt was used and another is to be committed; empty if there are none.

    >>> from headrace.runners.engine.epoch import Sender
    >>> first, again = Sender(1, 0, "a"), Sender(1, 0, "b")
    >>> mixed_attempts([Report(again), Report(Sender(2, 0, "c"), consumed=[first])])
    'level 1, interval 0: attempt b is to be committed, but productions of a, b were used'
    """
    made: dict[tuple[int, int], str] = {}
    used: dict[tuple[int, int], set[str]] = {}
    for report in reports:
        made[report.sender.level, report.sender.index] = report.sender.token
        for sender in (report.sender, *report.consumed):
            if sender != COMMITTED:
                used.setdefault((sender.level, sender.index), set()).add(sender.token)
    return "; ".join(map(str, mismatched(used, made)))


def _add(outcome: Outcome, report: Report) -> None:
    sender = report.sender
    if report.delta is not None:
        outcome.deltas[sender.level, sender.index] = report.delta
    for name, counters in report.counters.items():
        sums = outcome.counters.setdefault(name, {})
        for counter, amount in counters.items():
            sums[counter] = sums.get(counter, 0) + amount
    if report.metrics:
        outcome.metrics = added(outcome.metrics, report.metrics)
    for name, size in report.sizes.items():
        outcome.sizes[name] = outcome.sizes.get(name, 0) + size
    outcome.watermarks |= report.watermarks
    for stream, timestamp in report.greatest.items():
        outcome.greatest[stream] = max(timestamp, outcome.greatest.get(stream, timestamp))
    for name, receipt in report.receipts.items():
        outcome.receipts.setdefault(name, []).append(receipt)
    outcome.pending += report.pending
    _add_marks(outcome, report)


def _add_marks(outcome: Outcome, report: Report) -> None:
    interval = report.sender.index
    for name, (mark, key) in report.holds.items():
        outcome.holds.setdefault(name, {})[interval] = mark.timestamp
        holder = (mark.timestamp, key, mark.tag)
        outcome.holders[name] = min(holder, outcome.holders.get(name, holder))
    for name, due in report.wall_timers.items():
        outcome.wall_timers.setdefault(name, {})[interval] = due
