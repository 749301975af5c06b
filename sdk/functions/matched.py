"""What: the lists and the pairs that joins make of the elements of one key and window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from headrace.sdk.model.row import Row


class Assembled:
    """Makes a list for each collection of a key's tagged values: a dict by tag, or a tuple.

    Args:
        tags: The name of each collection.
        by_tag: Whether the lists are in a dict.

    >>> Assembled(["a", "b"], True)(("key", [(1, 2.5), (1, 3.5)]))
    ('key', {'a': [], 'b': [2.5, 3.5]})
    """

    steps = 1
    """Number of steps behind the grouping whose work this is."""

    def __init__(self, tags: Sequence[object], by_tag: bool) -> None:
        self._tags, self._by_tag = tags, by_tag

    @property
    def sides(self) -> int:
        """Number of collections."""
        return len(self._tags)

    def __call__(self, both: tuple[object, Iterable[tuple[int, object]]]) -> tuple[object, object]:
        """The key and the lists."""
        key, values = both
        lists: list[list[object]] = [[] for _ in self._tags]
        for index, value in values:
            lists[index].append(value)
        return key, self.put_together(lists)

    def put_together(self, lists: Sequence[list[object]]) -> object:
        """The lists of a key, of which there is one for each collection."""
        return dict(zip(self._tags, lists, strict=True)) if self._by_tag else tuple(lists)


class Matched:
    """Pairs each element of the left side with each of the right side, as rows of two fields.

    Args:
        keep_left: Whether left elements without a partner are paired with None.
        keep_right: Whether right elements are.
        names: Names of the two fields.

    >>> [row.right for row in Matched(True, False, ("left", "right"))("key", (["a"], []))]
    [None]
    """

    steps = 2

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
