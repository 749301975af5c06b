"""Processes that a test has started, and those that they have: Java, Spark's daemons and workers.

All carry a mark in their environment. So they are found also when their parent is gone, and when they are stopped:
whatever fails in a test, none of them stays behind.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "HEADRACE_STARTED_BY_TEST"
_LONGEST_SECONDS = 60


def marked(folder: Path) -> dict[str, str]:
    """What the environment of a process needs to be among those of `folder`, a folder of one test."""
    return {_MARK: str(folder)}


def started(folder: Path) -> list[int]:
    """The processes of `folder` that have not ended."""
    mark = f"{_MARK}={folder}".encode()
    return [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and mark in _environment(process).split(b"\0")
    ]


def _environment(process: Path) -> bytes:
    # It may be gone by now, or somebody else's.
    with suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


def kill_all(folder: Path) -> None:
    """Kill the processes of `folder`, and those that they start meanwhile, until there are none."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    while processes := started(folder):
        assert time.monotonic() < deadline, f"processes that SIGKILL does not end: {processes}"
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


@contextmanager
def none_stays_behind(folder: Path) -> Iterator[None]:
    """Kill what is left of the processes of `folder` when the block ends, also if it fails."""
    try:
        yield
    finally:
        kill_all(folder)
