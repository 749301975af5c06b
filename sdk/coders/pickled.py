"""Coders of any value (`apache_beam.coders.PickleCoder`, `FastPrimitivesCoder`)."""

from __future__ import annotations

import cloudpickle

from headrace.lowlevel.class_lookup import dumps, loads
from headrace.lowlevel.coders.coder import KeyCoder
from headrace.lowlevel.stored_names import named
from headrace.sdk.coders.coder import Coder


@named("PickleCoder")
class PickleCoder(Coder):
    """Encodes any value that can be pickled. Keys use `DeterministicFastPrimitivesCoder` instead.

    >>> PickleCoder().decode(PickleCoder().encode({"tea": [3]}))
    {'tea': [3]}
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return dumps(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return loads(data)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """A coder that raises for values without a deterministic encoding."""
        return DeterministicFastPrimitivesCoder(step_label)


@named("CloudpickleCoder")
class CloudpickleCoder(PickleCoder):
    """Encodes with cloudpickle: also functions, and objects of classes that are defined inside functions.

    >>> coder = CloudpickleCoder()
    >>> coder.decode(coder.encode(lambda number: number + 1))(2)
    3
    """

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        data: bytes = cloudpickle.dumps(value)
        return data


@named("FastPrimitivesCoder")
class FastPrimitivesCoder(PickleCoder):
    """Encodes values of unknown type, with pickle.

    >>> FastPrimitivesCoder().decode(FastPrimitivesCoder().encode(("tea", 3)))
    ('tea', 3)
    """


@named("DeterministicFastPrimitivesCoder")
class DeterministicFastPrimitivesCoder(Coder):
    """Encodes keys deterministically; `headrace.lowlevel.coders.coder.KeyCoder` says which values can be keys.

    Args:
        step_label: Label of the step that uses the keys.
        keys: Key coder, which may have coders for further types; the engine's own one if None.

    >>> coder = DeterministicFastPrimitivesCoder()
    >>> coder.encode({"a", "b"}) == coder.encode({"b", "a"})
    True
    """

    def __init__(self, step_label: str = "", keys: KeyCoder | None = None) -> None:
        self._step, self._keys = step_label, keys or KeyCoder()

    def encode(self, value: object) -> bytes:
        """See `Coder`. Raises `KeyEncodingError` for a value without a deterministic encoding."""
        return self._keys.encode(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return self._keys.decode(data)

    def is_deterministic(self) -> bool:
        """See `Coder`."""
        return True
