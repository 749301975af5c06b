"""What a process asks of the system about its own memory, where the system is Linux."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_STATM = Path("/proc/self/statm")


def own_bytes() -> int:
    """What this process has in memory that is no page of a file; 0 where the system does not say."""
    resident, of_files = _resident()
    return resident - of_files


def file_bytes() -> int:
    """What it has in memory of files; 0 where the system does not say."""
    return _resident()[1]


def _resident() -> tuple[int, int]:
    """All of it, and that of files."""
    try:
        resident, of_files = map(int, _STATM.read_bytes().split()[1:3])
    except OSError:
        return 0, 0
    size = os.sysconf("SC_PAGESIZE")
    return resident * size, of_files * size


@cache
def c_function(name: str) -> Callable[..., int] | None:
    """Of the C library; None where it has none such, or another system's."""
    if not sys.platform.startswith("linux"):
        return None
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return found
