"""Consistency: whether a type, or a value, fits a wanted type (`apache_beam.typehints.is_consistent_with`).

The input type of a step binds the variables of a wanted type, which gives the output type of the step.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args, get_origin

from headrace.sdk.model.row import Row
from headrace.sdk.typehints.hints import RowTypeConstraint, fields_of, item, normal, tuple_of, union, union_members


def is_consistent_with(given: object, wanted: object) -> bool:
    """Whether a value of the given type may be a value of the wanted type; unknown types are consistent with all.

    >>> is_consistent_with(bool, int), is_consistent_with(list[int], Iterable[str]), is_consistent_with(Any, str)
    (True, False, True)
    """
    return _fits(normal(given), normal(wanted))


def _fits(given: object, wanted: object) -> bool:
    if any(hint is Any or isinstance(hint, TypeVar) for hint in (given, wanted)) or given == wanted:
        return True
    if len(members := union_members(given)) > 1:
        return all(_fits(member, wanted) for member in members)
    if len(members := union_members(wanted)) > 1:
        return any(_fits(given, member) for member in members)
    if isinstance(wanted, RowTypeConstraint) or wanted is Row:
        return _has_fields(given, wanted)
    if isinstance(given, RowTypeConstraint):
        # A step may declare rows as its output and emit named tuples.
        given = tuple_of(kind for _, kind in given.fields) if _class(wanted) is tuple else Row
    return _class_fits(_class(given), _class(wanted)) and _arguments_fit(given, wanted)


def _has_fields(given: object, wanted: object) -> bool:
    have = fields_of(given)
    if have is None or not isinstance(wanted, RowTypeConstraint):
        return have is not None or given is Row or not isinstance(_class(given), type)
    return all(name in have and _fits(normal(have[name]), normal(kind)) for name, kind in wanted.fields)


def _class(hint: object) -> object:
    return get_origin(hint) or hint


def _class_fits(given: object, wanted: object) -> bool:
    if not isinstance(given, type) or not isinstance(wanted, type):
        return True
    if wanted in _NUMBERS and given in _NUMBERS:
        return _NUMBERS.index(given) <= _NUMBERS.index(wanted)
    try:
        return issubclass(given, wanted)
    except TypeError:
        return True


_NUMBERS = (bool, int, float, complex)
"""Each type is consistent with those after it."""


def _arguments_fit(given: object, wanted: object) -> bool:
    """Whether the type arguments are consistent, given that the classes are."""
    have, want = get_args(given), get_args(wanted)
    if not want:
        return True
    if _class(wanted) is tuple:
        return _tuple_fits(_as_tuple(given), want)
    if len(want) == 1 and isinstance(wanted_class := _class(wanted), type) and issubclass(wanted_class, Iterable):
        inner = item(given)
        return inner is None or _fits(inner, want[0])
    same = _class(given) is _class(wanted) or _is_kind(given, Mapping)
    if not same or len(have) != len(want):
        return True
    return all(map(_fits, have, want))


def _is_kind(hint: object, kind: type) -> bool:
    found = _class(hint)
    return isinstance(found, type) and issubclass(found, kind)


def _as_tuple(given: object) -> Sequence[object]:
    """The types of a tuple's items; empty if the types are not known."""
    fields = fields_of(given)
    return [normal(kind) for kind in fields.values()] if fields else get_args(given)


def _tuple_fits(have: Sequence[object], want: Sequence[object]) -> bool:
    if not have:
        return True
    if len(want) == 2 and want[1] is ...:
        return all(_fits(kind, want[0]) for kind in have if kind is not ...)
    if len(have) == 2 and have[1] is ...:
        return all(_fits(have[0], kind) for kind in want)
    return len(have) == len(want) and all(map(_fits, have, want))


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


def match(stated: object, given: object) -> dict[TypeVar, object]:
    """Type variable of the declared type -> the type that the given type binds it to.

    >>> T = TypeVar("T")
    >>> match(list[T], list[int]) == {T: int}
    True
    """
    stated, given = normal(stated), normal(given)
    if isinstance(stated, TypeVar):
        return {stated: given}
    if given is Any:
        return {}
    members = union_members(stated)
    if len(members) > 1:
        open_members = [member for member in members if isinstance(member, TypeVar)]
        rest = union(kind for kind in union_members(given) if kind not in members)
        return {member: rest for member in open_members[:1]}
    return _match_inside(stated, given)


def _match_inside(stated: object, given: object) -> dict[TypeVar, object]:
    want, have = get_args(stated), get_args(given)
    if len(want) == 1 and get_origin(stated) is not tuple:
        inner = item(given)
        return match(want[0], inner) if inner is not None else {}
    if len(want) != len(have):
        return {}
    found: dict[TypeVar, object] = {}
    for one, other in zip(want, have, strict=True):
        if one is not ... and other is not ...:
            for variable, kind in match(one, other).items():
                found[variable] = union([found[variable], kind]) if variable in found else kind
    return found


def substituted(hint: object, found: dict[TypeVar, object]) -> object:
    """A type whose type variables are replaced by the types bound to them; an unbound variable becomes `Any`."""
    hint = normal(hint)
    if isinstance(hint, TypeVar):
        return found.get(hint, Any)
    if isinstance(hint, RowTypeConstraint):
        return RowTypeConstraint(tuple((name, substituted(kind, found)) for name, kind in hint.fields))
    members = union_members(hint)
    if len(members) > 1:
        return union(substituted(member, found) for member in members)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or not arguments:
        return hint
    inner = tuple(argument if argument is ... else substituted(argument, found) for argument in arguments)
    return types.GenericAlias(origin, inner)
