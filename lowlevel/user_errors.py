"""User code that raises: which step, which key, which value, and the traceback (nothing of the epoch is committed)."""

from __future__ import annotations

import traceback
from os.path import dirname, join, sep

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.raised import packed


def failed_step(error: Exception, step: str, key: object, value: object) -> StepError:
    """The error to stop the run with. An inner step that already named itself keeps its name and gains the key."""
    if isinstance(error, StepError):
        named_key = key if error.key is None else error.key
        return StepError(error.step, named_key, error.value, error.cause, error.raised)
    return StepError(step, key, value, own_traceback(error), packed(error))


def own_traceback(error: BaseException) -> str:
    """The traceback without the engine's own frames above the user's code, so far as there are user frames."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = next((i for i, frame in enumerate(frames) if not is_engine(frame.filename)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[inner:])] if frames else []
    return "".join([*lines, *traceback.format_exception_only(error)])


_PACKAGE = dirname(dirname(__file__))
_LAYERS = ("lowlevel", "runners", "sdk")
_ENGINE = tuple(join(folder, layer) + sep for folder in (_PACKAGE, "headrace") for layer in _LAYERS)
"""Where the engine's own code is; what it generates has file names that begin with the package's name."""


def is_engine(filename: str) -> bool:
    """Whether a file is the engine's own code."""
    return filename.startswith(_ENGINE)
