"""What a task receives from the tasks before it, and what it sends to those after it.

The inbox of a task of a keyed level has messages by kind. The records that a task produces are blocks for tasks of
later levels, and productions for later epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from headrace.lowlevel.checkpoint import FileChain, PendingProduction
from headrace.lowlevel.intervals.interval_map import Interval
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermarks.lateness import NO_LATENESS, Lateness
from headrace.lowlevel.watermarks.propagation import Frontier, InjectorProgress
from headrace.runners.engine.messages import COMMITTED, Control, EpochSpec, Message, MessageKind, Sender, pack, unpack
from headrace.runners.engine.productions import Productions
from headrace.runners.engine.task.host import LocalExchange
from headrace.runners.engine.task.prepared_topology import PreparedTopology

Carried = bytes | int
"""A block on its way: encoded, or the number under which `LocalExchange` has it."""


@dataclass
class Inbox:
    """Messages to one task of a keyed level, by kind."""

    blocks: list[tuple[Sender, int, int, Carried]] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    file_chains: dict[int, FileChain] = field(default_factory=dict)
    """By interval."""
    is_failed: bool = False
    """Whether a task before this one failed."""

    def take(self, message: Message) -> None:
        """Add a message."""
        _, _, kind, blob = message
        if kind == MessageKind.BLOCK:
            self.blocks.append(cast(tuple[Sender, int, int, Carried], unpack(blob)))
        elif kind == MessageKind.CONTROL:
            control = cast(Control, unpack(blob))
            self.controls.append(control)
            self.is_failed |= control.failed
        elif kind == MessageKind.FAILURE:
            self.is_failed = True
        elif kind == MessageKind.CHAIN:
            file_chain = cast(FileChain, unpack(blob))
            self.file_chains[file_chain.interval] = file_chain

    def senders(self) -> list[Sender]:
        """Every attempt of which a message has arrived, by level, index and token."""
        senders = {control.sender for control in self.controls} | {sender for sender, *_ in self.blocks}
        return sorted(senders, key=lambda sender: (sender.level, sender.index, sender.token))

    def is_mixed(self) -> bool:
        """Whether two attempts at one task, or two epochs, have sent messages: a replaced attempt still runs."""
        senders = self.senders()
        tasks = {(sender.level, sender.index) for sender in senders}
        epochs = {sender.epoch for sender in senders if sender != COMMITTED}
        return len(tasks) < len(senders) or len(epochs.union(control.spec.epoch for control in self.controls)) > 1

    def take_blocks(self, interval: int, local_exchange: LocalExchange | None = None) -> Iterator[Block]:
        """Take out the records of an interval, ordered by sender and number, not by arrival.

        Each block leaves the inbox when the iterator reaches it, as decoded records take several times the memory.
        """
        blocks = [block for block in self.blocks if block[2] == interval]
        self.blocks = [block for block in self.blocks if block[2] != interval]
        blocks.sort(key=lambda block: (block[0].level, block[0].index, block[0].token, block[1]), reverse=True)
        while blocks:
            sender, _, _, carried = blocks.pop()
            if isinstance(carried, bytes):
                yield decode_block(carried, stored=sender == COMMITTED)
            else:
                assert local_exchange is not None, "only a local exchange gives numbers to blocks"
                yield local_exchange.take(carried)

    def frontier(self, spec: EpochSpec) -> Frontier:
        """Unfinished work after the levels before this one."""
        greatest: dict[str, int] = {}
        holds: dict[str, int] = {}
        by_interval: dict[str, dict[int, int]] = {}
        for control in self.controls:
            for stream, timestamp in control.greatest.items():
                greatest[stream] = max(greatest.get(stream, MIN_TIMESTAMP), timestamp)
            for name, hold in control.holds.items():
                holds[name] = min(holds.get(name, hold), hold)
            for name, interval_holds in control.by_interval.items():
                by_interval.setdefault(name, {}).update(interval_holds)
        return Frontier(advanced(spec, greatest, self.lateness()), holds, spec.before.pending, by_interval)

    def lateness(self) -> dict[str, Lateness]:
        """Injector stream -> how late the records of this epoch were."""
        by_stream: dict[str, Lateness] = {}
        for control in self.controls:
            for stream, lateness in control.lateness.items():
                # Tasks of level 0 report what each has read; tasks of a deeper level all report the sum.
                is_part = control.sender.level == 0 and stream in by_stream
                by_stream[stream] = by_stream[stream].plus(lateness) if is_part else lateness
        return by_stream


def advanced(spec: EpochSpec, greatest: dict[str, int], lateness: dict[str, Lateness]) -> dict[str, InjectorProgress]:
    """Injector stream -> progress after the deliveries of this epoch."""
    return {
        stream: spec.before.injectors[stream].with_delivery(
            greatest.get(stream, MIN_TIMESTAMP), watermark, has_ended, lateness.get(stream, NO_LATENESS)
        )
        for stream, (watermark, has_ended) in spec.deliveries.items()
    }


class OutgoingBlocks:
    """Takes the blocks of a task's router.

    It knows nothing of the task. A task in a reference cycle with its router would keep its records in memory until
    the next garbage collection.
    """

    def __init__(
        self, program: PreparedTopology, level: int, exchange: LocalExchange | None, productions: Productions
    ) -> None:
        self._level_of, self._level, self._exchange = program.propagation.level_of, level, exchange
        self._productions = productions
        self.pending: list[PendingProduction] = []
        """Productions for this level or an earlier one, which the next epoch processes."""
        self._sent: list[tuple[Interval, int, Carried]] = []

    def ship(self, interval: Interval, block: Block) -> None:
        """Take a block for an interval of its consumer's level."""
        level = self._level_of[block.consumer]
        if level > self._level:
            self._productions.note_sent(interval.number, block)
            self._sent += [(interval, level, carried) for carried in self._carried(block)]
            return
        for piece, data in block.pieces(stored=True):
            self.pending.append(PendingProduction(level, interval.number, piece.consumer, piece.oldest(), data))

    def _carried(self, block: Block) -> Iterable[Carried]:
        number = None if self._exchange is None else self._exchange.leave(block)
        return (data for _, data in block.pieces()) if number is None else [number]

    def receivers(self) -> set[tuple[int, int]]:
        """(level, task) of each task that gets a block."""
        return {(level, interval.owner) for interval, level, _ in self._sent}

    def messages(self, sender: Sender) -> Iterator[Message]:
        """A message for each block; the block is freed as its message leaves."""
        self._sent.reverse()
        for number in range(len(self._sent)):
            interval, level, block = self._sent.pop()
            yield (interval.owner, level, MessageKind.BLOCK, pack((sender, number, interval.number, block)))
