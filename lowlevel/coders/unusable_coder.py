"""Stand-ins for key coders that cannot be pickled or loaded; only a run that uses such a coder fails."""

from __future__ import annotations

import cloudpickle

from headrace.lowlevel.code_pickling import dumps
from headrace.lowlevel.errors import CoderError


class UnusableCoder:
    """A coder that raises `CoderError` whenever it is used.

    Args:
        kind: Name of the type of keys.
        coder: Name of the coder that it replaces.
        problem: What is wrong, and the remedy.
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


def sent(value: object) -> bytes | Exception:
    """The pickled object, or the exception that pickling has raised."""
    try:
        data = dumps(value)
    except Exception as error:
        return error
    return data


def received(data: bytes) -> object:
    """The unpickled object, or the exception that unpickling has raised."""
    try:
        value: object = cloudpickle.loads(data)
    except Exception as error:
        return error
    return value


def told(error: Exception) -> str:
    """Type and message of an exception."""
    return f"{type(error).__name__}: {error}"
