"""Parameter and result types of a function, from its annotations (`apache_beam.typehints.decorators`)."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])
_RESULTS: dict[object, type] = {len: int, repr: str, ascii: str, hash: int, id: int, callable: bool, chr: str, ord: int}
"""Built-in function, which has no annotations -> type of its result."""

_NONE = "_headrace_no_annotations"
_disabled = False


def no_annotations(fn: FunctionT) -> FunctionT:
    """Decorator: the annotations of the function are not looked at.

    >>> @no_annotations
    ... def text(number: int) -> str: ...
    >>> annotations_of(text)
    ({}, typing.Any)
    """
    setattr(fn, _NONE, True)
    return fn


def disable_type_annotations() -> None:
    """Have no annotation of any function looked at, from now on in this process."""
    global _disabled
    _disabled = True


def annotations_of(function: object) -> tuple[dict[str, object], object]:
    """The parameter types of a callable by name, and its result type.

    Parameters without an annotation are left out; a result without an annotation is `Any`. A class is its own result.
    """
    if _disabled or getattr(function, _NONE, False):
        return {}, Any
    if isinstance(function, type):
        return {}, function
    if isinstance(function, functools.partial):
        types, result = annotations_of(function.func)
        return {name: kind for name, kind in types.items() if name not in function.keywords}, result
    if not inspect.isroutine(function):
        function = type(function).__call__ if callable(function) else function
    try:
        types = typing.get_type_hints(function)
    except Exception:
        # An annotation names something that only type checkers import; the annotations that are not strings are used.
        found = getattr(function, "__annotations__", {})
        types = {name: kind for name, kind in found.items() if not isinstance(kind, str)}
    result = types.pop("return", _RESULTS.get(function, Any) if inspect.isbuiltin(function) else Any)
    return dict(types), result
