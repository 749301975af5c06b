"""The interface of a CombineFn for groupings, and private copies of accumulators."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Protocol

_UNCHANGING = frozenset([int, float, bool, str, bytes, type(None)])


class Combiner(Protocol):
    """The part of a `CombineFn` that a grouping calls."""

    def setup(self) -> None:
        """Prepare for combining; called once before any other method."""

    def teardown(self) -> None:
        """Release resources; called after the last call of any other method."""

    def has_teardown(self) -> bool:
        """Whether `teardown` does anything."""

    def create_accumulator(self) -> object:
        """The accumulator of no elements."""

    def add_input(self, accumulator: object, element: object, /) -> object:
        """The accumulator with one more element."""

    def add_inputs(self, accumulator: object, elements: Iterable[object], /) -> object:
        """The accumulator with more elements."""

    def merge_accumulators(self, accumulators: Iterable[object], /) -> object:
        """One accumulator with the elements of all accumulators."""

    def compact(self, accumulator: object, /) -> object:
        """An equivalent accumulator in fewer bytes."""

    def extract_output(self, accumulator: object, /) -> object:
        """The result for the elements of the accumulator."""

    def remove_input(self, accumulator: object, element: object, /) -> object:
        """The accumulator without an element that was added; requires `has_inverse`."""


def private_copy(value: object) -> object:
    """A copy of a value that no other object refers to; the value itself if its type is immutable."""
    if type(value) in _UNCHANGING:
        return value
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
