"""What shows how far a run is; which kind suits where it is shown."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console

from headrace.runners.engine.options import Progress


class Reporter(Protocol):
    """Shows a run between `__enter__` and `__exit__`; called with the progress after each commit."""

    def __enter__(self) -> Self: ...

    def __call__(self, progress: Progress) -> None:
        """Take in an epoch."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Reporters:
    """Several as one.

    Args:
        reporters: Entered in this order, and left in the opposite one.
    """

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for reporter in self._reporters:
                entered.enter_context(reporter)
            self._entered = entered.pop_all()
        return self

    def __call__(self, progress: Progress) -> None:
        """Take in an epoch."""
        for reporter in self._reporters:
            reporter(progress)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.close()


def reporter_for(console: Console, details: bool = False) -> Reporter:
    """A display that is drawn in place where there is a terminal, lines of JSON elsewhere, if wanted with `details`.

    >>> import io
    >>> type(reporter_for(Console(file=io.StringIO()))).__name__
    'ProgressLog'
    """
    from headrace.runners.reporting.display import ProgressDisplay
    from headrace.runners.reporting.log import ProgressLog

    return ProgressDisplay(console) if console.is_terminal else ProgressLog(console.file, details=details)
