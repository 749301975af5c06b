"""Carries exceptions of user code from tasks to the program, so that `except ValueError` around a run works as in Beam.

A `StepError` names the step, the key and the value. If possible, the error that `run` raises is also an instance of the
class that user code raised.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

import cloudpickle

from headrace.lowlevel.errors import HeadraceError, StepError, sendable

_HEAP = 1 << 9
"""Flag of classes that are defined in Python."""
_OWN = {"step", "key", "value", "cause", "raised", "outcome", "__notes__"}
"""Attributes of `StepError`, and notes, which are in its text."""
_APART = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that control iteration, so they would end a caller's iteration instead of reporting an error."""


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
