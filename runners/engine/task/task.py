"""The body of every task: messages in, messages out, nothing visible until the driver commits (paper §6.1, §6.2).

Level 0 reads splits and runs inline computations; a deeper level runs keyed computations on the intervals that the task
owns. Both are generators over messages, so that every runner runs the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

from headrace.lowlevel.coders.key_classes import MARK
from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.injectors.injector import Split, TellingSplit
from headrace.lowlevel.intervals.balancer import Load
from headrace.lowlevel.metric import Collector, at
from headrace.lowlevel.processing.bundle import Bundle, are_worth_splitting, sub_bundles
from headrace.lowlevel.processing.worker import Commit, Worker
from headrace.lowlevel.records.block import Block, dominant_key, sample
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.shuffle.router import Router
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import DEAD_LETTERS, Keyed
from headrace.lowlevel.user_errors import failed_step, own_traceback
from headrace.lowlevel.watermarks.far_future import believable
from headrace.lowlevel.watermarks.lateness import NO_LATENESS, Lateness
from headrace.runners.engine.messages import (
    DRIVER,
    NEVER,
    Control,
    EpochSpec,
    Message,
    MessageKind,
    Sender,
    TaskReport,
    Work,
    consumed_sum,
    pack,
    pack_report,
    sent_sums,
    unpack,
)
from headrace.runners.engine.task.exchange import Inbox, OutgoingBlocks
from headrace.runners.engine.task.host import Host
from headrace.runners.engine.task.prepared_topology import PreparedTopology


@dataclass
class _Task:
    """The output of one task: blocks for other tasks, rows for sinks, the report for the driver."""

    program: PreparedTopology
    host: Host
    spec: EpochSpec
    sender: Sender

    def __post_init__(self) -> None:
        self.metrics = Collector(self.spec.clock, self.host.step_begins)
        self.report = TaskReport(self.sender, metrics=self.metrics.cells, is_alone=self.spec.tasks == 1)
        self.lateness = self.report.lateness
        self.by_interval: dict[str, dict[int, int]] = {}
        program = self.program
        self.productions = program.productions(self.host.begin_release, self.spec, self.report)
        self.outgoing = OutgoingBlocks(program, self.sender.level, self.host.local_exchange, self.productions)
        self.report.pending = self.outgoing.pending
        level_of = program.propagation.level_of
        self.router = Router(
            program.topology,
            {name: self.spec.intervals[level] for name, level in level_of.items()},
            self.outgoing.ship,
            program.inline_order,
            program.key_hashes,
            self.spec.committed,
        )

    def finish(self, holds: dict[str, int]) -> Iterator[Message]:
        """Close router and sinks; returns all messages: blocks (each freed as it leaves), controls, the report."""
        self.router.close()
        for name, buried in self.router.buried.items():
            self.report.add_counters(name, {DEAD_LETTERS: buried})
        for name, late in self.router.late.items():
            self.report.add_counters(name, {"late": late})
        self.productions.send_rows(self.router.staged)
        reported = (self.report.greatest, holds, self.lateness, self.by_interval)
        if digest := self.productions.digest(*reported):
            self.sender = self.report.sender = replace(self.sender, output_digest=digest)
        messages: list[Message] = []
        if self.spec.has_many_tasks:
            self.report.sent_sums = sent_sums(self.sender, self.outgoing.receivers())
        else:
            messages += self.to_next_level(MessageKind.CONTROL, Control(self.spec, self.sender, *reported))
        messages.append((self.home(), DRIVER, MessageKind.REPORT, pack_report(self.report)))
        return chain(self.outgoing.messages(self.sender), messages)

    def home(self) -> int:
        """Number of the task of the next levels through which the report passes."""
        return self.sender.index % self.spec.tasks

    def to_next_level(self, kind: MessageKind, value: object) -> list[Message]:
        """A message for each task of the next level, if there is one."""
        if self.sender.level == len(self.program.levels):
            return []
        blob = pack(value)
        return [(task, self.sender.level + 1, kind, blob) for task in range(self.spec.tasks)]

    def stop_next_level(self) -> list[Message]:
        """Messages that tell the tasks of the next level to do nothing."""
        if self.spec.has_many_tasks:
            return self.to_next_level(MessageKind.FAILURE, None)
        return self.to_next_level(MessageKind.CONTROL, Control(self.spec, self.sender, failed=True))

    def fail(self, error: Exception) -> Iterator[Message]:
        """Report the error to the driver, and tell the tasks of the next level to do nothing."""
        self.host.failed(error)
        if not isinstance(error, HeadraceError):
            error = StepError("engine", None, None, own_traceback(error))
        yield (self.home(), DRIVER, MessageKind.FAILURE, pack(error))
        yield from self.stop_next_level()


def read_splits(program: PreparedTopology, host: Host, index: int, messages: Iterable[Message]) -> Iterator[Message]:
    """The body of a level-0 task: read splits, run inline computations, send records to intervals."""
    task: _Task | None = None
    for message in messages:
        if message[2] != MessageKind.SPLIT:
            yield message
            continue
        work = cast(Work, unpack(message[3]))
        if task is None:
            task = _Task(program, host, work.spec, Sender(0, index, host.token(), epoch=work.spec.epoch))
        if work.stream is not None and work.split is not None:
            try:
                with task.metrics, at(work.stream):
                    program.setup()
                    inject(
                        task.router,
                        task.report,
                        work.stream,
                        _measured(task, work.stream, work.split),
                        task.spec.latest.get(work.stream, MAX_TIMESTAMP),
                    )
                if isinstance(work.split, TellingSplit):
                    task.report.findings.setdefault(work.stream, []).append(work.split.told())
            except Exception as error:
                yield from task.fail(error)
                return
    if task is not None:
        yield from _finished(task, dict)


def inject(
    router: Router, report: TaskReport, stream: str, batches: Iterable[Batch], latest: int = MAX_TIMESTAMP
) -> None:
    """Emit batches to the topology; count records and note the greatest timestamp that is not after `latest`."""
    counters = report.counters.setdefault(stream, {"records": 0})
    for batch in batches:
        if len(batch):
            counters["records"] += len(batch)
            reached = batch.greatest()
            if reached > latest < MAX_TIMESTAMP:
                report.ahead[stream] = max(reached, report.ahead.get(stream, reached))
                reached, count = believable(batch.instants(), latest)
                counters["ahead"] = counters.get("ahead", 0) + count
            report.greatest[stream] = max(report.greatest.get(stream, MIN_TIMESTAMP), reached)
            router.emit(stream, batch)


def _measured(task: _Task, stream: str, split: Split) -> Iterator[Batch]:
    """The batches of the split; measures the lateness of records if a consumer needs it."""
    if stream not in task.program.propagation.asked or task.spec.before.injectors[stream].delay is None:
        return _reading(task, stream, split)
    return _measuring(task, stream, _reading(task, stream, split))


def _measuring(task: _Task, stream: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    greatest = task.spec.before.injectors[stream].greatest
    latest = task.spec.latest.get(stream, MAX_TIMESTAMP)
    for batch in batches:
        if len(batch):
            lateness = Lateness.of(batch.instants(), greatest)
            task.lateness[stream] = task.lateness.get(stream, NO_LATENESS).plus(lateness)
            greatest = max(greatest, believable(batch.instants(), latest)[0])
        yield batch


def _reading(task: _Task, stream: str, split: Split) -> Iterator[Batch]:
    """The batches of the split; an error while reading is an error of the injector, not of a later step."""
    try:
        batches = split.read()
        for batch in _with_ids(batches) if task.program.topology.injectors[stream].record_ids else batches:
            if task.host.local_exchange is not None and task.spec.most_records is not None:
                task.host.local_exchange.count_read(len(batch), task.spec.most_records)
            yield batch
    except HeadraceError:
        raise
    except Exception as error:
        raise failed_step(error, stream, None, None) from error


def _with_ids(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of an injector that promises an id for each record. Raises `ValueError` if some have none."""
    for batch in batches:
        if len(batch) and batch.ids is None:
            raise ValueError(
                f"the source has record_ids=True, but {len(batch)} of its records come without ids, so a record that "
                "comes twice would count twice; give each of its batches ids, or leave record_ids out"
            )
        yield batch


