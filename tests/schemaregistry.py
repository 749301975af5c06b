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
        self.page = '{"error_code": 50001, "message": "out of order"}'
        """The body of the answers with a `status`."""
        self._subjects: dict[str, int] = {}
        """Subject -> number of its schema; there is one version."""

    def answer(self, request: str, body: dict[str, object]) -> tuple[int, str]:
        """The status and body of an answer."""
        self.requests.append(request)
        if self.status is not None:
            return self.status, self.page
        found = self._found(request, body)
        if found is None:
            return 404, json.dumps({"error_code": 40403, "message": "Schema not found"})
        return 200, json.dumps(found)

    def _found(self, request: str, body: dict[str, object]) -> dict[str, object] | None:
        if posted := re.match(r"POST /subjects/([^/]+)/versions", request):
            if body not in self.schemas:
                self.schemas.append(body)
            self._subjects[posted[1]] = self.schemas.index(body) + 1
            return {"id": self._subjects[posted[1]], **body}
        if (version := re.match(r"GET /subjects/([^/]+)/versions/(1|latest|-1)", request)) is not None:
            number = self._subjects.get(version[1], 0)
            named: dict[str, object] = {"subject": version[1], "version": 1, "id": number}
        elif by_number := re.match(r"GET /schemas/ids/(\d+)", request):
            number, named = int(by_number[1]), {}
        else:
            return None
        return {**named, **self.schemas[number - 1]} if 0 < number <= len(self.schemas) else None


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
            content = answer.encode()
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
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
