"""What: everything of one key together, from one collection or several (`GroupByKey`, `CoGroupByKey`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from headrace.lowlevel.errors import TopologyError
from headrace.sdk.coders.registry import registry
from headrace.sdk.keys import key_problem
from headrace.sdk.options import TypeOptions
from headrace.sdk.ptransform import PTransform, collections_of
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.create import Create
from headrace.sdk.transforms.element import Map
from headrace.sdk.transforms.flatten import Flatten
from headrace.sdk.transforms.percentile import PercentileWatermark
from headrace.sdk.triggers import DefaultTrigger
from headrace.sdk.types.hints import ANY_PAIR, iterable_of, pair, tuple_of, union
from headrace.sdk.windows import GlobalWindows

if TYPE_CHECKING:
    from headrace.sdk.pipeline import Pipeline

_log = logging.getLogger(__name__)


class GroupByKey(PercentileWatermark, PTransform[PCollection[object], PCollection[object]]):
    """Pairs (key, value) become pairs (key, list of values), per window and pane.

    Keys are plain values, dates, enumerations, named tuples, rows, frozen dataclasses, tuples and other collections of
    them, and what a deterministic coder is registered for; another key stops the run.

    Raises:
        TopologyError: The type of the keys, as far as hints state it, cannot be encoded deterministically.
        ValueError: The collection never ends and its windowing would never put anything out, or could drop values
            after a trigger that finishes; the option `--allow_unsafe_triggers` makes it a warning.
    """

    def input_type(self) -> object:
        """See `PTransform`."""
        return super().input_type() if self.input_hints[0] else ANY_PAIR

    def takes(self, given: object) -> bool:
        """See `PTransform`; whatever unpacks to two will do."""
        return super().takes(given) if self.input_hints[0] else pair(given) is not None

    def infer_output_type(self, input_type: object) -> object:
        """See `PTransform`."""
        key, value = pair(input_type) or (Any, Any)
        return tuple_of([key, iterable_of(value)])

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection in the same windows."""
        return grouped(inputs, self.label)


def grouped(inputs: PCollection[object], label: str) -> PCollection[object]:
    """What a grouping step puts out; refuses windowing that loses data or waits for ever."""
    if not isinstance(inputs, PCollection):
        raise TypeError(f"{label} was applied to {inputs!r:.200}; apply it to a collection of pairs")
    if problem := _unsafe(inputs):
        step = inputs.pipeline.current_label
        if not inputs.pipeline.options.view_as(TypeOptions).allow_unsafe_triggers:
            raise TopologyError(f"step {step!r}: {problem}, or allow it with --allow_unsafe_triggers")
        _log.warning("step %r: %s; allowed by --allow_unsafe_triggers", step, problem)
    _check_keys(inputs)
    return PCollection(inputs.pipeline, inputs.windowing.after_grouping(), inputs.is_bounded)


def _check_keys(inputs: PCollection[object]) -> None:
    """Refuse keys of which it is known that they have no deterministic encoding."""
    types = pair(inputs.element_type)
    if types is not None and (problem := key_problem(types[0], registry)):
        raise TopologyError(f"step {inputs.pipeline.current_label!r}: {problem}")


def _unsafe(inputs: PCollection[object]) -> str | None:
    windowing = inputs.windowing
    is_global = isinstance(windowing.window_fn, GlobalWindows)
    if not inputs.is_bounded and is_global and isinstance(windowing.trigger, DefaultTrigger):
        return (
            "its input never ends, so the default trigger on the global window never fires; "
            "give the input windows or a trigger with WindowInto"
        )
    if windowing.may_lose_data():
        return (
            f"trigger {windowing.trigger} may finish before its window is complete, and what comes then is dropped; "
            "wrap it in Repeatedly(...)"
        )
    return None


class CoGroupByKey(PTransform[object, PCollection[object]]):
    """Several collections of pairs, joined by key.

    Applied to a dict of collections, it gives (key, {tag: list of values}); to a tuple or list of them, (key, tuple
    of lists). A tag without values for a key has an empty list.
    """

    def __init__(self, *, pipeline: Pipeline | None = None) -> None:
        super().__init__()
        if pipeline is not None:
            self.pipeline = pipeline

    def expand(self, inputs: object) -> PCollection[object]:
        """One grouping of all, each value tagged with where it came from."""
        collections = collections_of(inputs)
        tags: list[object] = list(inputs) if isinstance(inputs, Mapping) else list(range(len(collections)))
        if len(tags) != len(collections):
            raise TypeError(f"{self.label} takes a dict, tuple or list of collections, got {inputs!r:.200}")
        _require_same_windows(collections)
        tagged = [_Tag(index).of(collection) for index, collection in enumerate(collections)]
        merged = tagged | Flatten(pipeline=self.pipeline) if tagged else self._nothing()
        assemble = _ByTag(tags) if isinstance(inputs, Mapping) else _InOrder(len(tags))
        joined = merged | GroupByKey() | "Assemble" >> Map(assemble)
        joined.element_type = _joined_type(collections, isinstance(inputs, Mapping))
        return joined

    def _nothing(self) -> PCollection[object]:
        if self.pipeline is None:
            raise TypeError(f"{self.label} was given no collection; name the pipeline: CoGroupByKey(pipeline=p)")
        return self.pipeline | Create([])


def _require_same_windows(collections: Sequence[PCollection[object]]) -> None:
    """Refuse collections in windows of different kinds: elements meet only in equal windows, so nothing would join."""
    for other in collections[1:]:
        first = collections[0]
        if other.windowing.window_fn != first.windowing.window_fn:
            raise TopologyError(
                f"step {first.pipeline.current_label!r} joins {first!r} in {first.windowing.window_fn} with {other!r} "
                f"in {other.windowing.window_fn}, and elements meet only in equal windows; give both the same windows "
                "with WindowInto"
            )


def _joined_type(collections: Sequence[PCollection[object]], by_tag: bool) -> object:
    """The type of a key with what each collection has for it."""
    pairs = [pair(collection.element_type) or (Any, Any) for collection in collections]
    key = union(key for key, _ in pairs)
    if by_tag:
        values = iterable_of(union(value for _, value in pairs))
        return tuple_of([key, GenericAlias(dict, (Any, values))])
    return tuple_of([key, tuple_of(iterable_of(value) for _, value in pairs)])


class _Tag:
    """Puts the number of its collection to each value."""

    def __init__(self, index: int) -> None:
        self._index = index

    def of(self, collection: PCollection[object]) -> PCollection[object]:
        """The collection with tagged values."""
        return collection | f"Tag{self._index}" >> Map(self)

    def __call__(self, pair: tuple[object, object]) -> tuple[object, tuple[int, object]]:
        key, value = pair
        return key, (self._index, value)


class _InOrder:
    """Sorts a key's tagged values into a list for each collection."""

    def __init__(self, count: int) -> None:
        self._count = count

    def _lists(self, values: Iterable[tuple[int, object]]) -> list[list[object]]:
        lists: list[list[object]] = [[] for _ in range(self._count)]
        for index, value in values:
            lists[index].append(value)
        return lists

    def __call__(self, pair: tuple[object, Iterable[tuple[int, object]]]) -> tuple[object, object]:
        key, values = pair
        return key, tuple(self._lists(values))


class _ByTag(_InOrder):
    """The same, by tag."""

    def __init__(self, tags: list[object]) -> None:
        super().__init__(len(tags))
        self._tags = tags

    def __call__(self, pair: tuple[object, Iterable[tuple[int, object]]]) -> tuple[object, object]:
        key, values = pair
        return key, dict(zip(self._tags, self._lists(values), strict=True))
