"""A reporter that serves the page of the run which it reports."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.reporter import LOOPBACK, host_and_port
from headrace.ui.pipelines import RunningPipeline
from headrace.ui.server import PageServer

PORT = 8765
"""The port that examples name."""


class PageReporter:
    """Serves a page about a run while the run goes on; pass the reporter to the run as the option `progress`.

    The page shows the graph with the figures of each step, watermarks over time, epochs by part, and, if the run has a
    checkpoint, what holds watermarks back, key intervals, stored state and the pictures of a recorded run. While nobody
    looks, nothing is computed but one sample of the figures a second.

    Args:
        port: TCP port that is open between `__enter__` and `__exit__`; 0 for one that is free.
        host: Name or address of the interface to serve at. By default only programs of this machine can connect; where
            others can, the address has a random token.
        checkpoint: Directory or URL of the run's checkpoint.
        checkpoint_key: The secret that the checkpoint is signed with; None for that of the environment.
        topology: Makes the topology, for the graph of a run without a checkpoint.
        title: Name of the pipeline on the page.

    Raises:
        ImportError: The extra `ui` is not installed.
        PortError: The port cannot be opened when the reporter is entered.

    >>> with PageReporter(title="scores") as page:  # and a run of Pipeline(..., progress=page) in the block
    ...     page.address.rpartition(":")[0]
    'http://127.0.0.1'
    """

    def __init__(
        self,
        port: int = 0,
        host: str = LOOPBACK,
        *,
        checkpoint: str | None = None,
        checkpoint_key: str | None = None,
        topology: Callable[[], Topology] | None = None,
        title: str = "pipeline",
    ) -> None:
        self._pipeline = RunningPipeline(title, checkpoint, checkpoint_key, topology)
        self._server = PageServer([self._pipeline], host, port)

    @property
    def address(self) -> str:
        """The address to open, with the token if there is one; its port is known when the reporter is entered."""
        return self._server.address

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def begin(self, activity: Activity) -> None:
        """Show what a run does while an epoch, or the wait for one, takes long."""
        self._pipeline.begin(activity)

    def __call__(self, progress: EpochProgress) -> None:
        """Note the progress after an epoch, for the next request."""
        self._pipeline.note(progress)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipeline.end(error)
        self._server.show_end()
        self._server.__exit__(kind, error, trace)


def page_address(address: str) -> tuple[str, int]:
    """Parse the address of a page, `PORT` or `HOST:PORT`. Raises ValueError for another text.

    >>> page_address("8765")
    ('127.0.0.1', 8765)
    """
    return host_and_port(address, "the page", PORT)
