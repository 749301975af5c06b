"""What annotations say of the types that a function takes and gives (`apache_beam.typehints.decorators`)."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from headrace.sdk.types.hints import normal

_RESULTS: dict[object, type] = {len: int, repr: str, ascii: str, hash: int, id: int, callable: bool, chr: str, ord: int}
"""What functions give that say nothing of it themselves."""


def annotations_of(function: object) -> tuple[dict[str, object], object]:
    """The types of a callable's parameters by name, and of its result; what it does not say is left out or `Any`."""
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
        # Names that only type checkers see: what is no text is known all the same.
        found = getattr(function, "__annotations__", {})
        types = {name: kind for name, kind in found.items() if not isinstance(kind, str)}
    result = types.pop("return", _RESULTS.get(function, Any) if inspect.isbuiltin(function) else Any)
    return dict(types), result


@functools.cache
def collection_types(expand: Callable[..., object]) -> tuple[object, object]:
    """The element types in `expand(self, inputs: PCollection[A]) -> PCollection[B]`; `Any` where it does not say."""
    from headrace.sdk.pvalue import PCollection

    types, result = annotations_of(expand)

    def inner(hint: object) -> object:
        arguments = typing.get_args(hint)
        return normal(arguments[0]) if typing.get_origin(hint) is PCollection and arguments else Any

    return inner(next(iter(types.values()), Any)), inner(result)
