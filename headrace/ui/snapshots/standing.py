"""What can be said of a pipeline's driver from its last commit, the time, and the process that its lease names."""

from __future__ import annotations

from headrace.lowlevel.storage.places import hidden
from headrace.runners.engine.activity import Doing, RunPhase
from headrace.runners.reporting.figures import LONG_SECONDS
from headrace.ui.snapshots.snapshot import Phase, Standing

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


def standing_of(
    committed: float | None, now: float, finished: bool, alive: bool | None, taken: float | None = None
) -> Standing:
    """The standing of a pipeline, read from its checkpoint. Times are seconds since 1970.

    Args:
        committed: The time of the last commit; None before the first one.
        now: The time.
        finished: Whether the input has ended and nothing is left to do.
        alive: Whether the driver's process is there; None if that is not known.
        taken: When the driver took its lease; None if that is not known.

    >>> standing_of(100.0, 700.0, False, False).sentence
    'The driver has ended before its input has; the same command goes on from the last commit.'
    """
    if finished:
        return Standing(Phase.FINISHED, FINISHED, committed)
    if committed is None:
        return _not_begun(alive)
    if alive is False:
        return Standing(Phase.DEAD, _DEAD, committed)
    if now - max(committed, taken or 0.0) < QUIET_SECONDS:
        return Standing(Phase.RUNNING, _RUNNING, committed)
    return Standing(Phase.WAITING, _WAITING, committed) if alive else Standing(Phase.SILENT, _SILENT, committed)


def standing_of_run(committed: float, now: float, doing: Doing | None) -> Standing:
    """The standing of a run in this process.

    Args:
        committed: The time of its last commit, seconds since 1970.
        now: The time.
        doing: What it does; None if it does not tell.

    >>> standing_of_run(100.0, 160.0, Doing(RunPhase.TASKS, "Enrich", 60.0, 8, 60.0)).sentence
    "Epoch 8 has been in phase tasks, step 'Enrich', for 60 s."
    """
    if doing is None:
        return standing_of(committed, now, False, True)
    if doing.phase is RunPhase.WAIT:
        phase = Phase.RUNNING if now - committed < QUIET_SECONDS else Phase.WAITING
        return Standing(phase, _RUNNING if phase is Phase.RUNNING else sentence_of(doing.sentence), committed)
    if max(doing.seconds, doing.epoch_seconds or 0.0) < LONG_SECONDS:
        return Standing(Phase.RUNNING, _RUNNING, committed)
    return Standing(Phase.BUSY, sentence_of(doing.sentence), committed)


def sentence_of(text: str) -> str:
    """A text as a sentence.

    >>> sentence_of("epoch 8 runs")
    'Epoch 8 runs.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def standing_of_end(error: BaseException | None, is_complete: bool, committed: float | None = None) -> Standing:
    """The standing of a run that has ended here.

    Args:
        error: What the run ended with; None if it ended by itself, or was told to.
        is_complete: Whether its input had ended.
        committed: The time of its last commit, seconds since 1970; None if it had none.

    >>> standing_of_end(ValueError("no score"), False).sentence
    'The run has failed with ValueError: no score'
    """
    if isinstance(error, Exception):
        # What is between the first line and the last is a traceback.
        first, *rest = hidden(str(error)).splitlines() or [""]
        told = "\n".join(line[:_LONGEST] for line in (f": {first}" if first else "", *rest[-1:]))
        return Standing(Phase.FAILED, f"The run has failed with {type(error).__name__}{told}", committed)
    is_finished = error is None and is_complete
    return Standing(Phase.FINISHED if is_finished else Phase.DEAD, FINISHED if is_finished else _STOPPED, committed)


def _not_begun(alive: bool | None) -> Standing:
    if alive is False:
        return Standing(Phase.DEAD, "The driver has ended before its first commit; the same command begins anew.")
    return Standing(Phase.EMPTY, NOT_BEGUN)
