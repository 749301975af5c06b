"""Types of values: inference of a value's type, and checks of values against types."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args, get_origin

from headrace.sdk.model.row import Row
from headrace.sdk.typehints.consistency import is_consistent_with
from headrace.sdk.typehints.hints import RowTypeConstraint, normal, tuple_of, union, union_members

_LOOKED_AT = 10_000
"""Greatest size of a collection whose values are inspected to infer its type."""
_CONTAINERS = (list, set, frozenset)
_PLAIN = frozenset([type(None), bool, bytes, float, int, str])


def type_of(value: object) -> object:
    """The type of a value, inferred from the value and the items inside it.

    >>> type_of(("a", [1, 2.5]))
    tuple[str, list[typing.Union[float, int]]]
    >>> type_of([]), type_of(Row(a=1))
    (list[typing.Any], Row(a=int))
    """
    kind = type(value)
    if kind is tuple:
        return tuple_of(map(type_of, cast("tuple[object, ...]", value)))
    if kind in _CONTAINERS:
        return types.GenericAlias(kind, (type_of_all(cast("Collection[object]", value)),))
    if kind is dict:
        items = cast("dict[object, object]", value)
        return types.GenericAlias(dict, (type_of_all(items), type_of_all(items.values())))
    if kind is Row:
        return RowTypeConstraint(tuple((name, type_of(each)) for name, each in cast(Row, value).as_dict().items()))
    return kind


def type_of_all(values: Collection[object]) -> object:
    """The union of the types of the values; `Any` if there are no values, or too many to inspect."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return union(sorted(kinds, key=str))
    return union(map(type_of, values)) if len(values) <= _LOOKED_AT else Any


def conforms(value: object, hint: object) -> bool:
    """Whether a value and all items inside it are of a type; items that cannot be inspected count as conforming.

    >>> conforms([1, "a"], list[int]), conforms((1, "a"), tuple[int, str]), conforms(2, float)
    (False, True, True)
    """
    hint = normal(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    members = union_members(hint)
    if len(members) > 1:
        return any(conforms(value, member) for member in members)
    if isinstance(hint, RowTypeConstraint):
        return all(hasattr(value, name) and conforms(getattr(value, name), kind) for name, kind in hint.fields)
    if not is_consistent_with(type(value), get_origin(hint) or hint):
        return False
    arguments = get_args(hint)
    return not arguments or _conforms_inside(value, get_origin(hint), arguments)


def _conforms_inside(value: object, origin: object, arguments: Sequence[object]) -> bool:
    if isinstance(value, tuple) and origin is tuple:
        if len(arguments) == 2 and arguments[1] is ...:
            return all(conforms(each, arguments[0]) for each in value)
        return len(value) == len(arguments) and all(map(conforms, value, arguments))
    if isinstance(value, Mapping) and len(arguments) == 2:
        return all(conforms(key, arguments[0]) and conforms(each, arguments[1]) for key, each in value.items())
    # Other iterables are not inspected, as iteration could exhaust them.
    if isinstance(value, Collection) and len(arguments) == 1:
        return isinstance(value, (str, bytes)) or all(conforms(each, arguments[0]) for each in value)
    return True


def is_whole(given: object) -> bool:
    """Whether a value is a whole number; True and False do not count as whole numbers.

    >>> is_whole(3), is_whole("3"), is_whole(True)
    (True, False, False)
    """
    return isinstance(given, int) and not isinstance(given, bool)
