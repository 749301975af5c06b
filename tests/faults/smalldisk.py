"""A small disk that can be filled to the last byte: a tmpfs in a mount namespace of the test's own processes.

Where the system allows no namespaces, a limit on the size of files stands for it: every write of a byte fails then.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_BLOCK = 1 << 16
_BALLAST = "ballast"
_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
_ALLOWED = "HEADRACE_TEST_MAY_MOUNT"


def run_on_small_disk(*program: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """A program's module and arguments, run where it may mount a small disk, if the system allows that."""
    allowed = may_mount()
    environment = os.environ | ({_ALLOWED: "1"} if allowed else {})
    command = [*(_NAMESPACE if allowed else ()), sys.executable, "-m", *program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def may_mount() -> bool:
    """Whether this user can have a mount namespace."""
    with suppress(OSError):
        tried = subprocess.run([*_NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
        return tried.returncode == 0
    return False


def fill(folder: Path) -> None:
    """Take all that is left of the small disk at a folder."""
    with (folder / _BALLAST).open("ab", buffering=0) as ballast, suppress(OSError):
        while ballast.write(bytes(_BLOCK)) == _BLOCK:
            pass
        while ballast.write(b"\0"):
            pass
    assert not shutil.disk_usage(folder).free


class TmpfsDisk:
    """A real one; its errors are ENOSPC."""

    kind = "ENOSPC"

    def __init__(self, folder: Path, size: str = "8m") -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
        self._folder = folder

    def fill(self) -> None:
        """Not a byte more can be written."""
        fill(self._folder)

    def free(self) -> None:
        """There is space again."""
        (self._folder / _BALLAST).unlink(missing_ok=True)


class LimitedDisk:
    """No file of this process may grow; its errors are EFBIG."""

    kind = "EFBIG"

    def __init__(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def fill(self) -> None:
        """Not a byte can be written."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._hard))

    def free(self) -> None:
        """Files can grow again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard, self._hard))


Disk = TmpfsDisk | LimitedDisk


def small_disk(folder: Path) -> Disk:
    """A disk at that folder, for this process and its children."""
    folder.mkdir(parents=True, exist_ok=True)
    return TmpfsDisk(folder) if _ALLOWED in os.environ else LimitedDisk()