def _finished(task: _Task, run: Callable[[], dict[str, int]]) -> Iterator[Message]:
    try:
        with task.metrics:
            messages = task.finish(run())
    except Exception as error:
        yield from task.fail(error)
        return
    yield from messages


def run_level(
    program: PreparedTopology, host: Host, level: int, index: int, messages: Iterable[Message]
) -> Iterator[Message]:
    """The body of a task of a keyed level: run its computations on the task's intervals, and send productions."""
    inbox = Inbox()
    for message in messages:
        if message[1] == level:
            inbox.take(message)
        else:
            yield message
    if not inbox.controls:
        return
    spec = inbox.controls[0].spec
    task = _Task(program, host, spec, Sender(level, index, host.token(), epoch=spec.epoch))
    if spec.has_many_tasks and level < len(program.levels):
        yield (index, level + 1, MessageKind.CONTROL, pack(inbox.controls[0]))
    is_mixed = inbox.is_mixed()
    if is_mixed:
        # No user code runs: the driver gives the epoch up, but rows may be released before that.
        task.report.consumed, task.report.consumed_sum = inbox.senders(), NEVER
        yield (task.home(), DRIVER, MessageKind.REPORT, pack_report(task.report))
    if is_mixed or inbox.is_failed:
        yield from task.stop_next_level()
        return
    yield from _finished(task, lambda: _run_computations(task, inbox))


