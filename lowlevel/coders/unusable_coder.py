"""Coders of keys that cannot be made, sent or loaded: they fail the runs that need them, and no others."""

from __future__ import annotations

import cloudpickle

from headrace.lowlevel.errors import CoderError


class UnusableCoder:
    """Stands for a coder; whoever encodes or decodes with it is told what is wrong.

    Args:
        kind: Name of the type that it is for.
        coder: How the coder shows itself.
        problem: What is wrong, and what to do.
    """

    def __init__(self, kind: str, coder: str, problem: str) -> None:
        self._kind, self._coder, self._problem = kind, coder, problem

    def encode(self, value: object) -> bytes:
        """Raises `CoderError`."""
        raise CoderError(self._kind, self._coder, self._problem)

    def decode(self, data: bytes) -> object:
        """Raises `CoderError`."""
        raise CoderError(self._kind, self._coder, self._problem)

    def __repr__(self) -> str:
        return self._coder


def sent(what: object) -> bytes | Exception:
    """Bytes of something, or why there are none."""
    try:
        data: bytes = cloudpickle.dumps(what)
    except Exception as error:
        return error
    return data


def received(data: bytes) -> object:
    """What the bytes stand for, or the exception that loading them has raised."""
    try:
        found: object = cloudpickle.loads(data)
    except Exception as error:
        return error
    return found


def told(error: Exception) -> str:
    """An exception in a few words."""
    return f"{type(error).__name__}: {error}"
