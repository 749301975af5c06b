"""What: pairs (key, value), taken apart and put together (`Keys`, `Values`, `KvSwap`, `WithKeys`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.sdk.ptransform import ptransform_fn
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import Map
from headrace.sdk.types.hints import pair, tuple_of

Pair = tuple[object, object]


@ptransform_fn
def Keys(pairs: PCollection[object], label: str = "Keys") -> PCollection[object]:
    """The keys of pairs.

    >>> Keys().label
    'Keys'
    """
    return pairs | label >> Map(_key).with_input_types(Any).with_output_types(_types(pairs)[0])


@ptransform_fn
def Values(pairs: PCollection[object], label: str = "Values") -> PCollection[object]:
    """The values of pairs."""
    return pairs | label >> Map(_value).with_input_types(Any).with_output_types(_types(pairs)[1])


@ptransform_fn
def KvSwap(pairs: PCollection[object], label: str = "KvSwap") -> PCollection[object]:
    """Pairs (value, key) of pairs (key, value)."""
    key, value = _types(pairs)
    return pairs | label >> Map(_swapped).with_input_types(Any).with_output_types(tuple_of([value, key]))


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
    return values | "Key" >> Map(lambda element: (k, element))


class _KeyedBy:
    """Puts its key before an element."""

    def __init__(self, key_of: Callable[..., object]) -> None:
        self._key_of = key_of

    def __call__(self, element: object, *args: object, **kwargs: object) -> Pair:
        return self._key_of(element, *args, **kwargs), element


def _types(pairs: PCollection[object]) -> tuple[object, object]:
    """Types of keys and values; what is no pair is refused where it is met, as anything that unpacks will do."""
    return pair(pairs.element_type) or (Any, Any)


def _key(both: Pair) -> object:
    key, _ = both
    return key


def _value(both: Pair) -> object:
    _, value = both
    return value


def _swapped(both: Pair) -> Pair:
    key, value = both
    return value, key
