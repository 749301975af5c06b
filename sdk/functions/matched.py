"""What: the pairs that a join makes of the elements of one key and window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from headrace.sdk.model.row import Row


class Matched:
    """Pairs each element of the left side with each of the right side, as rows of two fields.

    Args:
        keep_left: Whether left elements without a partner are paired with None.
        keep_right: Whether right elements are.
        names: Names of the two fields.

    >>> [row.right for row in Matched(True, False, ("left", "right"))("key", (["a"], []))]
    [None]
    """

    def __init__(self, keep_left: bool, keep_right: bool, names: tuple[str, str]) -> None:
        self.keep_left, self.keep_right, self.names = keep_left, keep_right, names

    def __call__(self, key: object, groups: tuple[Iterable[object], Iterable[object]]) -> Iterator[Row]:
        """The rows of a key, in the order of the left elements, then of the right ones."""
        left, right = map(list, groups)
        if self.keep_right and not left:
            left = [None]
        if self.keep_left and not right:
            right = [None]
        for one, other in product(left, right):
            yield self.row(one, other)

    def row(self, left: object, right: object) -> Row:
        """The row of a left and a right element."""
        return Row.of(dict(zip(self.names, (left, right), strict=True)))
