"""What: what is kept of values to tell about where they lie: accumulators that can be pickled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import datasketches

Key: TypeAlias = Callable[[object], object]
Weighed: TypeAlias = tuple[object, float]
"""A value and how many it stands for."""


class Distribution(Protocol):
    """Values, all or some of them; with more values the part that is kept grows no further."""

    def add(self, values: Iterable[object], key: Key | None) -> None:
        """Add values, to be compared by their keys."""

    def merge(self, other: Distribution) -> None:
        """Add what another of the same kind has seen."""

    def extremes(self) -> tuple[object, object] | None:
        """Least and greatest value seen; None of no values."""

    def by_rank(self, reverse: bool) -> list[Weighed]:
        """The values kept, in order."""


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...


class _Ranked:
    """A value with what is compared instead of it."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: object, value: object) -> None:
        self.rank, self.value = cast(_Ordered, rank), value

    def __lt__(self, other: _Ranked) -> bool:
        return bool(self.rank < other.rank)

    def __reduce__(self) -> tuple[object, ...]:
        return _Ranked, (self.rank, self.value)


def _ranked(value: object, key: Key | None) -> object:
    return value if key is None else _Ranked(key(value), value)


def _plain(item: object) -> object:
    return item.value if isinstance(item, _Ranked) else item


def _in_order(kept: Iterable[Weighed], reverse: bool) -> list[Weighed]:
    ordered = sorted(kept, key=cast("Callable[[Weighed], int]", itemgetter(0)), reverse=reverse)
    return [(_plain(item), weight) for item, weight in ordered]


class Ranked:
    """A KLL sketch of values.

    Args:
        k: Up to so many values all are kept.
    """

    def __init__(self, k: int) -> None:
        from datasketches import kll_items_sketch

        self._sketch: datasketches.kll_items_sketch = kll_items_sketch(k)

    def add(self, values: Iterable[object], key: Key | None) -> None:
        """See `Distribution`."""
        update = self._sketch.update
        for value in values:
            update(_ranked(value, key))

    def merge(self, other: Distribution) -> None:
        """See `Distribution`."""
        self._sketch.merge(cast(Ranked, other)._sketch)

    def extremes(self) -> tuple[object, object] | None:
        """See `Distribution`."""
        if self._sketch.is_empty():
            return None
        return _plain(self._sketch.get_min_value()), _plain(self._sketch.get_max_value())

    def by_rank(self, reverse: bool) -> list[Weighed]:
        """See `Distribution`."""
        return _in_order(cast("Iterator[Weighed]", iter(self._sketch)), reverse)

    def __reduce__(self) -> tuple[object, ...]:
        if self._sketch.is_empty():
            return Ranked, (self._sketch.k,)
        return _unpack_ranked, _packed(self._sketch)


class Sampled:
    """A sample of pairs (value, weight), heavy ones more likely in it (VarOpt), with the extremes of all.

    Args:
        k: Up to so many values all are kept.
    """

    def __init__(self, k: int) -> None:
        from datasketches import var_opt_sketch

        self._sketch: datasketches.var_opt_sketch = var_opt_sketch(k)
        self._extremes: list[object] = []
        """Least and greatest, as they are compared; empty of no values. A value of no weight counts here alone."""

    def add(self, values: Iterable[object], key: Key | None) -> None:
        """See `Distribution`."""
        update = self._sketch.update
        for value, weight in cast("Iterable[Weighed]", values):
            if not weight >= 0:
                raise ValueError(f"value {value!r:.80} has the weight {weight!r:.80}; a weight must be 0 or more")
            item = _ranked(value, key)
            update(item, weight)
            self._widen([item, item])

    def _widen(self, extremes: list[object]) -> None:
        if not self._extremes:
            self._extremes = extremes
        elif extremes:
            # The items have an order, but no common type that says so.
            mine, others = cast("list[int]", self._extremes), cast("list[int]", extremes)
            if others[0] < mine[0]:
                self._extremes[0] = others[0]
            if mine[1] < others[1]:
                self._extremes[1] = others[1]

    def merge(self, other: Distribution) -> None:
        """See `Distribution`."""
        from datasketches import var_opt_union

        sampled = cast(Sampled, other)
        union = var_opt_union(self._sketch.k)
        union.update(self._sketch)
        union.update(sampled._sketch)
        self._sketch = union.get_result()
        self._widen(list(sampled._extremes))

    def extremes(self) -> tuple[object, object] | None:
        """See `Distribution`."""
        if not self._extremes:
            return None
        least, greatest = self._extremes
        return _plain(least), _plain(greatest)

    def by_rank(self, reverse: bool) -> list[Weighed]:
        """See `Distribution`."""
        return _in_order(cast("Iterator[Weighed]", iter(self._sketch)), reverse)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpack_sampled, (*_packed(self._sketch), self._extremes)


def _packed(sketch: datasketches.kll_items_sketch | datasketches.var_opt_sketch) -> tuple[bytes, list[object]]:
    """The bytes of a sketch whose items stand in a list: one pickle for all of them."""
    items: list[object] = []
    return sketch.serialize(_by_number(items)), items


def _unpack_ranked(data: bytes, items: list[object]) -> Ranked:
    from datasketches import kll_items_sketch

    ranked = Ranked.__new__(Ranked)
    ranked._sketch = kll_items_sketch.deserialize(data, _by_number(items))
    return ranked


def _unpack_sampled(data: bytes, items: list[object], extremes: list[object]) -> Sampled:
    from datasketches import var_opt_sketch

    sampled = Sampled.__new__(Sampled)
    sampled._sketch = var_opt_sketch.deserialize(data, _by_number(items))
    sampled._extremes = extremes
    return sampled


def _by_number(items: list[object]) -> datasketches.PyObjectSerDe:
    """How a sketch writes an item: as its place in a list."""
    from datasketches import PyObjectSerDe

    # The library comes without types, so its class is of type Any.
    class ByNumber(PyObjectSerDe):  # type: ignore[misc]
        def get_size(self, item: object) -> int:
            return 4

        def to_bytes(self, item: object) -> bytes:
            items.append(item)
            return (len(items) - 1).to_bytes(4, "little")

        def from_bytes(self, data: bytes, offset: int) -> tuple[object, int]:
            return items[int.from_bytes(data[offset : offset + 4], "little")], 4

    return ByNumber()
