"""Consistency: whether a given type fits a wanted type (`apache_beam.typehints.is_consistent_with`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin

from headrace.sdk.model.row import Row
from headrace.sdk.typehints.hints import RowTypeConstraint, fields_of, item, normal, tuple_of, union_members


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
