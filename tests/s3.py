"""The S3 server of the tests, as a process of its own, and how a program reaches it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from urllib.request import Request, urlopen

from tests.s3server import CONTROL, KEYS

_numbers = count()


@dataclass(frozen=True)
class S3:
    """A running server."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def new_place(self) -> str:
        """An empty place in a bucket of its own."""
        bucket = f"bucket-{next(_numbers)}"
        self._request("PUT", f"/{bucket}")
        return f"s3://{bucket}/some/prefix"

    def fail(self, *faults: dict[str, object]) -> None:
        """From now on, these faults only; see `tests.s3server.Fault`."""
        self._request("PUT", CONTROL, json.dumps(faults).encode())

    def fired(self) -> list[int]:
        """How often each of the faults has happened."""
        return json.loads(self._request("GET", CONTROL))

    def ask_for_keys(self, seconds: float | None) -> None:
        """From now on only keys that the server has issued are good, for so many seconds; None for any keys."""
        self._request("PUT", KEYS, json.dumps(seconds).encode())

    def keys(self, process: int) -> dict[str, object]:
        """New keys, for a process."""
        return json.loads(self._request("POST", f"{KEYS}?{process}"))

    def key_use(self) -> tuple[dict[str, int], int]:
        """Process -> how often it has got keys; how many requests came with old or no keys."""
        told = json.loads(self._request("GET", KEYS))
        return told["issued"], told["refused"]

    def _request(self, method: str, path: str, data: bytes | None = None) -> bytes:
        with urlopen(Request(self.url + path, data, method=method), timeout=30) as answer:
            return answer.read()


def start(address: str = "127.0.0.1") -> tuple[S3, subprocess.Popen[str]]:
    """Start a server; end the process when it is no longer needed."""
    process = subprocess.Popen([sys.executable, "-m", "tests.s3server", address], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return S3(f"http://{address}:{int(process.stdout.readline())}"), process
