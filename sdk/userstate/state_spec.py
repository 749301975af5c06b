"""What: the declaration of a state of a `DoFn` (Beam's `StateSpec`), and the storage of one key and window.

The cells of a window are the part of a key's storage that belongs to the window (MillWheel paper §4.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, Protocol, TypeVar

from headrace.lowlevel.coders.coder import Coder, PickleCoder, coder_name
from headrace.lowlevel.stored_names import public_name
from headrace.lowlevel.topology.computation import Context

STATE = b"s"
"""First byte of the names of all cells of a window's state; length and code of the window follow."""
_LENGTH = 2


def prefix_of(code: bytes) -> bytes:
    """The prefix of the names of all cells of the window with this code."""
    return STATE + len(code).to_bytes(_LENGTH, "big") + code


class Cells:
    """The cells of one window, by name; records whether cells were written or erased."""

    __slots__ = ("context", "erased", "prefix", "written")

    def __init__(self, context: Context, prefix: bytes) -> None:
        self.context = context
        """Storage of the key."""
        self.prefix = prefix
        """Prefix of the cells' names in the storage of the key."""
        self.written = False
        """Whether a cell was written."""
        self.erased = False
        """Whether a cell was erased."""

    def read(self, name: bytes) -> bytes | None:
        """Contents of a cell; None if there is no such cell."""
        return self.context.read(self.prefix + name)

    def write(self, name: bytes, data: bytes) -> None:
        """Replace a cell's contents."""
        self.context.write(self.prefix + name, data)
        self.written = True

    def erase(self, name: bytes) -> None:
        """Delete a cell."""
        self.context.write(self.prefix + name, None)
        self.erased = True

    def decode(self, coder: Coder, data: bytes) -> object:
        """Decode what a cell holds; an immutable value may be one that was decoded in an earlier bundle."""
        # Other coders are the user's code, whose calls are not left out.
        return self.context.values.decode(data) if type(coder) is PickleCoder else coder.decode(data)

    def left_unchanged(self, coder: Coder, data: bytes, value: object) -> None:
        """Note that the bundle leaves the value as it is that was decoded from `data`."""
        if type(coder) is PickleCoder:
            self.context.values.left_unchanged(data, value)

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Names and contents of the cells whose names begin with `prefix`, ordered by name."""
        length = len(self.prefix)
        return ((cell[length:], data) for cell, data in self.context.scan(self.prefix + prefix))

    def erase_all(self, prefix: bytes = b"") -> None:
        """Delete all cells whose names begin with `prefix`."""
        self.context.erase(self.prefix + prefix)
        self.erased = True


class State(Protocol):
    """A state of one key and window while a bundle runs."""

    def clear(self) -> None:
        """Remove all values, and free the storage."""

    def store(self) -> None:
        """Write the changes of the bundle. The engine calls this method once, after all other methods."""


StateT = TypeVar("StateT", bound=State, covariant=True)
_LONGEST_NAME = 100
_PICKLE = PickleCoder()


class StateSpec(Generic[StateT]):
    """Declares a state of each key and window: an attribute of a `DoFn`.

    >>> import headrace as beam
    >>> from headrace.transforms.userstate import ReadModifyWriteStateSpec
    >>> class Numbered(beam.DoFn):
    ...     NEXT = ReadModifyWriteStateSpec("next")
    ...     def process(self, pair, next=beam.DoFn.StateParam(NEXT)):
    ...         number = next.read() or 0
    ...         next.write(number + 1)
    ...         yield pair[1], number
    >>> isinstance(Numbered.NEXT, StateSpec)
    True
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("red", "a"), ("red", "b")]) | beam.ParDo(Numbered()) | beam.Map(print)
    ('a', 0)
    ('b', 1)

    Args:
        name: Name of the state, unique within the `DoFn`; after a restart, the state is found by its name.
        coder: Encodes values as bytes: an object with `encode` and `decode`. None for pickle.

    Raises:
        ValueError: The name is empty or longer than 100 bytes.
        TypeError: The name is not a str, or the coder lacks `encode` or `decode`.
    """

    kind: ClassVar[bytes]
    """One byte that distinguishes the kinds of state in storage."""

    def __init__(self, name: str, coder: Coder | None = None) -> None:
        self.name = checked_name(type(self).__name__, name)
        coder = _PICKLE if coder is None else coder
        if isinstance(coder, type) or not (hasattr(coder, "encode") and hasattr(coder, "decode")):
            raise TypeError(f"{self!r} takes a coder, an object with encode and decode, got {coder!r:.200}")
        self.coder: Coder = coder
        encoded = name.encode()
        self.cell = self.kind + bytes([len(encoded)]) + encoded
        """Prefix of the names of the state's cells within a window."""

    def open(self, cells: Cells) -> StateT:
        """The state that is stored in the cells of a window."""
        raise TypeError(f"{type(self).__name__} does not define open(self, cells)")

    def aspect(self) -> tuple[str, str]:
        """Name of the state, and its kind and coder, which a restarted program must not change."""
        return f"state {self.name!r}", f"{public_name(type(self))} with {coder_name(self.coder)}"

    def encode(self, value: object) -> bytes:
        """Encode a value; raises TypeError, with the name of the state and a remedy, if the coder fails."""
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
    """The name, if it is valid for a state or a timer.

    Raises TypeError if the name is not a str, and ValueError if it is empty or longer than 100 bytes.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a {kind} must be a str, got {name!r:.80}")
    if not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise ValueError(f"the name of {kind} {name!r:.200} must have 1 to {_LONGEST_NAME} bytes")
    return name
