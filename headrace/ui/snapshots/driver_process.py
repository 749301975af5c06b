"""Whether the driver of a checkpoint lives, as far as its lease tells: a process of this machine can be asked for."""

from __future__ import annotations

import os
import re
import socket

_OWNER = re.compile(r" on (?P<host>\S+), process (?P<process>\d{1,10})$")


def is_alive(owner: str, host: str | None = None) -> bool | None:
    """Whether the process that a lease names is there; None if it is on another machine, or none is named.

    The number of a process that has ended may be that of another one, so True means "perhaps".

    >>> is_alive(f"local runner on {socket.gethostname()}, process {os.getpid()}")
    True
    >>> is_alive("SparkRunner on elsewhere.example, process 1") is None, is_alive("test") is None
    (True, True)
    """
    found = _OWNER.search(owner)
    if found is None or found["host"] != (socket.gethostname() if host is None else host):
        return None
    try:
        os.kill(int(found["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
