"""Serves the page by uvicorn in a thread of its own, until it is told to stop, or as long as a run goes on."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Sequence
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress
from headrace.runners.reporting.reporter import LOOPBACK, host_and_port, port_error
from headrace.ui.access import Access
from headrace.ui.application import Application
from headrace.ui.pipelines import Pipeline, RunningPipeline

if TYPE_CHECKING:
    from headrace.ui.waiting_server import WaitingServer


_LIBRARIES = ("fast_sugiyama", "starlette", "uvicorn")
_CONNECTIONS = 64
_BACKLOG = 128
_MOMENT = 1.5
"""Seconds: a page asks for news once a second."""


def require_libraries() -> None:
    """Raise `ImportError`, which names the extra, if a library that the page needs is not installed."""
    for name in _LIBRARIES:
        try:
            found = importlib.util.find_spec(name)
        except ValueError:
            found = None
        if found is None:
            raise ImportError(f"the page of a run needs {name.replace('_', '-')}: pip install 'headrace[ui]'")


class PageServer:
    """The server of a page, which listens between `__enter__` and `__exit__`.

    Args:
        pipelines: The pipelines to show.
        host: Name or address of the interface to listen at.
        port: TCP port; 0 for one that is free.

    Raises:
        ImportError: A library of the extra `ui` is missing.
        PortError: The port cannot be opened, when the server is entered.
    """

    def __init__(self, pipelines: Sequence[Pipeline], host: str, port: int) -> None:
        require_libraries()
        self._pipelines, self._host, self.port = pipelines, host, port
        self.access = Access.for_host(host)
        """Who may read the page."""
        self._application: Application | None = None
        self._server: WaitingServer | None = None
        self._thread: Thread | None = None

    @property
    def address(self) -> str:
        """The address to open, with the token if there is one."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        if host in ("0.0.0.0", "[::]"):
            host = socket.gethostname()
        token = "" if self.access.token is None else f"?token={self.access.token}"
        return f"http://{host}:{self.port}/{token}"

    def __enter__(self) -> Self:
        from uvicorn import Config

        from headrace.ui.waiting_server import WaitingServer

        listening = self._listen()
        self.port = listening.getsockname()[1]
        self._application = Application(self._pipelines, self.access, self.port)
        config = Config(
            self._application.asgi(),
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        self._server = WaitingServer(config)
        self._thread = Thread(target=self._server.run, args=([listening],), name="headrace page", daemon=True)
        self._thread.start()
        return self

    def show_end(self) -> None:
        """Wait a moment for those who look, so that their pages show how the run has ended."""
        if self._application is not None:
            self._application.show_end(_MOMENT)

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self._host, self.port))
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            raise port_error(error, "the page", self._host, self.port) from error
        return listening

    def __exit__(self, *error: object) -> None:
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()
        if self._application is not None:
            self._application.close()


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
