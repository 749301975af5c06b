"""Errors of user code: makes the `StepError` with step, key, value and traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import dirname, join, sep

from headrace.lowlevel.errors import HeadraceError, StepError, StoredClassError
from headrace.lowlevel.user_exceptions import packed


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


def own_traceback(error: BaseException) -> str:
    """The traceback from the first frame of user code on.

    If there is none, it has all frames; or none, as those of the engine say nothing about an error of its own.
    """
    frames = traceback.extract_tb(error.__traceback__)
    otherwise = len(frames) if isinstance(error, HeadraceError) else 0
    inner = next((i for i, frame in enumerate(frames) if not is_engine(frame.filename)), otherwise)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[inner:])] if frames[inner:] else []
    return "".join([*lines, *traceback.format_exception_only(error)])


_PACKAGE = dirname(dirname(__file__))
_LAYERS = ("lowlevel", "options", "runners", "sdk")
_ENGINE = tuple(join(folder, layer) + sep for folder in (_PACKAGE, "headrace") for layer in _LAYERS)
"""Prefixes of the file names of the engine's code; those of generated code begin with the package's name."""


def is_engine(filename: str) -> bool:
    """Whether a file name is that of the engine's own code, generated code included."""
    return filename.startswith(_ENGINE)
