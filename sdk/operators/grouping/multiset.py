"""How: removing values from a list of values, as often as they were retracted."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence


def without(values: Sequence[object], removed: Sequence[object]) -> list[object]:
    """The values minus the removed values: each removed value takes away at most one equal value.

    >>> without([1, 2, 2, 3], [2, 7])
    [1, 2, 3]
    >>> without([[1], [2]], [[1]])
    [[2]]
    """
    try:
        to_remove = Counter(removed)
        return [value for value in values if not _remove(to_remove, value)]
    except TypeError:
        # Some values are not hashable.
        rest = list(values)
        for target in removed:
            index = next((index for index, value in enumerate(rest) if _equal(value, target)), None)
            if index is not None:
                del rest[index]
        return rest


def _remove(to_remove: Counter[object], value: object) -> bool:
    """Whether a value is to be removed; if so, the counter decreases by one."""
    if not to_remove.get(value):
        return False
    to_remove[value] -= 1
    return True


def _equal(value: object, other: object) -> bool:
    try:
        return bool(value == other)
    except ValueError:
        # Comparing NumPy arrays gives an array.
        return pickle.dumps(value) == pickle.dumps(other)
