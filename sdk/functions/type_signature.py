"""Types of parameters and result that a function states by annotations or decorators (`IOTypeHints`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.sdk.functions.arguments import Arguments, Constant, Given
from headrace.sdk.typehints.hints import normal, tuple_of
from headrace.sdk.typehints.io_type_hints import Hints, annotations_of


@dataclass(frozen=True, slots=True)
class TypeSignature:
    """Types of a function's element, arguments and result; `Any` where the function states none."""

    element: object = Any
    constants: tuple[tuple[str, object, object], ...] = ()
    """Further arguments: parameter, its type, its value."""
    result: object = Any


def type_signature_of(
    function: Callable[..., object], arguments: Arguments, spread: bool, *stated: Hints
) -> TypeSignature:
    """The signature of a function that is called with these arguments.

    Args:
        function: Any callable.
        arguments: Where its arguments come from.
        spread: Whether the element is spread over its parameters.
        *stated: Types stated beside its annotations; later ones take precedence.

    >>> def scale(number: int, factor: float = 1) -> list[float]: ...
    >>> type_signature_of(scale, Arguments((Given.ELEMENT, Constant(2))), False)
    TypeSignature(element=<class 'int'>, constants=(('factor', <class 'float'>, 2),), result=list[float])
    """
    types, result = annotations_of(function)
    names, open_end = _positional_parameters(function, arguments)
    for hints, named in stated:
        types = types | dict(zip(names, hints, strict=False)) | dict(named)
    if spread:
        element = _spread(names, types, len(arguments.positional) - 1, open_end, [hints for hints, _ in stated])
        return TypeSignature(element, (), normal(result))
    element = Any
    constants = []
    sources = [*zip(names, arguments.positional, strict=False), *arguments.named]
    for name, source in sources:
        if source is Given.ELEMENT:
            element = normal(types.get(name, Any))
        elif isinstance(source, Constant) and name in types:
            constants.append((name, normal(types[name]), source.value))
    return TypeSignature(element, tuple(constants), normal(result))


def _positional_parameters(function: Callable[..., object], arguments: Arguments) -> tuple[list[str], bool]:
    """The parameters that take positional arguments, in order, and whether their number is open."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], True
    named = {name for name, _ in arguments.named}
    plain = [each for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD and each.name not in named]
    rest = [each.name for each in parameters if each.kind is each.VAR_POSITIONAL]
    open_end = bool(rest) or any(each.default is not each.empty for each in plain)
    return [*(each.name for each in plain), *rest * len(arguments.positional)], open_end


def _spread(
    names: list[str], types: dict[str, object], constants: int, open_end: bool, stated: list[tuple[object, ...]]
) -> object:
    """The type of a tuple that is spread over parameters; `Any` if its length is not fixed."""
    tuple_hints = [hints[0] for hints in stated if len(hints) == 1]
    if tuple_hints:
        return normal(tuple_hints[-1])
    if open_end or not names:
        return Any
    return tuple_of(normal(types.get(name, Any)) for name in names[: len(names) - constants])