def _run_computations(task: _Task, inbox: Inbox) -> dict[str, int]:
    program, spec, report = task.program, task.spec, task.report
    program.setup()
    level = task.sender.level
    frontier = inbox.frontier(spec)
    if spec.watermarks is None:
        watermarks: Mapping[str, int] = program.propagation.inputs(frontier, spec.before, spec.committed)
        report.consumed = inbox.senders()
    else:
        watermarks = spec.watermarks
        report.consumed_sum = consumed_sum(inbox.senders(), (level, task.sender.index))
    report.greatest = {stream: progress.greatest for stream, progress in frontier.injectors.items()}
    report.watermarks = {name: watermarks[name] for name in program.levels[level - 1]}
    for interval in spec.intervals[level].owned(task.sender.index):
        began = task.host.seconds()
        load = _run_interval(task, interval.number, inbox)
        report.loads[interval.number] = load._replace(seconds=task.host.seconds() - began)
    holds: dict[str, int] = {}
    for (name, _), (timestamp, *_) in report.holds.items():
        holds[name] = min(timestamp, holds.get(name, timestamp))
    task.lateness = inbox.lateness()
    task.by_interval = frontier.by_interval | _by_interval(task)
    return frontier.holds | holds


def _by_interval(task: _Task) -> dict[str, dict[int, int]]:
    """Computation -> interval of this task -> oldest hold, for computations whose consumers need that."""
    program, holds = task.program, task.report.holds
    if not program.propagation.spread:
        return {}
    numbers = [interval.number for interval in task.spec.intervals[task.sender.level].owned(task.sender.index)]
    names = program.propagation.spread.intersection(program.levels[task.sender.level - 1])
    return {name: {n: holds[name, n][0] if (name, n) in holds else MAX_TIMESTAMP for n in numbers} for name in names}


