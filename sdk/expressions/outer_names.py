"""How: what names in a function's source mean that come from outside: global ones, and variables of outer functions."""

from __future__ import annotations

import builtins
from types import FunctionType, ModuleType

CONSTANTS = (str, int, float, bool)
"""Types of values that are the same as long as they are equal."""


def outer_value(function: FunctionType, path: str) -> object:
    """The value of a name in a function now, or of a name in a module (`math.pi`); None if it is not defined.

    >>> import math
    >>> outer_value(lambda number: number * math.pi, "math.pi")
    3.141592653589793
    """
    name, *attributes = path.split(".")
    value = _value(function, name)
    for attribute in attributes:
        # What a class or an instance has may be computed anew at each look.
        value = vars(value).get(attribute) if isinstance(value, ModuleType) else None
    return value


def _value(function: FunctionType, name: str) -> object:
    inner = function.__code__.co_freevars
    if name in inner:
        try:
            return (function.__closure__ or ())[inner.index(name)].cell_contents
        except (ValueError, IndexError):
            return None
    scope = function.__globals__
    own = scope.get("__builtins__", builtins)
    return scope.get(name, (own if isinstance(own, dict) else vars(own)).get(name))


def is_still(function: FunctionType, path: str, value: object) -> bool:
    """Whether a name has a value that it had before; equal constants of one type are the same value."""
    found = outer_value(function, path)
    # Equal floats may differ in sign, and pickling makes other objects.
    return found is value or (type(value) in CONSTANTS and type(found) is type(value) and repr(found) == repr(value))
