"""Spark's daemon for Python workers, without a traceback for each that Java leaves: `spark.python.daemon.module`.

When a session ends, or a streaming query is stopped, Java closes the sockets of its workers. A worker that writes just
then ends with an error, and Spark's own daemon prints it: the last thing that a program says, one time in ten.
"""

from __future__ import annotations

import socket
import sys

from pyspark import daemon

_worker = daemon.worker


def _leave_quietly(sock: socket.socket, authenticated: bool) -> int:
    try:
        code = int(_worker(sock, authenticated))
    except BrokenPipeError:
        # Anything but 0 ends the process.
        code = 1
    if code and (held := sys.modules.get("headrace.runners.spark.held")) is not None:
        held.HELD.leave_all()
    return code


if __name__ == "__main__":
    daemon.worker = _leave_quietly
    daemon.manager()
