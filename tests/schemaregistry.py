"""A schema registry for tests: what confluent-kafka's client asks of one, over HTTP, in this process."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANGS_UP = 0
"""The status of a registry that closes the connection instead of answering."""


class Registry:
    """Schemas by number, and the requests so far; with a `status` it answers nothing else."""

    def __init__(self, url: str) -> None:
        self.config = {"url": url, "max.retries": 0}
        self.schemas: list[dict[str, object]] = []
        self.requests: list[str] = []
        self.status: int | None = None

    def answer(self, request: str, body: dict[str, object]) -> tuple[int, object]:
        """The status and body of an answer."""
        self.requests.append(request)
        if self.status is not None:
            return self.status, {"error_code": 50001, "message": "out of order"}
        if re.match(r"POST /subjects/[^/]+/versions", request):
            if body not in self.schemas:
                self.schemas.append(body)
            return 200, {"id": self.schemas.index(body) + 1, **body}
        found = re.match(r"GET /schemas/ids/(\d+)", request)
        if found and 0 < int(found[1]) <= len(self.schemas):
            return 200, self.schemas[int(found[1]) - 1]
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def running() -> Iterator[Registry]:
    """A registry that runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, object]) -> None:
            status, answer = registry.answer(f"{self.command} {self.path}", body)
            if status == HANGS_UP:
                return
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = Registry(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    yield registry
    server.shutdown()
    thread.join()
    server.server_close()
