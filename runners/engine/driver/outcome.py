"""What the tasks of an epoch reported, put together; and whether their attempts fit together (paper §6.1.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.balance import Load
from headrace.lowlevel.checkpoint import DeltaFile
from headrace.lowlevel.lateness import Lateness
from headrace.lowlevel.metric import Cells, added
from headrace.lowlevel.sequencer import mismatched
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.engine.epoch import COMMITTED, Kind, Pending, Report, Row, Sender, unpack

Place = tuple[int, int]
"""Level and interval of a task."""


@dataclass(slots=True)
class Outcome:
    """The reports of one epoch as one value."""

    failure: Exception | None = None
    """What user code raised, if any did."""
    mixed: str = ""
    """Which attempts do not fit together; empty if all do."""
    deltas: dict[tuple[int, int], DeltaFile] = field(default_factory=dict)
    """(level, interval) -> the delta file that its task wrote."""
    loads: dict[int, dict[int, Load]] = field(default_factory=dict)
    """Level -> interval -> what it cost."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: Cells = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    holders: dict[str, tuple[int, bytes, str]] = field(default_factory=dict)
    wall_timers: dict[str, dict[int, int]] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: MIN_TIMESTAMP))
    lateness: dict[str, Lateness] = field(default_factory=lambda: defaultdict(Lateness))
    told: dict[str, list[object]] = field(default_factory=dict)
    receipts: dict[str, list[bytes]] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)

    def kept(self) -> int:
        """How many records, or sums of some, tasks held at once: what reached keyed computations, and rows of sinks."""
        arrived = sum(load.records for loads in self.loads.values() for load in loads.values())
        return arrived + sum(counters.get("rows", 0) for counters in self.counters.values())


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
    'level 1, task 0: attempt b is to be committed, but productions of a, b were used'
    """
    made: dict[Place, Sender] = {}
    used: dict[Place, set[str]] = {}
    for report in reports:
        own = report.sender
        if (other := made.get((own.level, own.index), own)) != own:
            # Two attempts say that they are the one; their state cannot both be committed, weak or not.
            used.setdefault((own.level, own.index), set()).update((other.token, own.token))
        made[own.level, own.index] = own
        for place, names in _used_by(report).items():
            used.setdefault(place, set()).update(names)
    return "; ".join(map(str, mismatched(used, {place: _name(sender) for place, sender in made.items()})))


def _used_by(report: Report) -> dict[Place, set[str]]:
    """Attempts whose productions one task took in, itself among them.

    One that has productions of two attempts at a place may have some of them twice: there none stands for the other.
    """
    by_place: dict[Place, list[Sender]] = {}
    for sender in (report.sender, *report.consumed):
        if sender != COMMITTED:
            by_place.setdefault((sender.level, sender.index), []).append(sender)
    return {
        place: {_name(sender) for sender in senders} if len(senders) == 1 else {sender.token for sender in senders}
        for place, senders in by_place.items()
    }


def _name(sender: Sender) -> str:
    """What attempts have in common that may stand for each other."""
    return sender.shape or sender.token


def _add(outcome: Outcome, report: Report) -> None:
    sender = report.sender
    outcome.deltas.update(((sender.level, interval), file) for interval, file in report.deltas.items())
    outcome.loads.setdefault(sender.level, {}).update(report.loads)
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
        outcome.greatest[stream] = max(timestamp, outcome.greatest[stream])
    for stream, lateness in report.lateness.items():
        outcome.lateness[stream] = outcome.lateness[stream].plus(lateness)
    for stream, told in report.told.items():
        outcome.told.setdefault(stream, []).extend(told)
    for name, receipt in report.receipts.items():
        outcome.receipts.setdefault(name, []).append(receipt)
    outcome.pending += report.pending
    _add_marks(outcome, report)


def _add_marks(outcome: Outcome, report: Report) -> None:
    for (name, interval), (mark, key) in report.holds.items():
        outcome.holds.setdefault(name, {})[interval] = mark.timestamp
        holder = (mark.timestamp, key, mark.tag)
        outcome.holders[name] = min(holder, outcome.holders.get(name, holder))
    for (name, interval), due in report.wall_timers.items():
        outcome.wall_timers.setdefault(name, {})[interval] = due
