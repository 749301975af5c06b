"""Errors of a run as the program sees them: of the class that user code raised, without the frames of the engine."""

from __future__ import annotations

import logging
import os
from types import TracebackType
from typing import NoReturn

from headrace.lowlevel.errors import HeadraceError, StepError
from headrace.lowlevel.user_errors import FULL, as_raised, is_engine, is_users

_log = logging.getLogger("headrace.sdk.tracebacks")


def raise_as_users(error: StepError) -> NoReturn:
    """Raise the error of a step as an instance also of the class that user code raised."""
    typed_error = as_raised(error)
    if typed_error is error:
        raise error
    raise typed_error.with_traceback(error.__traceback__) from typed_error.__cause__


def shorten(error: HeadraceError) -> None:
    """Remove the frames of the engine from the traceback of an error of the engine, or of user code in a step.

    The whole traceback is logged at level DEBUG.
    """
    if os.environ.get(FULL) != "1":
        _log.debug("the whole traceback", exc_info=error)
        error.__traceback__ = own_frames(error.__traceback__)


def own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the engine, and of what the engine calls in the standard library."""
    frames, in_engine = [], False
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        in_engine |= is_engine(name)
        if is_users(name) or not in_engine:
            frames.append(traceback)
        traceback = traceback.tb_next
    shortened: TracebackType | None = None
    for frame in reversed(frames):
        shortened = TracebackType(shortened, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shortened
