"""Immutable values: those that user code cannot change, so that one object can stand for all decodings of its bytes.

They are numbers, text, bytes, dates and times, members of enumerations; tuples, named tuples and frozen dataclasses of
such. A frozen set is none of them: its items may have another order after decoding. `object.__setattr__` changes
a frozen dataclass all the same; classes with methods that call it, or that use `__dict__`, count as mutable.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache
from operator import attrgetter
from types import FunctionType
from typing import cast
from uuid import UUID
from zoneinfo import ZoneInfo

from headrace.lowlevel.class_lookup import form_of

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, date, timedelta, timezone, Decimal, UUID})
"""Classes without a mutable part. Classes that extend one of them are not meant."""
_ZONED = frozenset({datetime, time})
"""Classes whose instances are immutable if their time zone is."""
_ZONES = frozenset({type(None), timezone, ZoneInfo})
_DEEPEST = 8
"""Levels of tuples and dataclasses down to which a value is looked at; deeper ones count as mutable."""
_CLASSES = 1_000
"""Number of classes that are remembered."""
_GENERATED = frozenset({"__init__", "__post_init__", "__setattr__", "__delattr__"})
"""Methods of a frozen dataclass that may set fields, as no decoding and no user of the instance calls them."""
_CHANGING = frozenset({"__setattr__", "__delattr__", "__dict__", "vars"})
"""Names by which the code of a method gets round the protection of a frozen dataclass."""
_Parts = Callable[[object], Iterable[object] | None]
"""A function of an instance that gives its parts, or None if it has more than its class says."""


def is_immutable(value: object, deepest: int = _DEEPEST) -> bool:
    """Whether user code cannot change a value; False if that is not certain.

    >>> is_immutable(("tea", 3, (2.5, None))), is_immutable(("tea", [3]))
    (True, False)
    """
    kind: type = type(value)
    if kind in _ATOMS:
        return True
    if kind is tuple:
        parts: Iterable[object] | None = cast("tuple[object, ...]", value)
    else:
        parts_of = _parts_of(kind)
        parts = None if parts_of is None else parts_of(value)
    if parts is None or not deepest:
        return False
    # Most tuples and dataclasses have such parts only: this takes a tenth of a call for each.
    return _ATOMS.issuperset(map(type, parts)) or all(is_immutable(part, deepest - 1) for part in parts)


@lru_cache(_CLASSES)
def _parts_of(kind: type) -> _Parts | None:
    """How the parts of a class's instances are found; None if it has instances that can change."""
    form = form_of(kind)
    if kind in _ZONED:
        return _of_zoned
    if issubclass(kind, Enum):
        return _nothing if kind.__reduce_ex__ is Enum.__reduce_ex__ else None
    if form is None or kind in copyreg.dispatch_table or kind.__getattribute__ is not _getattribute_of(kind):
        return None
    if issubclass(kind, tuple):
        return _itself if _is_named_tuple(kind) else None
    return _fields_of(kind) if _is_frozen(kind) else None


def _getattribute_of(kind: type) -> object:
    return tuple.__getattribute__ if issubclass(kind, tuple) else object.__getattribute__


def _of_zoned(value: object) -> Iterable[object] | None:
    return () if type(cast(datetime, value).tzinfo) in _ZONES else None


def _nothing(value: object) -> Iterable[object]:
    # A member of an enumeration is the same object after decoding.
    return ()


def _itself(value: object) -> Iterable[object]:
    return cast("tuple[object, ...]", value)


def _is_named_tuple(kind: type) -> bool:
    """Whether instances have nothing but their fields, and are made by no code of the user's."""
    made, unmade = (getattr(getattr(kind, name), "__module__", None) for name in ("__new__", "__getnewargs__"))
    return not kind.__dictoffset__ and str(made).startswith("namedtuple_") and unmade == "collections"


def _is_frozen(kind: type) -> bool:
    """Whether instances are frozen, and neither made nor changed by other code than that of `dataclasses`."""
    if not is_dataclass(kind) or "__dataclass_params__" not in vars(kind) or kind.__new__ is not object.__new__:
        return False
    for name in ("__setattr__", "__delattr__"):
        code = getattr(getattr(kind, name), "__code__", None)
        if code is None or "FrozenInstanceError" not in (*code.co_names, *code.co_freevars):
            return False
    return not any(_changes(name, entry) for each in kind.__mro__[:-1] for name, entry in vars(each).items())


def _changes(name: str, entry: object) -> bool:
    """Whether an entry of a class may change instances."""
    if isinstance(entry, cached_property):
        return True
    entry = entry.fget if isinstance(entry, property) else entry
    if not isinstance(entry, FunctionType) or name in _GENERATED or entry.__module__ == "dataclasses":
        return False
    return not _CHANGING.isdisjoint(entry.__code__.co_names)


def _fields_of(kind: type) -> _Parts | None:
    """How the fields of a frozen dataclass are read; None if its instances may have others."""
    names = [field.name for field in fields(kind)]
    slots = {slot for each in kind.__mro__[:-1] for slot in _slots(each)}
    if kind.__dictoffset__:
        return None if slots else _in_dict(len(names))
    return _in_slots(names) if slots == {*names} else None


def _slots(kind: type) -> set[str]:
    slots = vars(kind).get("__slots__", ())
    return {slots} if isinstance(slots, str) else {*slots} - {"__weakref__"}


def _in_dict(count: int) -> _Parts:
    def parts(value: object) -> Iterable[object] | None:
        found = value.__dict__
        return found.values() if len(found) == count else None

    return parts


def _in_slots(names: list[str]) -> _Parts:
    get = attrgetter(*names) if names else None

    def parts(value: object) -> Iterable[object] | None:
        if get is None:
            return ()
        try:
            found = get(value)
        except AttributeError:
            return None
        return found if len(names) > 1 else (found,)

    return parts
