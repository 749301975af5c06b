"""What: the declaration of a piece of state, an attribute of a `DoFn` (Beam's `StateSpec`)."""

from __future__ import annotations

from typing import ClassVar, Generic, Protocol, TypeVar

from headrace.lowlevel.coder import Coder, PickleCoder, coder_name
from headrace.sdk.stateful.cells import Cells


class State(Protocol):
    """State of one key and window while a bundle runs."""

    def clear(self) -> None:
        """Empty it, and free its storage."""

    def store(self) -> None:
        """Write what the bundle changed. Called by the engine, once and last."""


StateT = TypeVar("StateT", bound=State, covariant=True)
_LONGEST_NAME = 100
_PICKLE = PickleCoder()


class StateSpec(Generic[StateT]):
    """A piece of state of each key and window.

    Args:
        name: Its name, one for each piece of a `DoFn`; state is found again under it after a restart.
        coder: Turns its values into bytes and back: an object with `encode` and `decode`. None for pickle.

    Raises:
        ValueError: The name is empty or too long.
        TypeError: The name is no string, or the coder no coder.
    """

    kind: ClassVar[bytes]
    """One byte that tells kinds of state apart in storage."""

    def __init__(self, name: str, coder: Coder | None = None) -> None:
        self.name = checked_name(type(self).__name__, name)
        coder = _PICKLE if coder is None else coder
        if isinstance(coder, type) or not (hasattr(coder, "encode") and hasattr(coder, "decode")):
            raise TypeError(f"{self!r} takes a coder, an object with encode and decode, got {coder!r:.200}")
        self.coder: Coder = coder
        encoded = name.encode()
        self.cell = self.kind + bytes([len(encoded)]) + encoded
        """What its cells' names begin with."""

    def open(self, cells: Cells) -> StateT:
        """The state in the cells of a window."""
        raise TypeError(f"{type(self).__name__} does not define open(self, cells)")

    def aspect(self) -> tuple[str, str]:
        """What gives meaning to it in storage: its name, its kind and coder."""
        return f"state {self.name!r}", f"{type(self).__name__} with {coder_name(self.coder)}"

    def encode(self, value: object) -> bytes:
        """Bytes of a value; a coder's error is explained."""
        try:
            return self.coder.encode(value)
        except Exception as error:
            raise TypeError(
                f"state {self.name!r} cannot keep {value!r:.200}: {type(self.coder).__name__} says "
                f"{type(error).__name__}: {error}; give {type(self).__name__} a coder for such values"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def checked_name(kind: str, name: object) -> str:
    """The name of a piece of state or of a timer, if it can be one."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a str, got {name!r:.80}")
    if not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise ValueError(f"the name of {kind} {name!r:.200} must have 1 to {_LONGEST_NAME} bytes")
    return name
