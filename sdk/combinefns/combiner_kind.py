"""Names of CombineFns in the descriptions of stored state, stable from program to program."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.lowlevel.stored_names import instance_name
from headrace.sdk.combinefns.combine_fn import CallableCombineFn, CombineFn, CurriedCombineFn
from headrace.sdk.model.labels import argument_label


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
    inner = [combiner_kind(part) for part in _inner_combiners(combine)]
    return instance_name(combine) + (f"({', '.join(inner)})" if inner else "")


def combiner_signature(combine: object) -> dict[str, str]:
    """The aspects of a state signature that describe a combiner: its kind, and its arguments if there are any.

    0.1.0 stored the kind only; arguments are compared if the checkpoint has them.

    >>> from headrace.sdk.combinefns.collecting import TopCombineFn
    >>> combiner_signature(TopCombineFn(2, key=len))
    {'combiner': 'TopCombineFn', "the combiner's arguments": 'n=2, key=len, reverse=False'}
    """
    arguments = ", ".join(combiner_arguments(combine))
    return {"combiner": combiner_kind(combine)} | ({"the combiner's arguments": arguments} if arguments else {})


def combiner_arguments(combine: object) -> Iterable[str]:
    """The texts of the arguments of a combiner and of the combiners in it on which accumulators depend."""
    if not isinstance(combine, CombineFn):
        return
    for name, value in combine.state_arguments().items():
        yield f"{name}={argument_label(value)}"
    for part in _inner_combiners(combine):
        yield from combiner_arguments(part)


def _inner_combiners(combine: object) -> Iterable[object]:
    for value in getattr(combine, "__dict__", {}).values():
        found = value if isinstance(value, (list, tuple)) else [value]
        yield from (part for part in found if isinstance(part, CombineFn))