def _run_interval(task: _Task, interval: int, inbox: Inbox) -> Load:
    """Run all computations of the level on one interval; returns the load, without the time."""
    spec, level, file_chain = task.spec, task.sender.level, inbox.file_chains.get(interval)
    # Before records are decoded, as bringing a store up to date takes memory for a while, too.
    stores = {
        name: task.host.state_store(name, level, interval, spec.epoch, file_chain) for name in task.report.watermarks
    }
    bundles, records, key_positions = _bundles(task, interval, inbox)
    deltas: dict[str, Delta] = {}
    state_bytes = 0
    for name, store in stores.items():
        # The bundle, and with it the records, is freed before the delta is encoded.
        commit = _run_computation(task, name, interval, bundles.pop(name, Bundle()), store)
        size = store.size()
        task.report.sizes[name] = task.report.sizes.get(name, 0) + size
        state_bytes += size
        if commit.delta:
            deltas[name] = commit.delta
    if deltas:
        file = task.host.save(spec.epoch, task.sender, interval, deltas)
        if file is not None:
            task.report.deltas[interval] = file
    return Load(records, state_bytes, 0.0, key_positions)


def _bundles(task: _Task, interval: int, inbox: Inbox) -> tuple[dict[str, Bundle], int, tuple[int, ...]]:
    """(Computation -> bundle of an interval, number of records, sample of their positions in the key space)."""
    blocks_of: dict[str, list[Block]] = {}
    records = 0
    key_positions: tuple[int, ...] = ()
    sampled = interval in task.spec.sampled.get(task.sender.level, ())
    for block in inbox.take_blocks(interval, task.host.local_exchange):
        records += len(block)
        if (found := dominant_key(block)) is not None:
            counts = task.report.dominant.setdefault(block.consumer, {})
            counts[found[0]] = counts.get(found[0], 0) + found[1]
        if sampled:
            key_positions += sample([block])
        blocks_of.setdefault(block.consumer, []).append(block)
    return {name: _bundle(task, name, blocks) for name, blocks in blocks_of.items()}, records, key_positions


def _bundle(task: _Task, name: str, blocks: list[Block]) -> Bundle:
    """The blocks for a computation, in the form that the computation takes."""
    for block in blocks:
        _meet_class(task.program.topology.keyed[name], block.first_key())
    if name in task.program.by_columns:
        return Bundle(blocks=blocks)
    if are_worth_splitting(blocks):
        return Bundle(more=sub_bundles(blocks))
    bundle = Bundle()
    while blocks:
        blocks.pop(0).unpack(bundle.keys)
    return bundle


def _meet_class(node: Keyed, first_key: list[bytes]) -> None:
    """Refuse keys of two classes with one qualified name, which tasks that know one each have sent."""
    for encoded in first_key:
        if encoded[:1] == MARK:
            try:
                node.key_coder.decode(encoded)
            except Exception as error:
                raise failed_step(error, node.name, encoded, None) from error


def _run_computation(task: _Task, name: str, interval: int, bundle: Bundle, store: StateStore) -> Commit:
    """Run one computation on one interval; counters, holds and timers go into the report."""
    report, program, spec = task.report, task.program, task.spec
    bundle.watermark_before = spec.committed.get(name, MIN_TIMESTAMP)
    bundle.watermark, bundle.wall_time = report.watermarks[name], spec.clock
    bundle.epoch, bundle.interval = spec.epoch, interval
    node, partial = program.topology.keyed[name], program.partial[name]
    worker = Worker(node, store, task.router.emit, spec.id_slacks, partial, task.host.states)
    commit = worker.run(bundle)
    report.add_counters(name, commit.counters)
    if commit.hold is not None:
        key = commit.holder or commit.delta.keys.get(commit.hold.key_hash) or store.key(commit.hold.key_hash) or b""
        report.holds[name, interval] = (commit.hold.timestamp, key, commit.hold.tag)
    if commit.next_wall_timer is not None:
        report.wall_timers[name, interval] = commit.next_wall_timer
    return commit
