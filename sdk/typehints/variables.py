"""Type variables: a step's input type binds them, which gives the step's output type (`typehints.typehints`)."""

from __future__ import annotations

import types
from typing import Any, TypeVar, get_args, get_origin

from headrace.sdk.typehints.hints import RowTypeConstraint, item, normal, union, union_members


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
