"""Spark's daemon for Python workers (`spark.python.daemon.module`), without tracebacks of closed connections.

When a session ends, or a streaming query is stopped, Java closes the sockets of its workers. A worker that writes at
that moment fails, and Spark's own daemon prints the traceback: about one program in ten would end with it.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.runners.spark.pyspark_private import run_worker_daemon
from headrace.runners.spark.worker.process import PROCESS


def _end_quietly(worker: Callable[[], int]) -> int:
    try:
        code = worker()
    except BrokenPipeError:
        # Any code but 0 ends the process.
        code = 1
    if code:
        PROCESS.end()
    return code


if __name__ == "__main__":
    run_worker_daemon(_end_quietly)
