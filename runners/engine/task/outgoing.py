"""The records that a task produces: blocks for tasks of later levels, and productions for later epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.lowlevel.checkpoint import PendingProduction
from headrace.lowlevel.intervals.interval_map import Interval
from headrace.lowlevel.records.block import Block
from headrace.runners.engine.messages import Message, MessageKind, Sender, pack
from headrace.runners.engine.productions import Productions
from headrace.runners.engine.task.host import LocalExchange
from headrace.runners.engine.task.inbox import Carried
from headrace.runners.engine.task.prepared_topology import PreparedTopology


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
            self._productions.sent(interval.number, block)
            self._sent += [(interval, level, carried) for carried in self._carried(block)]
            return
        for piece, data in block.pieces():
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
