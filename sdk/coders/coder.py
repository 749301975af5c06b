"""Coders: values of one type as bytes and back (`apache_beam.coders.Coder`, MillWheel paper §4.4)."""

from __future__ import annotations

from typing import Protocol, Self

from headrace.lowlevel.stored_names import public_name


class TypeCoders(Protocol):
    """Looks up the coders of types, for composite coders; `CoderRegistry` is one."""

    def get_coder(self, hint: object) -> Coder:
        """The coder for a type hint."""


class Coder:
    """Encodes values of one type as bytes and decodes them.

    A subclass defines `encode` and `decode`, and `is_deterministic` if equal values always give equal bytes. Values of
    a type can be keys only if the type's coder is deterministic. The bytes are kept in checkpoints, so a changed coder
    must still read the bytes that its earlier version wrote.

    >>> class ColourCoder(Coder):
    ...     def encode(self, colour):
    ...         return bytes(colour)
    ...     def decode(self, data):
    ...         return tuple(data)
    ...     def is_deterministic(self):
    ...         return True
    >>> ColourCoder().decode(ColourCoder().encode((255, 0, 0)))
    (255, 0, 0)
    """

    def encode(self, value: object) -> bytes:
        """The bytes of a value. Raises `TypeError` if the class does not define the method."""
        raise TypeError(f"{type(self).__name__} does not define encode(self, value)")

    def decode(self, data: bytes) -> object:
        """The value that `encode` gave these bytes for. Raises `TypeError` if the class does not define the method."""
        raise TypeError(f"{type(self).__name__} does not define decode(self, data)")

    def is_deterministic(self) -> bool:
        """Whether equal values have equal bytes, in every process and release."""
        return False

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """This coder, or another coder for the same values that is deterministic.

        Raises:
            ValueError: No deterministic coder exists; the message names the step.
        """
        if self.is_deterministic():
            return self
        raise ValueError(
            error_message
            or f"step {step_label!r}: {self} is not deterministic, so its values cannot be keys; "
            "use keys of a type with a deterministic coder"
        )

    def estimate_size(self, value: object) -> int:
        """The approximate size of an encoded value, in bytes."""
        return len(self.encode(value))

    def to_type_hint(self) -> object:
        """The type of the values that the coder encodes."""
        return object

    @classmethod
    def from_type_hint(cls, hint: object, registry: TypeCoders) -> Self:
        """The coder for a type hint; `registry` gives the coders of the types inside the hint."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return public_name(type(self)).rpartition(".")[2]
