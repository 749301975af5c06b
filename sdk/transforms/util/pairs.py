"""What: transforms that make pairs (key, value) and take them apart (`Keys`, `Values`, `KvSwap`, `WithKeys`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.lowlevel.records.column_batch import ValueSchema
from headrace.sdk.expressions.batch_view import BatchView, Pair, PairFunction
from headrace.sdk.expressions.element_schema import pair
from headrace.sdk.expressions.expression import literal
from headrace.sdk.graph.ptransform import ptransform_fn
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.typehints.hints import pair as pair_type
from headrace.sdk.typehints.hints import tuple_of


@ptransform_fn
def Keys(pairs: PCollection[object], label: str = "Keys") -> PCollection[object]:
    """Emits the key of each pair (key, value).

    >>> Keys().label
    'Keys'
    """
    return pairs | label >> Map(_Key()).with_input_types(Any).with_output_types(_types(pairs)[0])


@ptransform_fn
def Values(pairs: PCollection[object], label: str = "Values") -> PCollection[object]:
    """Emits the value of each pair (key, value).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("red", 5)]) | Values() | beam.Map(print)
    5
    """
    return pairs | label >> Map(_Value()).with_input_types(Any).with_output_types(_types(pairs)[1])


@ptransform_fn
def KvSwap(pairs: PCollection[object], label: str = "KvSwap") -> PCollection[object]:
    """Turns each pair (key, value) into a pair (value, key).

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create([("red", 5)]) | KvSwap() | beam.Map(print)
    (5, 'red')
    """
    key, value = _types(pairs)
    return pairs | label >> Map(_Swapped()).with_input_types(Any).with_output_types(tuple_of([value, key]))


@ptransform_fn
def WithKeys(values: PCollection[object], /, k: object, *args: object, **kwargs: object) -> PCollection[object]:
    """Turns each element into a pair (key, element).

    Args:
        values: The collection.
        k: The key of all elements, or a function from an element to its key.
        *args: Further positional arguments of the function.
        **kwargs: Further named arguments of the function.

    Raises:
        TypeError: Further arguments are given for a key that is not a function.

    >>> WithKeys(len).label
    'WithKeys(len)'
    """
    if callable(k):
        return values | "Key" >> Map(_KeyedBy(k), *args, **kwargs)
    if args or kwargs:
        raise TypeError(f"WithKeys of the constant key {k!r:.80} takes no further arguments; give it a function")
    return values | "Key" >> Map(_Under(k))


class _KeyedBy:
    """Pairs an element with the key that a function gives for it."""

    def __init__(self, key_of: Callable[..., object]) -> None:
        self._key_of = key_of

    def __call__(self, element: object, *args: object, **kwargs: object) -> Pair:
        return self._key_of(element, *args, **kwargs), element

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.shape_of(self._key_of), view.shape)

    def column_parts(self) -> list[Callable[..., object]]:
        """See `ColumnFunction`."""
        return [self._key_of]


class _Under(PairFunction):
    """Pairs every element with the same key."""

    def __init__(self, key: object) -> None:
        self._key = key

    def __call__(self, element: object) -> Pair:
        return self._key, element

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return pair(view.nothing() if self._key is None else view.shape_of(literal(self._key)), view.shape)


def _types(pairs: PCollection[object]) -> tuple[object, object]:
    """The types of keys and values; `Any` for both if the elements are not known to be pairs."""
    return pair_type(pairs.element_type) or (Any, Any)


def _no_pair(element: object) -> str:
    return f"{element!r:.200} is no pair (key, value); make pairs with Map first"


class _Key(PairFunction):
    def __call__(self, both: Pair) -> object:
        try:
            key, _ = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return key

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return view.pair()[0]


class _Value(PairFunction):
    def __call__(self, both: Pair) -> object:
        try:
            _, value = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return value

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        return view.pair()[1]


class _Swapped(PairFunction):
    def __call__(self, both: Pair) -> Pair:
        try:
            key, value = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return value, key

    def on_columns(self, view: BatchView) -> ValueSchema:
        """See `ColumnFunction`."""
        key, value = view.pair()
        return pair(value, key)
