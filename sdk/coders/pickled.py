"""Coders of any value (`apache_beam.coders.PickleCoder`, `FastPrimitivesCoder`)."""

from __future__ import annotations

import pickle

import cloudpickle

from headrace.lowlevel.coder import KeyCoder
from headrace.sdk.coders.coder import Coder


class PickleCoder(Coder):
    """Any value that can be pickled; as keys, the values that the engine encodes deterministically."""

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return pickle.loads(data)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """One that refuses values without a deterministic encoding when it meets them."""
        return DeterministicFastPrimitivesCoder(step_label)


class CloudpickleCoder(PickleCoder):
    """Also functions, and objects of classes that are defined inside functions."""

    def encode(self, value: object) -> bytes:
        """See `Coder`."""
        data: bytes = cloudpickle.dumps(value)
        return data


class FastPrimitivesCoder(PickleCoder):
    """The coder of values of which nothing is known."""


class DeterministicFastPrimitivesCoder(Coder):
    """Values that are keys by themselves; see `headrace.lowlevel.coder.KeyCoder` for which these are.

    Args:
        step_label: The step whose keys they are.
        keys: What knows the coders of further types.
    """

    def __init__(self, step_label: str = "", keys: KeyCoder | None = None) -> None:
        self._step, self._keys = step_label, keys or KeyCoder()

    def encode(self, value: object) -> bytes:
        """See `Coder`. Raises `KeyEncodingError`."""
        return self._keys.encode(value)

    def decode(self, data: bytes) -> object:
        """See `Coder`."""
        return self._keys.decode(data)

    def is_deterministic(self) -> bool:
        """See `Coder`."""
        return True
