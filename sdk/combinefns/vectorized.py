"""What: combiners that also combine Arrow arrays, for many keys and windows at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.sdk.combinefns.combine_fn import AccumulatorT, CombineFn, ElementT, ResultT


class VectorizedCombineFn(CombineFn[ElementT, AccumulatorT, ResultT], ABC, Generic[ElementT, AccumulatorT, ResultT]):
    """A `CombineFn` that combines columns, too: the values of many keys and windows in one call.

    The engine keeps a *state* for each key and window: what its accumulator holds, as one entry of an Arrow array of a
    type that the author chooses (a struct for several numbers, a list for several values). It calls `lift` for the
    values of a batch, `merge` for states that come together, and `extract` for results. The other methods are those of
    every `CombineFn`; they are called where values are not columns, and in steps that work key by key, and must give
    the same results. `headrace.testing.util.check_vectorized` compares the two.

    As for every `CombineFn`, the order and the grouping of the calls must make no difference. An array that is given
    must not be changed.

    >>> import math
    >>> class Product(VectorizedCombineFn):
    ...     def create_accumulator(self):
    ...         return 1
    ...     def add_input(self, accumulator, element):
    ...         return accumulator * element
    ...     def merge_accumulators(self, accumulators):
    ...         return math.prod(accumulators)
    ...     def extract_output(self, accumulator):
    ...         return accumulator
    ...     def lift(self, values):
    ...         return values.cast(pa.float64()) if pa.types.is_floating(values.type) else None
    ...     def merge(self, states, groups, count):
    ...         products = np.ones(count)
    ...         np.multiply.at(products, groups, states.to_numpy())
    ...         return pa.array(products)
    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     pairs = pipeline | beam.Create([("a", 1.5), ("b", 2.0), ("a", 4.0)])
    ...     _ = pairs | beam.CombinePerKey(Product()) | beam.Map(print)
    ('a', 6.0)
    ('b', 2.0)
    """

    @abstractmethod
    def lift(self, values: pa.Array) -> pa.Array | None:
        """The state of each value alone; None if this class does not combine columns of the values' type.

        Args:
            values: Values of one Arrow type; there may be nulls, which stand for None.

        Returns:
            An array with as many entries, none of which is null. None lets the engine call `add_input` for these
            values, which is also how a value such as None gets its usual error.
        """

    @abstractmethod
    def merge(self, states: pa.Array, groups: NDArray[np.int64], count: int) -> pa.Array:
        """The merged state of each group.

        Args:
            states: States in any order, without nulls, at least one.
            groups: The group of each state, from 0 to below `count`.
            count: Number of groups. Some may have no state.

        Returns:
            An array of the type of `states` with `count` entries; those of groups without states are ignored.
        """

    def extract(self, states: pa.Array) -> pa.Array | None:
        """The result for each state, as an array of as many entries; by default the states themselves.

        None lets the engine call `extract_output` for the accumulators of these states. `states` has no nulls.
        """
        return states

    def accumulators(self, states: pa.Array) -> list[AccumulatorT]:
        """The accumulator for each state: by default the state as a Python value, as `to_pylist` makes it.

        Needed where states meet accumulators, in a window that has both, and in `extract` that gives None. `states` may
        have nulls, for which any accumulator will do.
        """
        return cast("list[AccumulatorT]", states.to_pylist())
