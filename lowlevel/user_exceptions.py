"""What user code raised, as it travels from a task to the program: `except ValueError` around a run works as in Beam.

A `StepError` names the step, the key and the value. Where the class that user code raised allows it, what `run` raises
is of that class, too.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import cloudpickle

from headrace.lowlevel.errors import HeadraceError, StepError, sendable

_HEAP = 1 << 9
"""Flag of classes that are defined in Python."""
_OWN = {"step", "key", "value", "cause", "raised"}
_APART = (StopIteration, StopAsyncIteration, GeneratorExit)
"""To Python these say that something has ended, wherever they come by."""


def packed(error: BaseException) -> bytes | None:
    """Class, arguments and attributes of an exception, as far as they can be sent; None if the class cannot."""
    state = {name: sendable(value) for name, value in vars(error).items()}
    for name in _members(type(error)):
        state[name] = sendable(getattr(error, name, None))
    try:
        return cast(bytes, cloudpickle.dumps((type(error), tuple(map(sendable, error.args)), state)))
    except Exception:
        return None


def unpacked(data: bytes | None) -> BaseException | None:
    """The exception, made without a call of its constructor; None if its class is not to be had here."""
    if data is None:
        return None
    try:
        kind, args, state = cloudpickle.loads(data)
        return _made(kind, args, state)
    except Exception:
        return None


def as_raised(error: StepError) -> StepError:
    """The error as one of the class that user code raised, which is its cause; the error itself where that cannot be.

    >>> from headrace.lowlevel.failure import failed_step
    >>> error = as_raised(failed_step(KeyError("red"), "Look up", None, 5))
    >>> isinstance(error, KeyError), isinstance(error, StepError), error.step, error.__cause__
    (True, True, 'Look up', KeyError('red'))
    """
    original = unpacked(error.raised)
    if original is None:
        return error
    made = error
    if _may_be(type(original)) and not isinstance(error, type(original)):
        try:
            made = _typed(error, original)
        except Exception:
            # Some classes cannot have another base, or do not bear its attributes.
            made = error
    made.__cause__ = original
    return made


def _may_be(kind: type[BaseException]) -> bool:
    """Whether the program may see the class. Our own errors say how a run ended, which is not what this one does."""
    ours = issubclass(kind, HeadraceError) and not issubclass(kind, TypeError)
    return issubclass(kind, Exception) and not issubclass(kind, _APART) and not ours


def _typed(error: StepError, original: BaseException) -> StepError:
    state = {name: value for name, value in vars(original).items() if name not in _OWN}
    state |= {name: getattr(original, name, None) for name in _members(type(original))}
    made = cast(StepError, _made(_both(type(original)), original.args, state))
    StepError.__init__(made, error.step, error.key, error.value, error.cause, error.raised)
    return made


def _both(kind: type[BaseException]) -> type[BaseException]:
    """The class of step errors that are of the other class, too. It shows as a step error, as that is what it says."""
    own = {"__module__": StepError.__module__, "__qualname__": StepError.__qualname__, "__reduce__": _reduce}
    return types.new_class(StepError.__name__, (StepError, kind), exec_body=lambda body: body.update(own))


def _reduce(error: StepError) -> tuple[object, ...]:
    plain = StepError(error.step, error.key, error.value, error.cause, error.raised)
    return as_raised, (plain,)


def _made(kind: type[BaseException], args: tuple[object, ...], state: dict[str, object]) -> BaseException:
    """An exception as it is, whatever its constructor takes."""
    built_in: type = kind
    while built_in.__flags__ & _HEAP:
        assert built_in.__base__ is not None
        built_in = built_in.__base__
    made = cast("Callable[..., BaseException]", built_in.__new__)(kind, *args)
    made.args = args
    for name, value in state.items():
        if name in _members(kind):
            # Those that cannot be set are of the arguments already.
            with suppress(AttributeError):
                setattr(made, name, value)
        else:
            vars(made)[name] = value
    return made


def _members(kind: type[BaseException]) -> list[str]:
    """Attributes that are kept outside of `__dict__`, such as the `errno` of an `OSError`."""
    return [
        name
        for base in kind.__mro__
        if base not in (BaseException, StepError, object)
        for name, found in vars(base).items()
        if inspect.ismemberdescriptor(found)
    ]
