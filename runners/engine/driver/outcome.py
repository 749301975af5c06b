"""The reports of all tasks of an epoch as one value, checked for attempts that do not fit together (paper §6.1.2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.checkpoint import DeltaFile, PendingProduction
from headrace.lowlevel.intervals.balancer import Load
from headrace.lowlevel.intervals.sequencer import mismatched
from headrace.lowlevel.metric import MetricValues, add_metrics
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Holder
from headrace.lowlevel.watermarks.lateness import Lateness
from headrace.runners.engine.messages import (
    COMMITTED,
    EpochSpec,
    Exchange,
    Message,
    MessageKind,
    Sender,
    TaskReport,
    add_counters,
    mismatches,
    unpack,
)

LevelTask = tuple[int, int]
"""Level and index of a task."""


@dataclass(slots=True)
class Outcome:
    """The reports of one epoch as one value."""

    failure: Exception | None = None
    """The error of user code; None if no task failed."""
    mixed: str = ""
    """A description of attempts that do not fit together; empty if all do."""
    deltas: dict[tuple[int, int], DeltaFile] = field(default_factory=dict)
    """(level, interval) -> delta file."""
    loads: dict[int, dict[int, Load]] = field(default_factory=dict)
    """Level -> interval -> load."""
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    metrics: MetricValues = field(default_factory=dict)
    dominant: dict[str, dict[bytes, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    holders: dict[str, Holder] = field(default_factory=dict)
    wall_timers: dict[str, dict[int, int]] = field(default_factory=dict)
    greatest: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: MIN_TIMESTAMP))
    ahead: dict[str, int] = field(default_factory=dict)
    lateness: dict[str, Lateness] = field(default_factory=lambda: defaultdict(Lateness))
    findings: dict[str, list[object]] = field(default_factory=dict)
    receipts: dict[str, list[bytes]] = field(default_factory=dict)
    pending: list[PendingProduction] = field(default_factory=list)

    def records_held(self) -> int:
        """Records, or partial sums of records, that tasks held at once: input of keyed computations, rows of sinks."""
        inputs = sum(load.records for loads in self.loads.values() for load in loads.values())
        return inputs + sum(counters.get("rows", 0) for counters in self.counters.values())


def gather(messages: Iterable[Message], spec: EpochSpec) -> Outcome:
    """Combine the reports and errors in the messages to the driver."""
    outcome = Outcome()
    reports: list[tuple[Sender, bytes]] = []
    for _, _, kind, blob in messages:
        if kind == MessageKind.REPORT:
            reports.append(cast(tuple[Sender, bytes], unpack(blob)))
        elif kind == MessageKind.FAILURE and outcome.failure is None:
            outcome.failure = cast(Exception, unpack(blob))
    reports.sort(key=lambda report: (report[0].level, report[0].index))
    exchanges = []
    for _, contents in reports:
        # Unpacked one after the other: all at once, those of many tasks would be more than all that the driver has.
        report = cast(TaskReport, unpack(contents))
        _add(outcome, report)
        exchanges.append(report.exchange)
    outcome.mixed = mixed_attempts(exchanges)
    # Where an executor lets one task do all, that task names the attempts that it has consumed.
    if spec.has_many_tasks and not outcome.mixed and not (exchanges and all(each.is_alone for each in exchanges)):
        outcome.mixed = mismatches(exchanges, len(spec.intervals), spec.tasks)
    return outcome


def mixed_attempts(reports: Iterable[Exchange]) -> str:
    """Describe tasks of which one attempt was consumed and another is to be committed; empty if there are none.

    >>> from headrace.runners.engine.messages import Exchange, Sender
    >>> first, again = Sender(1, 0, "a"), Sender(1, 0, "b")
    >>> mixed_attempts([Exchange(again), Exchange(Sender(2, 0, "c"), consumed=[first])])
    'level 1, task 0: attempt b is to be committed, but productions of a, b were used'
    """
    reported: dict[LevelTask, Sender] = {}
    used: dict[LevelTask, set[str]] = {}
    for report in reports:
        own, own_task = report.sender, (report.sender.level, report.sender.index)
        if (other := reported.get(own_task, own)) != own:
            # Both attempts reported; only one state of the interval can be committed, even if both have one name.
            used.setdefault(own_task, set()).update((other.token, own.token))
        reported[own_task] = own
        for task, names in _used_by(report).items():
            used.setdefault(task, set()).update(names)
    return "; ".join(map(str, mismatched(used, {task: sender.name for task, sender in reported.items()})))


def _used_by(report: Exchange) -> dict[LevelTask, set[str]]:
    """Task -> names of its attempts that made this report, or whose productions the report consumed.

    If productions of two attempts at a task were consumed, some records may have come twice: then the attempts have
    different names even if each could replace the other.
    """
    by_task: dict[LevelTask, list[Sender]] = {}
    for sender in (report.sender, *report.consumed):
        if sender != COMMITTED:
            by_task.setdefault((sender.level, sender.index), []).append(sender)
    return {
        task: {sender.name for sender in senders} if len(senders) == 1 else {sender.token for sender in senders}
        for task, senders in by_task.items()
    }


def _add(outcome: Outcome, report: TaskReport) -> None:
    sender = report.sender
    outcome.deltas.update(((sender.level, interval), file) for interval, file in report.deltas.items())
    outcome.loads.setdefault(sender.level, {}).update(report.loads)
    for name, counters in report.counters.items():
        add_counters(outcome.counters, name, counters)
    if report.metrics:
        add_metrics(outcome.metrics, report.metrics)
    for name, counts in report.dominant.items():
        add_counts(outcome.dominant.setdefault(name, {}), counts)
    for name, size in report.sizes.items():
        outcome.sizes[name] = outcome.sizes.get(name, 0) + size
    outcome.watermarks |= report.watermarks
    for stream, timestamp in report.greatest.items():
        outcome.greatest[stream] = max(timestamp, outcome.greatest[stream])
    for stream, timestamp in report.ahead.items():
        outcome.ahead[stream] = max(timestamp, outcome.ahead.get(stream, timestamp))
    for stream, lateness in report.lateness.items():
        outcome.lateness[stream] = outcome.lateness[stream].plus(lateness)
    for stream, findings in report.findings.items():
        outcome.findings.setdefault(stream, []).extend(findings)
    for name, receipt in report.receipts.items():
        outcome.receipts.setdefault(name, []).append(receipt)
    outcome.pending += report.pending
    _add_marks(outcome, report)


def _add_marks(outcome: Outcome, report: TaskReport) -> None:
    for (name, interval), holder in report.holds.items():
        outcome.holds.setdefault(name, {})[interval] = holder[0]
        oldest = outcome.holders.get(name)
        if oldest is None or holder < oldest:
            outcome.holders[name] = Holder(*holder)
    for (name, interval), due in report.wall_timers.items():
        outcome.wall_timers.setdefault(name, {})[interval] = due


def add_counts(total: dict[bytes, int], counts: Mapping[bytes, int]) -> None:
    """Add counts to `total`.

    >>> total = {b"a": 2}
    >>> add_counts(total, {b"a": 1, b"b": 3})
    >>> total
    {b'a': 3, b'b': 3}
    """
    for key, count in counts.items():
        total[key] = total.get(key, 0) + count
