"""What a coder is: values of one type as bytes and back (`apache_beam.coders.Coder`, MillWheel paper §4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from headrace.sdk.coders.registry import CoderRegistry


class Coder:
    """Subclass it and define `encode` and `decode`; `is_deterministic` too if equal values always give equal bytes.

    Only a deterministic coder makes a type a key. The bytes are kept in checkpoints, so a coder that changes must still
    read what its earlier version wrote.

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
        """Bytes of a value."""
        raise TypeError(f"{type(self).__name__} does not define encode(self, value)")

    def decode(self, data: bytes) -> object:
        """The value of the bytes."""
        raise TypeError(f"{type(self).__name__} does not define decode(self, data)")

    def is_deterministic(self) -> bool:
        """Whether equal values have equal bytes, in every process and release."""
        return False

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """This coder, or another for the same values that is deterministic.

        Raises:
            ValueError: There is none; the message names the step.
        """
        if self.is_deterministic():
            return self
        raise ValueError(
            error_message
            or f"step {step_label!r}: {self} is not deterministic, so its values cannot be keys; "
            "use keys of a type with a deterministic coder"
        )

    def estimate_size(self, value: object) -> int:
        """About how many bytes the value takes."""
        return len(self.encode(value))

    def to_type_hint(self) -> object:
        """The type of its values."""
        return object

    @classmethod
    def from_type_hint(cls, hint: object, registry: CoderRegistry) -> Self:
        """The coder for a type; `registry` knows those of the types inside it."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__
