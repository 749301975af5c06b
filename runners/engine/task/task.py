"""The body of every task: rows in, rows out, nothing visible until the driver commits (paper §6.1, §6.2).

Level 0 reads splits and runs inline computations; a deeper level runs the keyed computations of one interval. Both
are plain generators over rows, so that every runner runs the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol, cast

from headrace.lowlevel.balance import Load
from headrace.lowlevel.checkpoint import CopyPlan, DeltaFile
from headrace.lowlevel.deadletter import DEAD_LETTERS
from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.failure import failed_step, own_traceback
from headrace.lowlevel.injector import Split, TellingSplit
from headrace.lowlevel.intervals import Interval, Wants, everything
from headrace.lowlevel.lateness import NO_LATENESS, Lateness
from headrace.lowlevel.metric import Collector, at
from headrace.lowlevel.parcel import Parcel, sample
from headrace.lowlevel.portions import are_worth_portions, portions
from headrace.lowlevel.production import Router
from headrace.lowlevel.record import Batch
from headrace.lowlevel.softstate import StateCache
from headrace.lowlevel.state import Copy, Delta
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.worker import Bundle, Commit, Worker
from headrace.runners.engine.beside import Call, Release
from headrace.runners.engine.epoch import (
    DRIVER,
    Control,
    EpochSpec,
    Kind,
    Pending,
    Report,
    Row,
    Sender,
    Work,
    pack,
    unpack,
)
from headrace.runners.engine.handed import Handed
from headrace.runners.engine.inbox import Carried, Inbox
from headrace.runners.engine.outlet import Outlet
from headrace.runners.engine.program import Program
from headrace.runners.engine.shape import Shape


class Host(Protocol):
    """What a task needs of the process that it runs in."""

    @property
    def states(self) -> StateCache | None:
        """Decoded state that the process keeps from task to task; None where none is kept."""

    @property
    def handed(self) -> Handed | None:
        """Where parcels are left for later tasks, if the whole epoch runs in this process; else None."""

    @property
    def step_begins(self) -> Callable[[str], None] | None:
        """What is told the name of each step whose code begins to run; None if nobody wants to know."""

    def token(self) -> str:
        """A fresh attempt token."""

    def copy(self, computation: str, level: int, interval: int, epoch: int, plan: CopyPlan | None) -> Copy:
        """The committed state of an interval as of the epoch before `epoch`; `plan` says what it is made of."""

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Keep an interval's deltas where a commit can name them; None where nothing is written."""

    def seconds(self) -> float:
        """How long this process has worked, for telling what an interval costs."""

    def beside(self, release: Release) -> Call:
        """Begin to release weak productions, beside the task."""


@dataclass
class _Task:
    """Output side of one task: what it ships, stages and reports."""

    program: Program
    host: Host
    spec: EpochSpec
    sender: Sender
    sent: list[tuple[Interval, int, Carried]] = field(default_factory=list)
    """Interval, level and parcel of what goes to other tasks."""
    wants: Wants = everything
    """What of it is to be sent."""

    def __post_init__(self) -> None:
        self.metrics = Collector(self.spec.clock, self.host.step_begins)
        self.report = Report(self.sender, metrics=self.metrics.cells)
        self.lateness = self.report.lateness
        self.by_interval: dict[str, dict[int, int]] = {}
        program = self.program
        self.shape = Shape(program.weak_streams)
        level_of = program.propagation.level_of
        self.router = Router(
            program.topology,
            {name: self.spec.intervals[level] for name, level in level_of.items()},
            self._ship,
            program.inline_order,
            program.places,
            self.spec.committed,
            self.wants,
        )

    def _ship(self, interval: Interval, parcel: Parcel) -> None:
        level = self.program.propagation.level_of[parcel.consumer]
        if level > self.sender.level:
            self.shape.add(interval.number, parcel)
            self.sent += [(interval, level, carried) for carried in self._carried(parcel)]
            return
        for piece, data in parcel.pieces():
            self.report.pending.append(Pending(interval.number, level, piece.consumer, piece.oldest(), data))

    def _carried(self, parcel: Parcel) -> Iterable[Carried]:
        number = None if self.host.handed is None else self.host.handed.leave(parcel)
        return (data for _, data in parcel.pieces()) if number is None else [number]

    def finish(self, holds: dict[str, int]) -> Iterator[Row]:
        """Send everything that is left; returns the rows: parcels, each let go as it leaves, controls, the report."""
        self.router.close()
        for name, buried in self.router.buried.items():
            self.report.add_counters(name, {DEAD_LETTERS: buried})
        for name, late in self.router.late.items():
            self.report.add_counters(name, {"late": late})
        Outlet(self.program.topology.sinks, self.program.releasing, self.host, self.spec, self.report).let_out(
            self.router.staged
        )
        told = (self.report.greatest, holds, self.lateness, self.by_interval)
        if shape := self.shape.of(self.spec.epoch, *told):
            self.sender = self.report.sender = replace(self.sender, shape=shape)
        rows: list[Row] = []
        if self.sender.level < len(self.program.levels):
            rows += self.to_next_level(pack(Control(self.spec, self.sender, *told)))
        rows.append((self.home(), DRIVER, Kind.REPORT, pack(self.report)))
        return chain(self._parcels(), rows)

    def _parcels(self) -> Iterator[Row]:
        self.sent.reverse()
        for number in range(len(self.sent)):
            interval, level, parcel = self.sent.pop()
            yield (interval.owner, level, Kind.PARCEL, pack((self.sender, number, interval.number, parcel)))

    def home(self) -> int:
        """Where its report passes."""
        return self.sender.index % self.spec.tasks

    def to_next_level(self, control: bytes) -> Iterator[Row]:
        """A control row for each task of the next level."""
        return ((task, self.sender.level + 1, Kind.CONTROL, control) for task in range(self.spec.tasks))

    def fail(self, error: Exception) -> Iterator[Row]:
        """Tell the driver what went wrong, and the tasks behind that there is nothing to do."""
        if not isinstance(error, HeadraceError):
            error = StepError("engine", None, None, own_traceback(error))
        yield (self.home(), DRIVER, Kind.FAILURE, pack(error))
        if self.sender.level < len(self.program.levels):
            yield from self.to_next_level(pack(Control(self.spec, self.sender, failed=True)))


