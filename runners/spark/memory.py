"""Memory of worker processes: Arrow's allocator, when freed memory is returned, and what the system tells.

Most of the memory of a task with many records is garbage when the task ends. glibc keeps freed memory that is not at
the end of its heap, and Arrow's default allocator keeps freed memory for later use. Each worker would therefore stay as
large as its largest task, and memory freed in one allocator could not be used by the other.

Memory and the C library are asked of Linux only; other systems get neutral answers.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa

_STATM = Path("/proc/self/statm")
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_BOOT_COMMAND = ("sysctl", "-n", "kern.bootsessionuuid")
_GROWN = 64 << 20
"""Bytes by which a process may grow before it returns freed memory to the system."""


def own_bytes() -> int:
    """Return the resident bytes of this process that are not pages of files; 0 if the system does not report them."""
    try:
        resident, of_files = map(int, _STATM.read_bytes().split()[1:3])
    except OSError:
        return 0
    return (resident - of_files) * os.sysconf("SC_PAGESIZE")


@cache
def boot_id() -> str:
    """Return what the system calls its last start; empty if it does not say. Linux has a file, macOS a variable."""
    try:
        if sys.platform == "darwin":
            return subprocess.run(_BOOT_COMMAND, capture_output=True, text=True, check=True).stdout.strip()
        return _BOOT_FILE.read_text().strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


@cache
def c_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library by its name; None if it does not exist, or if the system is not Linux."""
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return found


def settle() -> None:
    """Let Arrow allocate by the C library, so that memory freed by either can be reused by the other."""
    pa.set_memory_pool(pa.system_memory_pool())


def give_back() -> None:
    """Return freed memory to the system if the C library can do so; this takes about a millisecond for 10 MiB."""
    if (trim := c_function("malloc_trim")) is not None:
        trim(0)


class Trim:
    """Returns memory to the system after large tasks; small tasks reuse the memory that the task before them freed.

    >>> trim = Trim()
    >>> trim.task_ends()
    """

    def __init__(self) -> None:
        self._least = 0

    def task_ends(self) -> None:
        """Return freed memory if the process has grown by more than 64 MiB since it was smallest."""
        own = own_bytes()
        if own > self._least + _GROWN:
            give_back()
            own = self._least = own_bytes()
        self._least = min(self._least, own)


TRIM = Trim()
"""The `Trim` of this worker process."""
