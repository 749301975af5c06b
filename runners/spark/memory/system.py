"""What the engine asks of the system: memory, functions of the C library, the last start of the machine.

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

_STATM = Path("/proc/self/statm")
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_BOOT_COMMAND = ("sysctl", "-n", "kern.bootsessionuuid")


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
