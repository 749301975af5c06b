"""Names of CombineFns in the descriptions of stored state, stable from program to program."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.stored_names import instance_name
from headrace.sdk.combinefns.combine_fn import CallableCombineFn, CombineFn, CurriedCombineFn


def combiner_kind(combine: object) -> str:
    """The name of the kind of a combiner, which identifies the form of its accumulators.

    >>> combiner_kind(CallableCombineFn(sum)), combiner_kind(CallableCombineFn(lambda values: 0))
    ('sum', 'a lambda')
    """
    if combine is None:
        return "none"
    if isinstance(combine, CurriedCombineFn):
        return combiner_kind(combine.inner)
    if isinstance(combine, CallableCombineFn):
        name = str(getattr(combine.function, "__qualname__", type(combine.function).__qualname__))
        return "a lambda" if "<lambda>" in name else name
    inner = [combiner_kind(part) for value in getattr(combine, "__dict__", {}).values() for part in _combiners(value)]
    return instance_name(combine) + (f"({', '.join(inner)})" if inner else "")


def _combiners(value: object) -> Iterable[object]:
    found = value if isinstance(value, (list, tuple)) else [value]
    return (part for part in found if isinstance(part, CombineFn))
