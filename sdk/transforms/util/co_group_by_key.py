"""What: the values of several collections, grouped by key (`apache_beam.CoGroupByKey`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import GenericAlias
from typing import Any

import numpy as np

from headrace.lowlevel.columnar.arrow_arrays import of_numbers
from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.records.column_batch import Single, ValueSchema, pair
from headrace.sdk.expressions.batch_view import BatchView, PairFunction
from headrace.sdk.functions.matched import Assembled, Matched
from headrace.sdk.graph.ptransform import collections_of
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.flatten import Flatten, OfSeveral
from headrace.sdk.transforms.core.group_by_key import GroupByKey, JoinGrouping
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.typehints.hints import iterable_of, tuple_of, union
from headrace.sdk.typehints.hints import pair as pair_of_types


class CoGroupByKey(OfSeveral):
    """Groups the values of several collections of pairs by key.

    For a dict of collections the output is (key, {tag: list of values}), for a tuple or list of collections (key, tuple
    of lists). A collection without values for a key has an empty list.

    Raises:
        TypeError: The input is not a dict, tuple or list of collections, or is empty without a `pipeline`.
        TopologyError: The collections have different window functions.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     mails = pipeline | "Mails" >> beam.Create([("ann", "ann@example.org")])
    ...     phones = pipeline | "Phones" >> beam.Create([("ann", 11), ("bob", 12)])
    ...     _ = {"mail": mails, "phone": phones} | beam.CoGroupByKey() | beam.MapTuple(print)
    ann {'mail': ['ann@example.org'], 'phone': [11]}
    bob {'mail': [], 'phone': [12]}
    """

    def expand(self, inputs: object) -> PCollection[object]:
        """A collection of groups, made by one grouping of all values tagged with their collection."""
        collections = collections_of(inputs)
        tags: list[object] = list(inputs) if isinstance(inputs, Mapping) else list(range(len(collections)))
        if len(tags) != len(collections):
            raise TypeError(f"{self.label} takes a dict, tuple or list of collections, got {inputs!r:.200}")
        _require_same_windows(collections)
        sides = [tagged(collection, index) for index, collection in enumerate(collections)]
        merged = sides | Flatten(pipeline=self.pipeline) if sides else self._nothing()
        assembled = Assembled(tags, isinstance(inputs, Mapping))
        joined = merged | "GroupByKey" >> self._grouping(assembled) | "Assemble" >> Map(assembled)
        joined.element_type = _joined_type(collections, isinstance(inputs, Mapping))
        return joined

    def _grouping(self, assembled: Assembled) -> GroupByKey:
        return JoinGrouping(assembled)

    def _nothing(self) -> PCollection[object]:
        if self.pipeline is None:
            raise TypeError(f"{self.label} was given no collection; name the pipeline: CoGroupByKey(pipeline=p)")
        return self.pipeline | Create([])


class GroupsToJoin(CoGroupByKey):
    """Groups two collections for a join, which is the only step that reads the groups.

    Args:
        matched: What the step behind it makes of each group.
    """

    def __init__(self, matched: Matched) -> None:
        super().__init__()
        self._matched = matched

    def _grouping(self, assembled: Assembled) -> GroupByKey:
        return JoinGrouping(self._matched)


def _require_same_windows(collections: Sequence[PCollection[object]]) -> None:
    """Raise TopologyError for different window functions, as elements are joined only in equal windows."""
    for other in collections[1:]:
        first = collections[0]
        if other.windowing.window_fn != first.windowing.window_fn:
            raise TopologyError(
                f"step {first.pipeline.current_label!r} joins {first!r} in {first.windowing.window_fn} with {other!r} "
                f"in {other.windowing.window_fn}, and elements meet only in equal windows; give both the same windows "
                "with WindowInto"
            )


def _joined_type(collections: Sequence[PCollection[object]], by_tag: bool) -> object:
    """The type of the output: a key with the values of each collection."""
    pairs = [pair_of_types(collection.element_type) or (Any, Any) for collection in collections]
    key = union(key for key, _ in pairs)
    if by_tag:
        values = iterable_of(union(value for _, value in pairs))
        return tuple_of([key, GenericAlias(dict, (Any, values))])
    return tuple_of([key, tuple_of(iterable_of(value) for _, value in pairs)])


class _Tag(PairFunction):
    """Tags each value with the number of its collection."""

    def __init__(self, index: int) -> None:
        self._index = index

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        key, value = view.pair()
        tags = of_numbers(np.full(len(view.times), self._index, np.int8 if self._index < 128 else np.int64))
        return pair(key, pair(Single(view.add(tags)), value))

    def __call__(self, both: tuple[object, object]) -> tuple[object, tuple[int, object]]:
        key, value = both
        return key, (self._index, value)


def tagged(collection: PCollection[object], index: int) -> PCollection[object]:
    """A collection of pairs whose values are tagged with a number."""
    return collection | f"Tag{index}" >> Map(_Tag(index))
