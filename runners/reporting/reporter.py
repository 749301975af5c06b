"""The interface of reporters, which show the progress of a run, and what several kinds of them have in common.

A reporter that serves figures listens at an address: `PORT` or `HOST:PORT`.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from headrace.lowlevel.errors import HeadraceError
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


class LastProgress:
    """A reporter that keeps the last progress and what the run does, for readers that ask for them at any time."""

    def __init__(self) -> None:
        self._last: EpochProgress | None = None
        self._activity: Activity | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self, activity: Activity) -> None:
        """Show what a run does from now on, and the figures of the commit that it goes on from."""
        self._activity, self._last = activity, None

    def __call__(self, progress: EpochProgress) -> None:
        """Keep the progress after an epoch."""
        self._last = progress

    def __exit__(self, *error: object) -> None:
        """Keep the last progress, as it may be read once more when the program ends."""

    @property
    def _progress(self) -> EpochProgress | None:
        """The last progress; before the first epoch, that of the commit that the run goes on from."""
        return self._last or (None if self._activity is None else self._activity.recovered)


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


LOOPBACK = "127.0.0.1"
"""The default host: only this machine can connect."""
_LAST_PORT = 65_535


class PortError(HeadraceError, OSError):
    """Nothing can be served at the given address. Nothing has run.

    >>> from headrace.runners.reporting.prometheus import PrometheusReporter
    >>> with PrometheusReporter(0) as first, PrometheusReporter(first.port):
    ...     pass
    Traceback (most recent call last):
      ...
    headrace.runners.reporting.reporter.PortError: ...
    """


def port_error(error: OSError, served: str, host: str, port: int | None) -> PortError:
    """The error of a port that cannot be opened; `served` is what was to be served there."""
    return PortError(
        f"{served} cannot be served at {host}, port {port} ({error.strerror or error}); give another port, or 0 for "
        "one that is free, and an address of this machine"
    )


def host_and_port(address: str, served: str, example: int) -> tuple[str, int]:
    """Parse an address; without a host, it is that of this machine only.

    Args:
        address: `PORT` or `HOST:PORT`; an IPv6 address is in brackets.
        served: What is to be served, for the message of an error.
        example: A port for that message.

    Raises:
        ValueError: The text is not such an address.

    >>> host_and_port("9464", "metrics", 9464), host_and_port("[::1]:0", "metrics", 9464)
    (('127.0.0.1', 9464), ('::1', 0))
    """
    host, colon, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > _LAST_PORT or (colon and not host):
        raise ValueError(
            f"{served} cannot be served at {address!r}; give a port (0 to {_LAST_PORT}), or HOST:PORT, such as "
            f"{example} or 0.0.0.0:{example}"
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
