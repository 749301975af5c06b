"""An S3 server, which fails as it is told: `python -m tests.s3server [ADDRESS]`, by default on loopback.

It prints its port.

moto looks whether a name is taken and then writes, so that two writers at once may both get it. Requests are therefore
served one at a time here: a conditional write is one step, as S3 has it.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

CONTROL = "/_faults"
KEYS = "/_keys"
Environ = dict[str, Any]
Respond = Callable[..., Any]


@dataclass
class Fault:
    """What happens to requests of a method whose path fits a pattern, as often as `times` says."""

    method: str
    path: str
    mode: str
    """error: 503 before anything is done; error-after: 503 when it was done; lost: done, then no answer; slow."""
    times: int
    seconds: float = 0.0
    fired: int = 0


@dataclass
class Keys:
    """Keys that live some seconds; requests with others are refused."""

    seconds: float | None = None
    """None: nobody's keys are looked at."""
    ends: dict[str, float] = field(default_factory=dict)
    issued: dict[str, int] = field(default_factory=dict)
    refused: int = 0

    def issue(self, process: str) -> dict[str, object]:
        number = sum(self.issued.values())
        self.issued[process] = self.issued.get(process, 0) + 1
        key, end = f"KEY{number:06}", time.time() + (self.seconds or 0)
        self.ends[key] = end
        return {"access_key_id": key, "secret_access_key": f"secret-{key}", "token": f"token-{key}", "expires_at": end}

    def admit(self, environ: Environ) -> bool:
        if self.seconds is None:
            return True
        found = re.search(r"Credential=(\w+)/", environ.get("HTTP_AUTHORIZATION", ""))
        key = found[1] if found else ""
        if time.time() < self.ends.get(key, 0) and environ.get("HTTP_X_AMZ_SECURITY_TOKEN") == f"token-{key}":
            return True
        self.refused += 1
        return False


@dataclass
class Faulty:
    """Moto behind a lock, and faults before and after it."""

    inner: Callable[[Environ, Respond], Iterable[bytes]] = field(
        default_factory=lambda: DomainDispatcherApplication(create_backend_app)
    )
    lock: threading.Lock = field(default_factory=threading.Lock)
    faults: list[Fault] = field(default_factory=list)
    keys: Keys = field(default_factory=lambda: Keys())

    def __call__(self, environ: Environ, respond: Respond) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            return self._control(environ, respond)
        if environ["PATH_INFO"] == KEYS:
            return self._issue(environ, respond)
        if not self.keys.admit(environ):
            respond("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"]
        fault = self._fault(environ)
        if fault is None:
            return self._serve(environ, respond)
        if fault.mode == "slow":
            time.sleep(fault.seconds)
            return self._serve(environ, respond)
        if fault.mode != "error":
            self._serve(environ, lambda *_: None)
        if fault.mode == "lost":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        respond("503 Service Unavailable", [("Content-Type", "text/plain")])
        return [b"planned"]

    def _serve(self, environ: Environ, respond: Respond) -> list[bytes]:
        with self.lock:
            return list(self.inner(environ, respond))

    def _issue(self, environ: Environ, respond: Respond) -> list[bytes]:
        """PUT: from now on keys are asked for, and live so many seconds, none for the keys of anybody; POST: new keys
        for the process in the query; GET: which process has got how many, and how often old keys were refused."""
        if environ["REQUEST_METHOD"] == "PUT":
            size = int(environ["CONTENT_LENGTH"])
            self.keys = Keys(json.loads(environ["wsgi.input"].read(size)))
        answer: object = {"issued": self.keys.issued, "refused": self.keys.refused}
        if environ["REQUEST_METHOD"] == "POST":
            answer = self.keys.issue(environ["QUERY_STRING"])
        respond("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def _fault(self, environ: Environ) -> Fault | None:
        for fault in self.faults:
            if (
                fault.fired < fault.times
                and fault.method == environ["REQUEST_METHOD"]
                and re.search(fault.path, environ["PATH_INFO"])
            ):
                fault.fired += 1
                return fault
        return None

    def _control(self, environ: Environ, respond: Respond) -> list[bytes]:
        fired = [fault.fired for fault in self.faults]
        if environ["REQUEST_METHOD"] == "PUT":
            size = int(environ["CONTENT_LENGTH"])
            self.faults = [Fault(**each) for each in json.loads(environ["wsgi.input"].read(size))]
        respond("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(fired).encode()]


def main(address: str = "127.0.0.1") -> None:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server(address, 0, Faulty(), threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
