"""The host of tasks: what the process in which they run offers to them, different from runner to runner."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from headrace.lowlevel.checkpoint import DeltaFile, FileChain
from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.metric import Where
from headrace.lowlevel.processing.state_cache import StateCache
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import ColumnBlock
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.runners.engine.background_calls import PendingCall, Release
from headrace.runners.engine.messages import Sender

_MOST_BYTES = 256 << 20
"""Size of the largest block that is passed on without encoding."""


MOST_SECONDS = 2.0
"""Seconds after which a task gives up an epoch that runs in one task, so that several tasks can share its work."""


class TooMuchError(HeadraceError, RuntimeError):
    """An epoch is too large for one task. Nothing of it is committed; the executor runs it again, level by level."""


class LocalExchange:
    """Blocks of one attempt at an epoch. Nobody changes a block, so sender and receiver may share it.

    >>> from headrace.lowlevel.records.block import Block
    >>> LocalExchange().leave(Block("consumer", "stream"))
    """

    def __init__(self) -> None:
        self._blocks: list[ColumnBlock] = []
        self._began, self._records = time.perf_counter(), 0

    def count_read(self, records: int, most: int) -> None:
        """Count records that were read of an epoch that may have `most` of them. Raises `TooMuchError`."""
        self._records += records
        if self._records > most or time.perf_counter() - self._began > MOST_SECONDS:
            raise TooMuchError("an epoch has too many records for one task")

    def leave(self, block: Block) -> int | None:
        """Add a block; returns its number, or None if it must be encoded: a block of Python values, or very large."""
        if not isinstance(block, ColumnBlock) or block.batch.table.nbytes > _MOST_BYTES:
            return None
        self._blocks.append(block)
        return len(self._blocks) - 1

    def take(self, number: int) -> Block:
        """The block of that number."""
        return self._blocks[number]


class Host(Protocol):
    """What a process offers to the tasks that it runs."""

    @property
    def states(self) -> StateCache | None:
        """Decoded state that the process caches from task to task; None without a cache."""

    @property
    def local_exchange(self) -> LocalExchange | None:
        """Passes blocks on to later tasks if the whole epoch runs in this process; else None."""

    @property
    def step_begins(self) -> Callable[[Where], None] | None:
        """Called before the code of each step runs, and with an empty text after it; None for no calls."""

    def token(self) -> str:
        """A fresh attempt token."""

    def state_store(
        self, computation: str, level: int, interval: int, epoch: int, file_chain: FileChain | None
    ) -> StateStore:
        """The state of an interval as of the epoch before `epoch`, which is in the files of the chain."""

    def save(self, epoch: int, sender: Sender, interval: int, deltas: dict[str, Delta]) -> DeltaFile | None:
        """Write the deltas of an interval to a file that a commit can name; None for a run without files."""

    def seconds(self) -> float:
        """Working time of this process so far; the difference before and after is the cost of an interval."""

    def begin_release(self, release: Release) -> PendingCall:
        """Begin to release rows to a sink while the task goes on."""

    def failed(self, error: Exception) -> None:
        """Note that the task fails with this error; its causes may show that state in this process is damaged."""