def read_splits(
    program: Program, host: Host, index: int, rows: Iterable[Row], wants: Wants = everything
) -> Iterator[Row]:
    """Level 0: read splits, run inline computations, send records to the intervals of their keys, if it `wants` to."""
    task: _Task | None = None
    for row in rows:
        if row[2] != Kind.SPLIT:
            yield row
            continue
        work = cast(Work, unpack(row[3]))
        if task is None:
            task = _Task(program, host, work.spec, Sender(0, index, host.token()), wants=wants)
        if work.stream is not None and work.split is not None:
            try:
                with task.metrics, at(work.stream):
                    program.setup()
                    inject(task.router, task.report, work.stream, _measured(task, work.stream, work.split))
                if isinstance(work.split, TellingSplit):
                    task.report.told.setdefault(work.stream, []).append(work.split.told())
            except Exception as error:
                yield from task.fail(error)
                return
    if task is not None:
        yield from _finished(task, dict)


def inject(router: Router, report: Report, stream: str, batches: Iterable[Batch]) -> None:
    """Bring batches into the topology, noting how many records there are and how far they reach."""
    counters = report.counters.setdefault(stream, {"records": 0})
    for batch in batches:
        if len(batch):
            counters["records"] += len(batch)
            report.greatest[stream] = max(report.greatest.get(stream, MIN_TIMESTAMP), batch.greatest())
            router.emit(stream, batch)


def _measured(task: _Task, stream: str, split: Split) -> Iterator[Batch]:
    """The split's batches; on the way it is noted how late their records are, if a consumer asks for that."""
    if stream not in task.program.propagation.asked or task.spec.before.injectors[stream].delay is None:
        return _reading(task, stream, split)
    return _measuring(task, stream, _reading(task, stream, split))


