"""What can be said of a pipeline's driver from its last commit, the time, and the process that its lease names."""

from __future__ import annotations

import os
import re
import socket

from headrace.lowlevel.storage.places import hidden
from headrace.runners.engine.activity import Doing, RunPhase
from headrace.runners.reporting.figures import LONG_SECONDS
from headrace.ui.snapshots.snapshot import Phase, Status

_LONGEST = 300
"""Characters of a line of an error's message, at most."""
QUIET_SECONDS = 30.0
"""Seconds without a commit after which a driver is said to wait, or to be silent."""

FINISHED = "The input has ended, and nothing is left to do."
NOT_BEGUN = "Nothing is committed yet. The first epoch appears here when it is."
NO_EPOCH = "This run has committed no epoch yet. The first one appears here when it is."
_RUNNING = "Epochs are being committed."
_DEAD = "The driver has ended before its input has; the same command goes on from the last commit."
_STOPPED = "The run was stopped before its input has ended. With a checkpoint, the same command goes on from there."
_WAITING = (
    "The driver lives. It waits for input or for a timer, or its epoch takes long: the page, terminal and metrics of "
    "the run itself say which."
)
_SILENT = "Nothing is committed. The driver waits for input, or it has ended: look for it where it was started."


def status_of(
    committed: float | None, now: float, finished: bool, alive: bool | None, taken: float | None = None
) -> Status:
    """The status of a pipeline, read from its checkpoint. Times are seconds since 1970.

    Args:
        committed: The time of the last commit; None before the first one.
        now: The time.
        finished: Whether the input has ended and nothing is left to do.
        alive: Whether the driver's process is there; None if that is not known.
        taken: When the driver took its lease; None if that is not known.

    >>> status_of(100.0, 700.0, False, False).sentence
    'The driver has ended before its input has; the same command goes on from the last commit.'
    """
    if finished:
        return Status(Phase.FINISHED, FINISHED, committed)
    if committed is None:
        return _status_before_first_commit(alive)
    if alive is False:
        return Status(Phase.DEAD, _DEAD, committed)
    if now - max(committed, taken or 0.0) < QUIET_SECONDS:
        return Status(Phase.RUNNING, _RUNNING, committed)
    return Status(Phase.WAITING, _WAITING, committed) if alive else Status(Phase.SILENT, _SILENT, committed)


def status_of_run(committed: float, now: float, doing: Doing | None) -> Status:
    """The status of a run in this process.

    Args:
        committed: The time of its last commit, seconds since 1970.
        now: The time.
        doing: What it does; None if it does not tell.

    >>> status_of_run(100.0, 160.0, Doing(RunPhase.TASKS, "Enrich", 60.0, 8, 60.0)).sentence
    "Epoch 8 has been in phase tasks, step 'Enrich', for 60 s."
    """
    if doing is None:
        return status_of(committed, now, False, True)
    if doing.phase is RunPhase.WAIT:
        phase = Phase.RUNNING if now - committed < QUIET_SECONDS else Phase.WAITING
        return Status(phase, _RUNNING if phase is Phase.RUNNING else sentence_of(doing.sentence), committed)
    if max(doing.seconds, doing.epoch_seconds or 0.0) < LONG_SECONDS:
        return Status(Phase.RUNNING, _RUNNING, committed)
    return Status(Phase.BUSY, sentence_of(doing.sentence), committed)


def sentence_of(text: str) -> str:
    """A text as a sentence.

    >>> sentence_of("epoch 8 runs")
    'Epoch 8 runs.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def status_of_end(error: BaseException | None, is_complete: bool, committed: float | None = None) -> Status:
    """The status of a run that has ended here.

    Args:
        error: What the run ended with; None if it ended by itself, or was told to.
        is_complete: Whether its input had ended.
        committed: The time of its last commit, seconds since 1970; None if it had none.

    >>> status_of_end(ValueError("no score"), False).sentence
    'The run has failed with ValueError: no score'
    """
    if isinstance(error, Exception):
        # What is between the first line and the last is a traceback.
        first, *rest = hidden(str(error)).splitlines() or [""]
        told = "\n".join(line[:_LONGEST] for line in (f": {first}" if first else "", *rest[-1:]))
        return Status(Phase.FAILED, f"The run has failed with {type(error).__name__}{told}", committed)
    is_finished = error is None and is_complete
    return Status(Phase.FINISHED if is_finished else Phase.DEAD, FINISHED if is_finished else _STOPPED, committed)


def _status_before_first_commit(alive: bool | None) -> Status:
    if alive is False:
        return Status(Phase.DEAD, "The driver has ended before its first commit; the same command begins anew.")
    return Status(Phase.EMPTY, NOT_BEGUN)


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
