"""Spark's daemon for Python workers (`spark.python.daemon.module`), without tracebacks of closed connections.

When a session ends, or a streaming query is stopped, Java closes the sockets of its workers. A worker that writes at
that moment fails, and Spark's own daemon prints the traceback: about one program in ten would end with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from headrace.lowlevel.python_private import call_with_room
from headrace.runners.spark.pyspark_private import run_worker_daemon
from headrace.runners.spark.worker.process import PROCESS, PROGRAM_PATH


def _leave_current_folder() -> None:
    """Take the current folder from the search path, where the program has it only if it says so.

    Python puts it first, as Spark starts this module by its name, so a module of the same name as one of the program's
    would be imported instead.
    """
    if PROGRAM_PATH in os.environ and not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]


def _end_quietly(worker: Callable[[], int]) -> int:
    try:
        code = call_with_room(worker)
    except BrokenPipeError:
        # Any code but 0 ends the process.
        code = 1
    if code:
        PROCESS.end()
    return code


if __name__ == "__main__":
    _leave_current_folder()
    run_worker_daemon(_end_quietly)
