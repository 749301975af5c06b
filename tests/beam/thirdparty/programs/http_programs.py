"""Programs with the sinks of tinybird, for a server of ours that keeps what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import apache_beam as beam
import pytest
from tinybird.beam import WriteToTinybird, WriteToTinybirdBatch

ROWS = [{"name": f"n{each}", "points": each, "share": each / 3} for each in range(50)]


class Keeper(BaseHTTPRequestHandler):
    """Keeps the lines of CSV that are posted."""

    lines: list[str]

    def do_POST(self) -> None:
        """Keep a body's lines, without those of the form's frame."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.lines.extend(line for line in body.splitlines() if line.startswith('"'))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """The address of a server and what it has got."""
    keeper = type("KeeperOfOne", (Keeper,), {"lines": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), keeper) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", keeper.lines
        httpd.shutdown()
        thread.join()


@pytest.mark.parametrize("batched", [False, True])
def test_rows(server: tuple[str, list[str]], batched: bool, record_property: object) -> None:
    address, lines = server
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(ROWS)
        if batched:
            sink = WriteToTinybirdBatch(address, "token", "points", ["name", "points", "share"], batch_size=8)
        else:
            rows |= beam.BatchElements(min_batch_size=5, max_batch_size=5)
            sink = WriteToTinybird(address, "token", "points", ["name", "points", "share"])
        rows | sink
    record_property("lines", sorted(lines))
    assert len(lines) == len(ROWS)
