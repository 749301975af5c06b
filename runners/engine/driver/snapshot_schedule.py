"""When snapshots of state are ordered: beside the epochs, and ever more seldom while they fail (paper §7.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from headrace.lowlevel.checkpoint import CopyPlan, Snapshot, SnapshotOrder

_log = logging.getLogger(__name__)
_LONGEST_PAUSE = 64
"""Epochs without an order after a failure, at most: one after the first failure, then twice as many each time."""

Orders: TypeAlias = Sequence[tuple[SnapshotOrder, CopyPlan]]
"""What to make, with what makes up the state that it is to hold."""
Making: TypeAlias = Callable[[], "list[Snapshot] | None"]
"""Gives the snapshots that were ordered, None as long as they are not ready. Raises what kept them from being made."""


class Snapshots:
    """The snapshots of one driver. State is safe without them: a failure is a warning, and costs a restart time.

    >>> some = Snapshots(lambda orders: lambda: [])
    >>> some.order(1, lambda: [])
    >>> some.ready(2)
    []
    """

    def __init__(self, begin: Callable[[Orders], Making]) -> None:
        self._begin = begin
        self._making: Making | None = None
        self._failures = 0
        self._next = 0
        """The first epoch after which something may be ordered."""

    def order(self, epoch: int, due: Callable[[], Orders]) -> None:
        """Order what is `due` after an epoch, if nothing is being made."""
        if self._making is not None or epoch < self._next or not (orders := due()):
            return
        try:
            self._making = self._begin(orders)
        except Exception as error:
            self._failed(epoch, error)

    def ready(self, epoch: int) -> list[Snapshot]:
        """Snapshots made meanwhile, for the commit of this epoch to name."""
        if self._making is None:
            return []
        try:
            if (made := self._making()) is None:
                return []
        except Exception as error:
            self._failed(epoch, error)
            return []
        if self._failures:
            _log.warning("snapshots are made again, after %d that failed", self._failures)
        self._making, self._failures = None, 0
        return made

    def forget(self) -> None:
        """What is being made is of no use any more: the topology is another one."""
        self._making = None

    def _failed(self, epoch: int, error: Exception) -> None:
        pause = min(1 << self._failures, _LONGEST_PAUSE)
        self._making, self._next = None, epoch + pause + 1
        self._failures += 1
        if self._failures == 1:
            _log.warning(
                "no snapshot could be made of the state as of epoch %d; nothing is lost, but until one succeeds a "
                "restart reads all changes since the last, which are not collected either. The run goes on and tries "
                "again, ever more seldom, without saying this again\n%s: %s",
                *(epoch, type(error).__name__, error),
            )
        else:
            _log.info("snapshot failed %d times in a row, next after %d epochs: %s", self._failures, pause, error)
