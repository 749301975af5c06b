"""How: values from which some are taken back."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence


def without(values: Sequence[object], taken: Sequence[object]) -> list[object]:
    """The values, less one for each equal one that is taken back.

    >>> without([1, 2, 2, 3], [2, 7])
    [1, 2, 3]
    >>> without([[1], [2]], [[1]])
    [[2]]
    """
    try:
        left_to_take = Counter(taken)
        return [value for value in values if not _takes(left_to_take, value)]
    except TypeError:
        # Not all can be looked up in a dictionary.
        left = list(values)
        for one in taken:
            index = next((index for index, value in enumerate(left) if _equal(value, one)), None)
            if index is not None:
                del left[index]
        return left


def _takes(left_to_take: Counter[object], value: object) -> bool:
    if not left_to_take.get(value):
        return False
    left_to_take[value] -= 1
    return True


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except ValueError:
        # Arrays have no one answer.
        return pickle.dumps(one) == pickle.dumps(other)
