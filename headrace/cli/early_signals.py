"""What SIGTERM and SIGHUP do until a run takes care of them.

Without a handler they end a process, but not process 1 of a container, for which the system drops them: it would go on
until it is killed. To load the packages takes a second, so this module imports next to nothing.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def end_process(number: int, frame: FrameType | None) -> None:
    """The handler: end the process at once, as no run has begun."""
    os.write(2, f"stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)


def handle_signals() -> None:
    """Set the handler for the signals that nobody handles or ignores."""
    # Windows has no SIGHUP.
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end_process)
