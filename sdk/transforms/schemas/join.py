"""What: joins of collections on fields with equal values (Beam's `Join` and `CoGroup` of schema transforms)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.records.column_batch import ValueSchema, pair
from headrace.sdk.expressions.batch_view import BatchView, PairFunction
from headrace.sdk.expressions.join_keys import key_in
from headrace.sdk.functions.matched import Matched
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import Collection
from headrace.sdk.model.row import Row
from headrace.sdk.transforms.core.par_do import FlatMapTuple, Map
from headrace.sdk.transforms.schemas.fields import Field
from headrace.sdk.transforms.util.co_group_by_key import CoGroupByKey, GroupsToJoin

_KINDS = {"inner": (False, False), "left": (True, False), "right": (False, True), "outer": (True, True)}
"""Kind of join -> whether left elements without a partner are kept, and whether right ones are."""


class Join(PTransform[Collection, Collection]):
    """Joins two collections on fields, into rows `Row(left=..., right=...)`, per window and pane.

    An element without a partner is paired with None if the kind of join keeps it. A field that is None has no partner,
    as in SQL.

    Args:
        right: The collection to join with.
        on: Name of the field, or list of fields; an item is a pair of names if the right side has another name.
        how: `inner`, `left`, `right` or `outer`.
        names: Names of the two fields of the result.

    Raises:
        ValueError: `how` is none of these, `on` names no field, or `names` are not two different names.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | "Prices" >> beam.Create([beam.Row(item="tea", price=3)])
    ...     sold = pipeline | "Sold" >> beam.Create([beam.Row(item="tea", count=2)])
    ...     _ = sold | Join(prices, on="item") | beam.Map(lambda row: print(row.left.count * row.right.price))
    6
    """

    def __init__(
        self,
        right: Collection,
        on: str | Sequence[str | tuple[str, str]],
        how: str = "inner",
        names: tuple[str, str] = ("left", "right"),
    ) -> None:
        super().__init__()
        if how not in _KINDS:
            raise ValueError(f"how must be one of {', '.join(_KINDS)}, got {how!r:.80}")
        if len({*names}) != 2:
            raise ValueError(f"names must be two different names, of the left side and of the right, got {names!r:.80}")
        fields = [on] if isinstance(on, str) else list(on)
        if not fields:
            raise ValueError("on must name at least one field")
        pairs = [(field, field) if isinstance(field, str) else field for field in fields]
        self._right, self._how, self._names = right, how, names
        self._left_fields, self._right_fields = (tuple(name for name, _ in pairs), tuple(name for _, name in pairs))

    def expand(self, inputs: Collection) -> Collection:
        """A collection of rows in the windows of both inputs."""
        left = inputs | "Left" >> Map(_ByFields(self._left_fields, 0))
        right = self._right | "Right" >> Map(_ByFields(self._right_fields, 1))
        matched = Matched(*_KINDS[self._how], self._names)
        groups = (left, right) | "CoGroupByKey" >> GroupsToJoin(matched)
        return groups | "Match" >> FlatMapTuple(matched)


class _ByFields(PairFunction):
    """Pairs an element with its join fields; a field that is None makes the key differ from all of the other side."""

    def __init__(self, names: tuple[str, ...], side: int) -> None:
        self._fields = [Field(name) for name in names]
        self._side = side

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        fields = tuple(view.shape_of(field) for field in self._fields)
        key = key_in([(shape, view.column(shape)) for shape in fields], self._side, view.add)
        return pair(key, view.shape)

    def __call__(self, element: object) -> tuple[object, object]:
        values = tuple(field(element) for field in self._fields)
        return (self._side if None in values else None, values), element


class CoGroup(PTransform[dict[str, Collection], Collection]):
    """Groups several collections by fields: rows of the key's fields and, for each collection, a list of elements.

    `{"orders": orders, "payments": payments} | CoGroup("user")` gives `Row(user=..., orders=[...], payments=[...])`.

    Args:
        *fields: Names of the fields of the key, which are the same in all collections.

    Raises:
        ValueError: There are no fields, or a field has the name of a collection.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     prices = pipeline | "Prices" >> beam.Create([beam.Row(item="tea", price=3)])
    ...     sold = pipeline | "Sold" >> beam.Create([beam.Row(item="tea", count=2)])
    ...     found = {"prices": prices, "sold": sold} | CoGroup("item")
    ...     _ = found | beam.Map(lambda row: print(row.item, len(row.prices), len(row.sold)))
    tea 1 1
    """

    def __init__(self, *fields: str) -> None:
        super().__init__()
        if not fields:
            raise ValueError("CoGroup takes the name of at least one field")
        self._fields = fields

    def expand(self, inputs: dict[str, Collection]) -> Collection:
        """A collection of rows in the windows of all inputs."""
        if taken := set(self._fields) & set(inputs):
            raise ValueError(
                f"{self.label}: {taken} name both a field and a collection; call the collections otherwise"
            )
        key = _Key(self._fields)
        keyed = {tag: collection | f"Key {tag}" >> Map(key) for tag, collection in inputs.items()}
        return keyed | CoGroupByKey() | "Row" >> Map(_together)


class _Key:
    """Pairs an element with a named tuple of its key fields."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names, self._fields = names, [Field(name) for name in names]

    def __call__(self, element: object) -> tuple[object, object]:
        return dynamic_named_tuple("Key", self._names)(*[field(element) for field in self._fields]), element


def _together(pair: tuple[Row, dict[str, Iterable[object]]]) -> Row:
    key, groups = pair
    return Row.of({**key._asdict(), **{tag: list(found) for tag, found in groups.items()}})