def _measuring(task: _Task, stream: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    greatest = task.spec.before.injectors[stream].greatest
    for batch in batches:
        if len(batch):
            seen = Lateness.of(batch.instants(), greatest)
            task.lateness[stream] = task.lateness.get(stream, NO_LATENESS).plus(seen)
            greatest = max(greatest, batch.greatest())
        yield batch


def _reading(task: _Task, stream: str, split: Split) -> Iterator[Batch]:
    """The split's batches; what reading raises is the injector's failure, not that of a step behind it."""
    try:
        if task.program.topology.injectors[stream].record_ids:
            yield from _with_ids(split.read())
        else:
            yield from split.read()
    except HeadraceError:
        raise
    except Exception as error:
        raise failed_step(error, stream, None, None) from error


def _with_ids(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of an injector that promises an id for each record. Raises `ValueError` if some have none."""
    for batch in batches:
        if len(batch) and batch.ids is None:
            raise ValueError(
                f"the injector has record_ids=True, but {len(batch)} of its records come without ids: what comes twice "
                "would count twice; give each of its batches ids, or leave record_ids out"
            )
        yield batch


def _finished(task: _Task, run: Callable[[], dict[str, int]]) -> Iterator[Row]:
    try:
        with task.metrics:
            rows = task.finish(run())
    except Exception as error:
        yield from task.fail(error)
        return
    yield from rows


def run_level(program: Program, host: Host, level: int, index: int, rows: Iterable[Row]) -> Iterator[Row]:
    """A task of a keyed level: run its computations on its intervals' records, and send on what they produce."""
    inbox = Inbox()
    for row in rows:
        if row[1] == level:
            inbox.take(row)
        else:
            yield row
    if not inbox.controls:
        return
    spec = inbox.controls[0].spec
    task = _Task(program, host, spec, Sender(level, index, host.token()))
    torn = inbox.torn()
    if torn:
        # No user code sees it: the driver will give the epoch up, and weak productions would not wait for that.
        task.report.consumed = inbox.senders()
        yield (task.home(), DRIVER, Kind.REPORT, pack(task.report))
    if torn or any(control.failed for control in inbox.controls):
        if level < len(program.levels):
            failed = pack(Control(spec, task.sender, failed=True))
            yield from task.to_next_level(failed)
        return
    yield from _finished(task, lambda: _run_computations(task, inbox))


def _run_computations(task: _Task, inbox: Inbox) -> dict[str, int]:
    program, spec, report = task.program, task.spec, task.report
    program.setup()
    report.consumed = inbox.senders()
    frontier = inbox.frontier(spec)
    report.greatest = {stream: progress.greatest for stream, progress in frontier.injectors.items()}
    watermarks = program.propagation.inputs(frontier, spec.before, spec.committed)
    level = task.sender.level
    report.watermarks = {name: watermarks[name] for name in program.levels[level - 1]}
    for interval in spec.intervals[level].owned(task.sender.index):
        began = task.host.seconds()
        load = _run_interval(task, interval.number, inbox)
        report.loads[interval.number] = load._replace(seconds=task.host.seconds() - began)
    own: dict[str, int] = {}
    for (name, _), (mark, _) in report.holds.items():
        own[name] = min(mark.timestamp, own.get(name, mark.timestamp))
    task.lateness = inbox.lateness()
    task.by_interval = frontier.by_interval | _by_interval(task)
    return frontier.holds | own


def _by_interval(task: _Task) -> dict[str, dict[int, int]]:
    """The oldest hold of each of the task's intervals, of computations of which a consumer asks for that."""
    program, held = task.program, task.report.holds
    if not program.propagation.spread:
        return {}
    numbers = [interval.number for interval in task.spec.intervals[task.sender.level].owned(task.sender.index)]
    asked = program.propagation.spread.intersection(program.levels[task.sender.level - 1])
    return {
        name: {n: held[name, n][0].timestamp if (name, n) in held else MAX_TIMESTAMP for n in numbers} for name in asked
    }


def _run_interval(task: _Task, interval: int, inbox: Inbox) -> Load:
    """All computations of the level on one interval; returns what that comes to, but not how long it took."""
    spec, level, plan = task.spec, task.sender.level, inbox.plans.get(interval)
    # Before records are decoded: what brings a copy up to date takes room, too, and gives it back.
    copies = {name: task.host.copy(name, level, interval, spec.epoch, plan) for name in task.report.watermarks}
    bundles, records, places = _bundles(task, interval, inbox)
    deltas: dict[str, Delta] = {}
    state = 0
    for name, copy in copies.items():
        # Its records go with the bundle, before the delta is made into bytes.
        commit = _run_one(task, name, interval, bundles.pop(name, Bundle()), copy)
        size = copy.size()
        task.report.sizes[name] = task.report.sizes.get(name, 0) + size
        state += size
        if commit.delta:
            deltas[name] = commit.delta
    if deltas:
        file = task.host.save(spec.epoch, task.sender, interval, deltas)
        if file is not None:
            task.report.deltas[interval] = file
    return Load(records, state, 0.0, places)


def _bundles(task: _Task, interval: int, inbox: Inbox) -> tuple[dict[str, Bundle], int, tuple[int, ...]]:
    """What came for an interval by computation, how many records that are, and where they lie if that is asked for."""
    came: dict[str, list[Parcel]] = {}
    records = 0
    places: tuple[int, ...] = ()
    sampled = interval in task.spec.sampled.get(task.sender.level, ())
    for parcel in inbox.parcels_of(interval, task.host.handed):
        records += len(parcel)
        if sampled:
            places += sample([parcel])
        came.setdefault(parcel.consumer, []).append(parcel)
    return {name: _bundle(task, name, parcels) for name, parcels in came.items()}, records, places


def _bundle(task: _Task, name: str, parcels: list[Parcel]) -> Bundle:
    """What came for a computation, in the form that it takes."""
    if name in task.program.by_columns:
        return Bundle(parcels=parcels)
    if are_worth_portions(parcels):
        return Bundle(more=portions(parcels))
    bundle = Bundle()
    while parcels:
        parcels.pop(0).unpack(bundle)
    return bundle


def _run_one(task: _Task, name: str, interval: int, bundle: Bundle, copy: Copy) -> Commit:
    """One computation on one interval; its counters, holds and timers go into the report."""
    report, program, spec = task.report, task.program, task.spec
    bundle.watermark_before = spec.committed.get(name, MIN_TIMESTAMP)
    bundle.watermark, bundle.wall_time = report.watermarks[name], spec.clock
    bundle.epoch, bundle.interval = spec.epoch, interval
    place, partial = program.topology.keyed[name], program.partial[name]
    worker = Worker(place, copy, task.router.emit, spec.id_slacks, partial, task.host.states)
    commit = worker.run(bundle)
    report.add_counters(name, commit.counters)
    if commit.hold is not None:
        key = commit.holder or commit.delta.keys.get(commit.hold.row) or copy.key(commit.hold.row) or b""
        report.holds[name, interval] = (commit.hold, key)
    if commit.next_wall_timer is not None:
        report.wall_timers[name, interval] = commit.next_wall_timer
    return commit
