"""Types of what a `CombineFn` takes and gives, by decorators or the annotations of its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.sdk.transforms.combinefn import CallableCombineFn, CombineFn, CurriedCombineFn, WithArguments
from headrace.sdk.types.annotations import annotations_of
from headrace.sdk.types.hints import item, normal


def combine_types(combine_fn: CombineFn[object, object, object]) -> tuple[object, object]:
    """The type of the values and that of the result; `Any` where nothing is said.

    >>> from headrace.sdk.transforms.numeric import CountCombineFn
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
    """What decorators say, else what annotations do."""
    hints, _ = getattr(stating, "input_hints", ((), {}))
    result, _ = getattr(stating, "output_hints", (None, {}))
    return normal(hints[0] if hints else taken), normal(given if result is None else result)


def _of_function(function: Callable[..., object]) -> tuple[object, object]:
    """A function takes an iterable of values, and iterables of its own results; so both kinds of hints say it."""
    if isinstance(function, WithArguments):
        function = function.function
    if isinstance(function, type):
        return Any, Any
    values, given = _stated(function, _parameter(function, 0), annotations_of(function)[1])
    taken = item(values)
    # One value for an iterable of them: what was meant is known nevertheless.
    return (values if taken is None else taken), given


def _parameter(function: Callable[..., object], place: int) -> object:
    """The type of a parameter."""
    types, _ = annotations_of(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    names = names[1:] if hasattr(function, "__self__") else names
    return types.get(names[place], Any) if len(names) > place else Any
