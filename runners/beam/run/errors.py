"""Errors of user code as Beam's own runner raises them: of the user's class, with the name of the step."""

from __future__ import annotations

from traceback import format_exception_only

from headrace.lowlevel.errors import StepError
from headrace.lowlevel.user_errors import unpacked
from headrace.runners.beam.beam_private import is_tagged_with_step


def as_beam(error: StepError, label: str) -> BaseException:
    """The error to raise for a failed step with this label in the program.

    Its cause is the `StepError`, with key, value and the user's traceback.

    >>> from headrace.lowlevel.user_errors import failed_step
    >>> as_beam(failed_step(KeyError("red"), "Look up", None, 5), "Look up")
    KeyError("red [while running 'Look up']")
    """
    original = unpacked(error.raised)
    if original is None:
        return error
    original.__cause__ = error
    return original if is_tagged_with_step(original) else _annotated(original, error, label)


def _annotated(original: BaseException, error: StepError, label: str) -> BaseException:
    """As Beam's `DoFnRunner` names the step: in the first argument, or in a `RuntimeError` if that is no text."""
    where = f" [while running {label!r}]"
    try:
        annotated = type(original)(original.args[0] + where, *original.args[1:])
    except Exception:
        told = format_exception_only(original)[-1].strip()
        annotated = RuntimeError(told + where)
    annotated.__cause__ = error
    return annotated
