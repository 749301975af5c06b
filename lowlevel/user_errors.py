"""Errors of user code: makes the `StepError` with step, key, value and traceback."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import dirname, join, sep
from types import FrameType

from headrace.lowlevel.errors import HeadraceError, StepError, StoredClassError
from headrace.lowlevel.user_exceptions import packed

FULL = "HEADRACE_FULL_TRACEBACKS"
"""Environment variable: with `1`, tracebacks keep all frames."""


def failed_step(error: Exception, step: str, key: object, value: object) -> StepError:
    """The error that ends the run. A `StepError` keeps its step and value, and gets the key of its own step.

    The key of another step, such as that which spreads elements behind a side input, is no key of the user's.
    """
    if isinstance(error, StoredClassError):
        return error.of_step(step)
    if isinstance(error, StepError):
        named_key = key if error.key is None and error.step == step else error.key
        return StepError(error.step, named_key, error.value, error.cause, error.raised, error.outcome)
    return StepError(step, key, value, own_traceback(error), packed(error))


@contextmanager
def failing(step: str, outcome: str | None = None) -> Iterator[None]:
    """Turn an exception of a source's or a sink's code into `StepError` with the label; others of headrace pass.

    The error says what is committed: nothing of the epoch, unless `outcome` says otherwise.
    """
    try:
        with naming_stored_classes(step):
            yield
    except HeadraceError:
        raise
    except Exception as error:
        failed = failed_step(error, step, None, None)
        failed.outcome = outcome or failed.outcome
        raise failed from error


@contextmanager
def naming_stored_classes(step: str) -> Iterator[None]:
    """Add the label to the error for a class of stored data that is gone; other errors pass unchanged."""
    try:
        yield
    except StoredClassError as error:
        raise error.of_step(step) from error.__cause__


def own_traceback(error: BaseException, whole: bool = False) -> str:
    """The traceback from the first frame of user code on, without frames of the engine that say nothing to a user.

    An error with which the engine refuses something says in its message what is wrong, so the frames behind the last
    one of user code are left out. Any other error may be a fault of the engine: without user code it has all frames.
    With `whole`, or the environment variable `FULL`, no frames are left out behind the first one of user code.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not whole and os.environ.get(FULL) != "1" and _is_refusal(error):
        while frames and not is_users(frames[-1].filename):
            frames.pop()
    names = [frame.filename for frame in frames]
    otherwise = len(frames) if isinstance(error, HeadraceError) else 0
    inner = next((i for i, name in enumerate(names) if not is_engine(name)), otherwise)
    inner = next((i for i, name in enumerate(names) if is_users(name)), inner)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[inner:])] if frames[inner:] else []
    return "".join([*lines, *traceback.format_exception_only(error)])


def _is_refusal(error: BaseException) -> bool:
    """Whether the engine has raised an error by a `raise` of its own, with a message for the user."""
    last = error.__traceback__
    if last is None or isinstance(error, AssertionError):
        return False
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code
    return is_engine(code.co_filename) and code.co_code[last.tb_lasti] == _RAISE


_PACKAGE = dirname(dirname(__file__))
_LAYERS = ("lowlevel", "options", "runners", "sdk")
_ENGINE = tuple(join(folder, layer) + sep for folder in (_PACKAGE, "headrace") for layer in _LAYERS)
"""Prefixes of the file names of the engine's code; those of generated code begin with the package's name."""
_RAISE = dis.opmap["RAISE_VARARGS"]
_LIBRARY = sysconfig.get_path("stdlib") + sep


def is_engine(filename: str) -> bool:
    """Whether a file name is that of the engine's own code, generated code included."""
    return filename.startswith(_ENGINE)


def is_users(filename: str) -> bool:
    """Whether a file name is neither the engine's nor the standard library's, which the engine calls."""
    is_library = filename.startswith((_LIBRARY, "<frozen")) and f"-packages{sep}" not in filename
    return not is_library and not is_engine(filename)


def users_line() -> tuple[str, int] | None:
    """File and number of the line of the program that is executed; None if none of its code is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None
