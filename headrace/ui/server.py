"""Serves the page by uvicorn in a thread of its own, until it is told to stop."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Sequence
from threading import Thread
from typing import TYPE_CHECKING, Self

from headrace.runners.reporting.reporter import port_error
from headrace.ui.access import Access
from headrace.ui.application import Application
from headrace.ui.pipelines import Pipeline

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
