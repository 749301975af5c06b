"""The pace at which a page may work, so that work for those who look takes a fixed share of the time at most."""

from __future__ import annotations

from collections.abc import Callable


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
