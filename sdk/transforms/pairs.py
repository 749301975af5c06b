"""What: pairs (key, value), taken apart and put together (`Keys`, `Values`, `KvSwap`, `WithKeys`)."""

from __future__ import annotations

from collections.abc import Callable

from headrace.sdk.ptransform import ptransform_fn
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.element import Map

Pair = tuple[object, object]


@ptransform_fn
def Keys(pairs: PCollection[object], label: str = "Keys") -> PCollection[object]:
    """The keys of pairs.

    >>> Keys().label
    'Keys'
    """
    return pairs | label >> Map(_key)


@ptransform_fn
def Values(pairs: PCollection[object], label: str = "Values") -> PCollection[object]:
    """The values of pairs."""
    return pairs | label >> Map(_value)


@ptransform_fn
def KvSwap(pairs: PCollection[object], label: str = "KvSwap") -> PCollection[object]:
    """Pairs (value, key) of pairs (key, value)."""
    return pairs | label >> Map(_swapped)


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


def _key(pair: Pair) -> object:
    key, _ = pair
    return key


def _value(pair: Pair) -> object:
    _, value = pair
    return value


def _swapped(pair: Pair) -> Pair:
    key, value = pair
    return value, key
