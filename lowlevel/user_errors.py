"""Errors of user code: makes the `StepError` with step, key, value and traceback, and carries it to the program.

A `StepError` names the step, the key and the value. If possible, the error that `run` raises is also an instance of the
class that user code raised, so that `except ValueError` around a run works as in Beam.
"""

from __future__ import annotations

import dis
import inspect
import os
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os.path import dirname, join, sep
from types import FrameType
from typing import cast

import cloudpickle

from headrace.lowlevel.errors import HeadraceError, StepError, StoredClassError, sendable

_HEAP = 1 << 9
"""Flag of classes that are defined in Python."""
_OWN = {"step", "key", "value", "cause", "raised", "outcome", "__notes__"}
"""Attributes of `StepError`, and notes, which are in its text."""
_APART = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that control iteration, so they would end a caller's iteration instead of reporting an error."""
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


def packed(error: BaseException) -> bytes | None:
    """Pickle class, arguments and attributes of an exception; None if the class cannot be pickled.

    Arguments and attributes that cannot be pickled are replaced by their representation.
    """
    state = {name: sendable(value) for name, value in vars(error).items()}
    state |= {name: sendable(value) for name, value in _member_values(error)}
    try:
        return cast(bytes, cloudpickle.dumps((type(error), tuple(map(sendable, error.args)), state)))
    except Exception:
        return None


def unpacked(data: bytes | None) -> BaseException | None:
    """Make the exception of `packed`, without calling its constructor; None if its class cannot be loaded."""
    if data is None:
        return None
    try:
        return _exception(*cloudpickle.loads(data))
    except Exception:
        return None


def as_raised(error: StepError) -> StepError:
    """The error as an instance of the class that user code raised as well, with the original exception as its cause.

    The error itself is returned if its exception cannot be unpacked, or if its class cannot be a second base.

    >>> from headrace.lowlevel.user_errors import failed_step
    >>> error = as_raised(failed_step(KeyError("red"), "Look up", None, 5))
    >>> isinstance(error, KeyError), isinstance(error, StepError), error.step, error.__cause__
    (True, True, 'Look up', KeyError('red'))
    """
    original = unpacked(error.raised)
    if original is None:
        return error
    if _may_be(type(original)) and not isinstance(error, type(original)):
        # Some classes cannot be combined with another base, or do not accept its attributes.
        with suppress(Exception):
            error = _typed(error, original)
    error.__cause__ = original
    return error


def _may_be(kind: type[BaseException]) -> bool:
    """Whether the run may raise this class. Errors of this package say how a run ended, so most are excluded."""
    ours = issubclass(kind, HeadraceError) and not issubclass(kind, TypeError)
    return issubclass(kind, Exception) and not issubclass(kind, _APART) and not ours


def _typed(error: StepError, original: BaseException) -> StepError:
    state = {name: value for name, value in vars(original).items() if name not in _OWN}
    state |= dict(_member_values(original))
    typed = cast(StepError, _exception(_both(type(original)), original.args, state))
    StepError.__init__(typed, error.step, error.key, error.value, error.cause, error.raised, error.outcome)
    return typed


def _both(kind: type[BaseException]) -> type[BaseException]:
    """A subclass of `StepError` and the other class, with the name of `StepError`."""
    own = {"__module__": StepError.__module__, "__qualname__": StepError.__qualname__, "__reduce__": _reduce}
    return types.new_class(StepError.__name__, (StepError, kind), exec_body=lambda body: body.update(own))


def _reduce(error: StepError) -> tuple[object, ...]:
    plain = StepError(error.step, error.key, error.value, error.cause, error.raised, error.outcome)
    return as_raised, (plain,)


def _exception(kind: type[BaseException], args: tuple[object, ...], state: dict[str, object]) -> BaseException:
    """Make an exception with these arguments and attributes, without calling its constructor."""
    built_in: type = kind
    while built_in.__flags__ & _HEAP:
        assert built_in.__base__ is not None
        built_in = built_in.__base__
    exception = cast("Callable[..., BaseException]", built_in.__new__)(kind, *args)
    exception.args = args
    for name, value in state.items():
        if name in _members(kind):
            # Read-only members were set from the arguments.
            with suppress(AttributeError):
                setattr(exception, name, value)
        else:
            vars(exception)[name] = value
    return exception


def _member_values(error: BaseException) -> Iterator[tuple[str, object]]:
    """Names and values of the members that are set: an `OSError` whose file name was set to None would tell it."""
    values = ((name, getattr(error, name, None)) for name in _members(type(error)))
    return ((name, value) for name, value in values if value is not None)


def _members(kind: type[BaseException]) -> list[str]:
    """Attributes that are stored outside of `__dict__`, such as the `errno` of an `OSError`."""
    return [
        name
        for base in kind.__mro__
        if base not in (BaseException, StepError, object)
        for name, found in vars(base).items()
        if inspect.ismemberdescriptor(found)
    ]
