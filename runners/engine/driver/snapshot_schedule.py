"""When snapshots of state are made: while epochs go on, and less often while snapshots fail (paper §7.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from headrace.lowlevel.checkpoint import FileChain, SnapshotOrder, SnapshotParts

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 64
"""Epochs without an order after a failure, at most: one after the first failure, then twice as many each time."""

Orders: TypeAlias = Sequence[tuple[SnapshotOrder, FileChain]]
"""Snapshots to make, each with the files of its state."""
Making: TypeAlias = Callable[[], "list[SnapshotParts] | None"]
"""Returns the ordered snapshots, None while they are not ready. Raises the error that prevented them."""


class SnapshotSchedule:
    """The snapshots of one driver. State is safe without them: a failure is a warning, and makes a restart slower.

    >>> schedule = SnapshotSchedule(lambda orders: lambda: [])
    >>> schedule.order(1, lambda: [])
    >>> schedule.take_ready(2)
    []
    """

    def __init__(self, begin: Callable[[Orders], Making]) -> None:
        self._begin = begin
        self._making: Making | None = None
        self._failures = 0
        self._next = 0
        """The first epoch after which something may be ordered."""

    def order(self, epoch: int, due: Callable[[], Orders]) -> None:
        """Order the snapshots that are `due` after an epoch, unless some are being made."""
        if self._making is not None or epoch < self._next or not (orders := due()):
            return
        try:
            self._making = self._begin(orders)
        except Exception as error:
            self._failed(epoch, error)

    def take_ready(self, epoch: int) -> list[SnapshotParts]:
        """Take the snapshots that are ready, for the commit of this epoch."""
        if self._making is None:
            return []
        try:
            if (snapshots := self._making()) is None:
                return []
        except Exception as error:
            self._failed(epoch, error)
            return []
        if self._failures:
            _log.warning("snapshots are made again, after %d that failed", self._failures)
        self._making, self._failures = None, 0
        return snapshots

    def forget(self) -> None:
        """Forget the snapshots that are being made: they are of an earlier topology."""
        self._making = None

    def _failed(self, epoch: int, error: Exception) -> None:
        pause = min(1 << self._failures, _LONGEST_PAUSE)
        self._making, self._next = None, epoch + pause + 1
        self._failures += 1
        if self._failures == 1:
            _log.warning(
                "no snapshot could be made of the state as of epoch %d; nothing is lost, but until one succeeds, a "
                "restart reads all changes since the last one, and their files are not deleted. The run goes on "
                "and tries again after longer and longer pauses, without another warning\n%s: %s",
                *(epoch, type(error).__name__, error),
            )
        else:
            _log.info("snapshot failed %d times in a row, next after %d epochs: %s", self._failures, pause, error)
