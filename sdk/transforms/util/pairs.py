"""What: pairs (key, value), taken apart and put together (`Keys`, `Values`, `KvSwap`, `WithKeys`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.lowlevel.columns import Shape
from headrace.sdk.columns.expression import col
from headrace.sdk.columns.shape import pair
from headrace.sdk.ptransform import ptransform_fn
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import Map
from headrace.sdk.types.hints import pair as pair_type
from headrace.sdk.types.hints import tuple_of

if TYPE_CHECKING:
    from headrace.sdk.columns.view import View

Pair = tuple[object, object]


@ptransform_fn
def Keys(pairs: PCollection[object], label: str = "Keys") -> PCollection[object]:
    """The keys of pairs.

    >>> Keys().label
    'Keys'
    """
    return pairs | label >> Map(_Key()).with_input_types(Any).with_output_types(_types(pairs)[0])


@ptransform_fn
def Values(pairs: PCollection[object], label: str = "Values") -> PCollection[object]:
    """The values of pairs."""
    return pairs | label >> Map(_Value()).with_input_types(Any).with_output_types(_types(pairs)[1])


@ptransform_fn
def KvSwap(pairs: PCollection[object], label: str = "KvSwap") -> PCollection[object]:
    """Pairs (value, key) of pairs (key, value)."""
    key, value = _types(pairs)
    return pairs | label >> Map(_Swapped()).with_input_types(Any).with_output_types(tuple_of([value, key]))


@ptransform_fn
def WithKeys(values: PCollection[object], /, k: object, *args: object, **kwargs: object) -> PCollection[object]:
    """Pairs (key, element).

    Args:
        values: The collection.
        k: The key of all, or a function from an element to its key.
        *args: Further positional arguments of the function.
        **kwargs: Further named arguments of the function.

    >>> WithKeys(len).label
    'WithKeys(len)'
    """
    if callable(k):
        return values | "Key" >> Map(_KeyedBy(k), *args, **kwargs)
    if args or kwargs:
        raise TypeError(f"WithKeys of the constant key {k!r:.80} takes no further arguments; give it a function")
    return values | "Key" >> Map(_Under(k))


class _KeyedBy:
    """Puts its key before an element."""

    def __init__(self, key_of: Callable[..., object]) -> None:
        self._key_of = key_of

    def __call__(self, element: object, *args: object, **kwargs: object) -> Pair:
        return self._key_of(element, *args, **kwargs), element

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return pair(view.shape_of(self._key_of), view.shape)

    def column_parts(self) -> list[Callable[..., object]]:
        """See `ColumnFunction`."""
        return [self._key_of]


class _Under:
    """Puts the same key before every element."""

    def __init__(self, key: object) -> None:
        self._key = key

    def __call__(self, element: object) -> Pair:
        return self._key, element

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return pair(view.nothing() if self._key is None else view.shape_of(col.literal(self._key)), view.shape)

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


def _types(pairs: PCollection[object]) -> tuple[object, object]:
    """Types of keys and values; what is no pair is refused where it is met, as anything that unpacks will do."""
    return pair_type(pairs.element_type) or (Any, Any)


def _no_pair(element: object) -> str:
    return f"{element!r:.200} is no pair (key, value); make pairs with Map first"


class _OfPairs:
    """A function of pairs, known by what it does with their columns."""

    def column_parts(self) -> tuple[()]:
        """See `ColumnFunction`."""
        return ()


class _Key(_OfPairs):
    def __call__(self, both: Pair) -> object:
        try:
            key, _ = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return key

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return view.pair()[0]


class _Value(_OfPairs):
    def __call__(self, both: Pair) -> object:
        try:
            _, value = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return value

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return view.pair()[1]


class _Swapped(_OfPairs):
    def __call__(self, both: Pair) -> Pair:
        try:
            key, value = both
        except (TypeError, ValueError):
            raise TypeError(_no_pair(both)) from None
        return value, key

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        key, value = view.pair()
        return pair(value, key)


class Second(_OfPairs):
    """The value of a pair, as of key and value."""

    def __call__(self, both: Pair) -> object:
        """See the class."""
        return both[1]

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return view.pair()[1]


class UnderNone(_OfPairs):
    """Pairs of None and the element: all elements under one key."""

    def __call__(self, element: object) -> tuple[None, object]:
        """See the class."""
        return None, element

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return pair(view.nothing(), view.shape)


class WithNothing(_OfPairs):
    """Pairs of the element and None: only how often it comes is asked for."""

    def __call__(self, element: object) -> tuple[object, None]:
        """See the class."""
        return element, None

    def on_columns(self, view: View) -> Shape:
        """See `ColumnFunction`."""
        return pair(view.shape, view.nothing())
