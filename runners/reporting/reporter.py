"""The interface of reporters, which show the progress of a run, and the choice of one for a terminal or a log."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console

from headrace.runners.engine.activity import Activity, ActivityReporter
from headrace.runners.engine.options import EpochProgress


class Reporter(Protocol):
    """Shows the progress of a run between `__enter__` and `__exit__`; the run calls it after each commit.

    A reporter that is an `ActivityReporter`, too, can also show what the run does while no epoch ends.

    >>> class Printed:
    ...     def __enter__(self):
    ...         return self
    ...     def __call__(self, progress):
    ...         print("epoch", progress.epoch)
    ...     def __exit__(self, *error):
    ...         print("over")
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners import RunOptions
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10)]))
    >>> with Printed() as progress:
    ...     result = LocalRunner().run_topology(topology, RunOptions(progress=progress))
    epoch 1
    over
    """

    def __enter__(self) -> Self: ...

    def __call__(self, progress: EpochProgress) -> None:
        """Take the progress after an epoch."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Reporters:
    """A reporter that passes the progress on to several reporters.

    >>> import io
    >>> from headrace.runners.reporting import ProgressLog
    >>> reporters = Reporters(ProgressLog(io.StringIO()), ProgressLog(io.StringIO()))

    Args:
        reporters: The reporters, which are entered in this order and left in the opposite order.
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

    def begin(self, activity: Activity) -> None:
        """Pass what the run does on to all reporters that show it."""
        for reporter in self._reporters:
            if isinstance(reporter, ActivityReporter):
                reporter.begin(activity)

    def __call__(self, progress: EpochProgress) -> None:
        """Pass the progress after an epoch on to all reporters."""
        for reporter in self._reporters:
            reporter(progress)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)


def reporter_for(console: Console, details: bool = False) -> Reporter:
    """Return a display that is redrawn in place if the console is a terminal, else a reporter of lines of JSON.

    `details` is that of `ProgressLog`; the display ignores it.

    >>> import io
    >>> type(reporter_for(Console(file=io.StringIO()))).__name__
    'ProgressLog'
    """
    from headrace.runners.reporting.display import ProgressDisplay
    from headrace.runners.reporting.log import ProgressLog

    return ProgressDisplay(console) if console.is_terminal else ProgressLog(console.file, details=details)
