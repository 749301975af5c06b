"""Takes away from a process what Windows lacks, and refuses what Windows refuses: `without_posix()`.

Call it before anything of Headrace is imported. It cannot show that a program works on Windows, only that nothing of
this is in its way: modules and functions of POSIX; folders that are opened; files that are synced without being open
for writing, or written in text mode; names with a colon; files that are renamed or removed while they are open; and
`os.kill`, which sends Ctrl-C or ends a process there.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import select
import signal
import sys
from collections.abc import Callable

MODULES = ["fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "readline", "curses"]
FUNCTIONS = {
    os: (
        "fork forkpty register_at_fork sysconf confstr mkfifo mknod getuid geteuid getgid getegid getpgid getpgrp "
        "getsid setsid killpg uname statvfs O_DIRECTORY O_NONBLOCK O_CLOEXEC O_NOFOLLOW sched_getaffinity "
        "posix_fadvise posix_fallocate "
        "chown fchown sync fdatasync nice getpriority getloadavg openpty pread pwrite readv writev sendfile"
    ),
    signal: (
        "SIGHUP SIGKILL SIGURG SIGALRM SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD SIGQUIT SIGSTOP SIGCONT pthread_kill "
        "pthread_sigmask alarm setitimer sigwait siginterrupt"
    ),
    select: "poll epoll",
}
_BINARY = 1 << 30
_FORBIDDEN = frozenset('<>:"|?*')
# Each has a build of its own for Windows, which uses what is there; so has Python itself.
_OTHERS = [
    "subprocess",
    "asyncio",
    "multiprocessing.context",
    "multiprocessing.connection",
    "concurrent.futures.thread",
    "logging.handlers",
    "random",
    "uuid",
    "tempfile",
    "shutil",
    "socketserver",
    "http.server",
    "ssl",
    "getpass",
    "zoneinfo",
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyarrow.csv",
    "obstore",
    "obstore.store",
    "datasketches",
    "cloudpickle",
    "rich.console",
    "rich.live",
    "typer",
]


class _Absent:
    """Finds no module of POSIX."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_posix() -> None:
    """Make this process like one on Windows, for the rest of its life."""
    os.O_BINARY = _BINARY  # type: ignore[attr-defined]  # as on Windows
    os.open = _opening(os.open)
    for name in _OTHERS:
        importlib.import_module(name)
    os.fsync = _syncing(os.fsync, fcntl.fcntl)
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _moving(getattr(os, name)))
    os.kill = _kill
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Absent())  # type: ignore[arg-type]  # it has what is called
    for module, names in FUNCTIONS.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def _opening(system: Callable[..., int]) -> Callable[..., int]:
    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = os.fsdecode(path)
        if os.path.isdir(name):
            raise PermissionError(errno.EACCES, "Windows opens no folder", name)
        if _FORBIDDEN & set(name):
            raise OSError(errno.EINVAL, "Windows has no such names", name)
        if flags & (os.O_WRONLY | os.O_RDWR) and flags & os.O_CREAT and not flags & _BINARY:
            raise AssertionError(f"{name} is written in text mode: each newline becomes two bytes")
        return system(path, flags & ~_BINARY, mode, dir_fd=dir_fd)

    return opened


def _syncing(system: Callable[[int], None], control: Callable[..., int]) -> Callable[[int], None]:
    def synced(descriptor: int) -> None:
        if control(descriptor, 3) & os.O_ACCMODE == os.O_RDONLY:  # F_GETFL
            raise OSError(errno.EBADF, "Windows syncs only what is opened for writing")
        system(descriptor)

    return synced


def _moving(system: Callable[..., None]) -> Callable[..., None]:
    def moved(path: str, *to: str, **more: object) -> None:
        for name in (path, *to):
            if os.path.realpath(name) in _open_files():
                raise PermissionError(errno.EACCES, "Windows keeps a file that is open", name)
            if _FORBIDDEN & set(os.fspath(name)):
                raise OSError(errno.EINVAL, "Windows has no such names", name)
        system(path, *to, **more)

    return moved


def _open_files() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return found


def _kill(process: int, number: int) -> None:
    raise AssertionError(f"os.kill({process}, {number}) sends Ctrl-C, or ends the process")
