"""Reads the last commit of a checkpoint for a page, at a pace that leaves most of the processor to others."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.lowlevel import CheckpointError, CheckpointView
from headrace.lowlevel.checkpoint import Manifest
from headrace.ui.snapshot import StoredFacts
from headrace.ui.stored_facts import stored_facts

UNREADABLE = (CheckpointError, OSError)
"""What reading a checkpoint may raise."""
SHARE_OF_RUN, SHARE_OF_OWN = 0.001, 0.2
"""Share of a processor that reading the checkpoint may take in the process of the run, and in one of its own."""
_LEAST_SECONDS = 0.9


class Pace:
    """Says when work is due again: after a least time, and later the longer the work took.

    Args:
        share: Share of one processor that the work may take.
        least: Least number of seconds between two times.
        now: Returns the seconds of a monotonic clock.
        used: Returns the seconds of processor time of this thread.

    >>> times = iter([0.5, 5.0, 20.6])
    >>> pace = Pace(share=0.01, least=1.0, now=lambda: next(times), used=iter([0.0, 0.2]).__next__)
    >>> with pace:
    ...     pass  # 0.2 seconds of processor time, a hundredth of 20
    >>> pace.is_due, pace.is_due
    (False, True)
    """

    def __init__(self, share: float, least: float, now: Callable[[], float], used: Callable[[], float]) -> None:
        self._share, self._least, self._now, self._used = share, least, now, used
        self._due = float("-inf")
        self._began = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the work may be done again."""
        return self._now() >= self._due

    def __enter__(self) -> None:
        self._began = self._used()

    def __exit__(self, *_: object) -> None:
        self._due = self._now() + max(self._least, (self._used() - self._began) / self._share)


class CheckpointReader:
    """Reads the last commit of a checkpoint, at a pace, and never writes.

    Args:
        place: Directory or URL of the checkpoint.
        key: The secret that it is signed with; None for that of the environment.
        share: Share of a processor that reading may take.
    """

    def __init__(self, place: str, key: str | None = None, share: float = SHARE_OF_OWN) -> None:
        self.place = place
        self.key = key
        self._pace = Pace(share, _LEAST_SECONDS, time.monotonic, time.thread_time)
        self._view: CheckpointView | None = None
        self._facts: StoredFacts | None = None
        self.problem = ""
        """Why it could not be read; empty if it could."""

    def open(self) -> CheckpointView:
        """The view of the last commit, read now. Raises what `UNREADABLE` lists."""
        return CheckpointView.of(self.place, checkpoint_key=self.key)

    def look(self, at_once: bool = False) -> bool:
        """Read the last commit if that is due, or at once; returns whether it was read."""
        if not (at_once or self._pace.is_due):
            return False
        with self._pace:
            before = _commit_id(self._view)
            try:
                self._view, self.problem = self.open(), ""
            except UNREADABLE as error:
                self.problem = str(error)
                return True
            if self._facts is None or _commit_id(self._view) != before:
                self._facts = stored_facts(self._view)
        return True

    @property
    def view(self) -> CheckpointView | None:
        """The last view; None before the first."""
        return self._view

    @property
    def commit(self) -> Manifest | None:
        """The last commit that was read; None if there is none."""
        return None if self._view is None else self._view.manifest

    @property
    def facts(self) -> StoredFacts | None:
        """The facts of the last commit that was read; None if there is none."""
        return self._facts


def _commit_id(view: CheckpointView | None) -> tuple[str, int, int] | None:
    """What tells a commit from all others: a new checkpoint at the same place has the same numbers."""
    if view is None or (commit := view.manifest) is None:
        return None
    return view.identity, commit.epoch, commit.generation
