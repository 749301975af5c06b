"""Errors of a run without the engine's own frames: the program's are what its author can do something about."""

from __future__ import annotations

import logging
import os
from types import TracebackType

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.failure import is_engine

FULL = "HEADRACE_FULL_TRACEBACKS"
"""Environment variable: with `1`, tracebacks keep all frames."""
_log = logging.getLogger(__name__)


def shorten(error: HeadraceError) -> None:
    """Leave an error of the engine, or of user code in a step, the frames of the program alone.

    The whole traceback is logged at level DEBUG. Frames are only left out if their file is the engine's own.
    """
    if os.environ.get(FULL) != "1":
        _log.debug("the whole traceback", exc_info=error)
        error.__traceback__ = own_frames(error.__traceback__)


def own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that are the engine's."""
    frames = []
    while traceback is not None:
        if not is_engine(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept
