"""A check of combiners that combine Arrow arrays: they must give what they give element by element."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import to_list
from headrace.sdk.combinefns.vectorized import VectorizedCombineFn


def check_vectorized(
    combine_fn: VectorizedCombineFn[Any, Any, Any],
    values: pa.Array | Sequence[object],
    *,
    tolerance: float = 0.0,
    rounds: int = 20,
    seed: int = 0,
) -> None:
    """Check that a `VectorizedCombineFn` gives the same results by Arrow arrays and element by element.

    Values are grouped, cut into parts and merged in random order, as runs do it, accumulators and states mixed.

    Args:
        combine_fn: The combiner. Its `setup` is called before and its `teardown` after.
        values: Values that it combines, at least one: an Arrow array, or values of which `pyarrow.array` makes one.
        tolerance: Largest absolute difference of results that are floats.
        rounds: Number of random divisions that are tried.
        seed: Seed of the random numbers.

    Raises:
        AssertionError: Two results differ, or `lift` gives None; the message has the values of a group.

    >>> import pyarrow.compute as pc
    >>> class Letters(VectorizedCombineFn):
    ...     create_accumulator = lambda self: 0
    ...     add_input = lambda self, accumulator, element: accumulator + len(element)
    ...     merge_accumulators = lambda self, accumulators: sum(accumulators)
    ...     extract_output = lambda self, accumulator: accumulator
    ...     lift = lambda self, values: pc.binary_length(values).cast("int64")
    ...     merge = lambda self, states, groups, count: pa.array(np.bincount(groups, states, count).astype(int))
    >>> check_vectorized(Letters(), ["a", "bcd"])
    >>> check_vectorized(Letters(), ["ä"])
    Traceback (most recent call last):
      ...
    AssertionError: Letters gives 2 by arrays and 1 element by element for ['ä']; seed 0, round 0
    """
    if problem := _first_difference(combine_fn, values, tolerance, rounds, seed):
        raise AssertionError(problem)


def _first_difference(
    combine_fn: VectorizedCombineFn[Any, Any, Any],
    values: pa.Array | Sequence[object],
    tolerance: float,
    rounds: int,
    seed: int,
) -> str:
    """The message of the first division for which the two forms differ; empty if there is none."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    chance = random.Random(seed)
    combine_fn.setup()
    try:
        for number in range(rounds):
            if problem := _difference(combine_fn, column, chance.randint(1, 4) if number else 1, chance, tolerance):
                return f"{type(combine_fn).__name__} {problem}; seed {seed}, round {number}"
    finally:
        combine_fn.teardown()
    return ""


def _difference(
    combine_fn: VectorizedCombineFn[Any, Any, Any],
    column: pa.Array,
    count: int,
    chance: random.Random,
    tolerance: float,
) -> str:
    """Where the two forms differ for values that are put into so many groups; empty if they do not."""
    elements = to_list(column)
    groups = np.array([chance.randrange(count) for _ in elements], np.int64)
    states = _merged(combine_fn, column, groups, count, chance)
    for group in np.unique(groups).tolist():
        own = [element for element, its in zip(elements, groups.tolist(), strict=True) if its == group]
        found, expected = _result(combine_fn, states.slice(group, 1)), combine_fn.apply(own)
        if not _equal(found, expected, tolerance):
            return f"gives {found!r:.200} by arrays and {expected!r:.200} element by element for {own!r:.500}"
    return ""


def _merged(
    combine_fn: VectorizedCombineFn[Any, Any, Any],
    column: pa.Array,
    groups: np.ndarray[tuple[int], np.dtype[np.int64]],
    count: int,
    chance: random.Random,
) -> pa.Array:
    """The state of each group, merged of parts."""
    lifted = combine_fn.lift(column)
    if lifted is None:
        raise AssertionError(f"{type(combine_fn).__name__}.lift gives None for values of type {column.type}")
    order = np.array(chance.sample(range(len(column)), len(column)), np.int64)
    cuts = sorted(chance.choices(range(len(column) + 1), k=2))
    parts = [part for part in np.split(order, cuts) if len(part)]
    merged = [combine_fn.merge(lifted.take(pa.array(part)), groups[part], count) for part in parts]
    present = [np.unique(groups[part]) for part in parts]
    states = [state.take(pa.array(own)) for state, own in zip(merged, present, strict=True)]
    return combine_fn.merge(pa.concat_arrays(states), np.concatenate(present), count)


def _result(combine_fn: VectorizedCombineFn[Any, Any, Any], state: pa.Array) -> object:
    results = combine_fn.extract(state)
    [accumulator] = combine_fn.accumulators(state)
    if results is None:
        return combine_fn.extract_output(accumulator)
    [found] = to_list(results)
    other = combine_fn.extract_output(accumulator)
    if not _equal(found, other, 0.0):
        raise AssertionError(
            f"{type(combine_fn).__name__}.extract gives {found!r:.200}, and extract_output gives {other!r:.200} for "
            f"the accumulator {accumulator!r:.200} of the same state"
        )
    return found


def _equal(found: object, expected: object, tolerance: float) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return repr(found) == repr(expected) or abs(found - expected) <= tolerance
    return type(found) is type(expected) and found == expected
