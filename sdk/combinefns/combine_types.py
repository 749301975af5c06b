"""Types of the values and the result of a `CombineFn`, from decorators or annotations of its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.sdk.combinefns.combine_fn import CallableCombineFn, CombineFn, CurriedCombineFn, WithArguments
from headrace.sdk.typehints.annotations import annotations_of
from headrace.sdk.typehints.hints import item, normal
from headrace.sdk.typehints.io_type_hints import stated_input, stated_output


def combine_types(combine_fn: CombineFn[object, object, object]) -> tuple[object, object]:
    """The types of the values and of the result; `Any` for a type that is not declared.

    >>> from headrace.sdk.combinefns.numeric import CountCombineFn
    >>> combine_types(CountCombineFn())
    (typing.Any, <class 'int'>)
    """
    while isinstance(combine_fn, CurriedCombineFn):
        combine_fn = combine_fn.inner
    if isinstance(combine_fn, CallableCombineFn):
        return _of_function(combine_fn.function)
    taken, given = _parameter(combine_fn.add_input, 1), annotations_of(combine_fn.extract_output)[1]
    return _stated(combine_fn, taken, given)


def _stated(stating: object, taken: object, given: object) -> tuple[object, object]:
    """The types that decorators declare, else the given types from annotations."""
    hints, _ = stated_input(stating)
    result, _ = stated_output(stating)
    return normal(hints[0] if hints else taken), normal(given if result is None else result)


def _of_function(function: Callable[..., object]) -> tuple[object, object]:
    """The types for a function of an iterable; the hint of its parameter may be the iterable or the single value."""
    if isinstance(function, WithArguments):
        function = function.function
    if isinstance(function, type):
        return Any, Any
    values, given = _stated(function, _parameter(function, 0), annotations_of(function)[1])
    taken = item(values)
    # A hint that is not iterable means the type of the values.
    return (values if taken is None else taken), given


def _parameter(function: Callable[..., object], place: int) -> object:
    """The type of the parameter at a place, from 0 and without `self`; `Any` if there is no annotation."""
    types, _ = annotations_of(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    names = names[1:] if hasattr(function, "__self__") else names
    return types.get(names[place], Any) if len(names) > place else Any
