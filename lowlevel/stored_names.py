"""Stored names: names of the package's classes in stored data, which do not change when a class is renamed or moved.

A registered class is an attribute of the module `headrace.stored` in pickles and keys; a fingerprint has only its
stored name. Instances of subclasses, which a program may define, are pickled by the subclass's module and name.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar, cast

MODULE = "headrace.stored"
"""The module in which unpickling looks for stored names. It is part of stored data: never change it."""
Reduce = Callable[[Any], tuple[object, ...]]
_T = TypeVar("_T")
_getstate = methodcaller("__getstate__")


class Maker(partial[object]):
    """A stand-in for a class in pickles: a function from the stored parts of an instance to the instance.

    It is pickled as a name in `MODULE`.
    """

    name: str
    kind: type | None
    """The class; None for a function."""

    def __reduce__(self) -> str:
        return self.name


_MAKERS: dict[str, Maker] = {}
_NAMES: dict[object, str] = {}
"""Class -> stored name in fingerprints."""
_STORED: dict[object, str] = {}
"""Class -> stored name in pickles and keys."""


def maker(name: str) -> Maker | None:
    """The maker that is registered under a name; None if there is none.

    >>> from headrace.lowlevel.time import Timestamp
    >>> maker("Timestamp")(1_500_000)
    Timestamp(1.500000)
    """
    return _MAKERS.get(name)


def stored_as(
    name: str, make: Callable[..., object] | None = None, parts: Callable[..., tuple[object, ...]] | None = None
) -> Callable[[type[_T]], type[_T]]:
    """A decorator that registers a class whose instances are stored.

    By default, a named tuple is stored as its items, a member of an enumeration as its name, and any other instance as
    the result of its `__getstate__`.

    Args:
        name: The stored name. Never change it, and never use it for another class.
        make: Function that makes an instance of the parts; by default the class.
        parts: Function that returns an instance's parts, as arguments of `make`.
    """

    def register(kind: type[_T]) -> type[_T]:
        _NAMES[kind] = _STORED[kind] = name
        reduce = _reduce_of(kind, partial(_registered, name, kind), make, parts)
        copyreg.pickle(kind, cast("Callable[[_T], tuple[Any, ...]]", reduce))
        return kind

    return register


def stored_function(name: str, function: Callable[..., object]) -> Maker:
    """Register a function that makes instances; its maker is the first item of a `__reduce__` result."""
    return _registered(name, None, function)


def named(name: str) -> Callable[[type[_T]], type[_T]]:
    """A decorator that registers a class whose name is in fingerprints only; its instances are not stored."""

    def register(kind: type[_T]) -> type[_T]:
        _NAMES[kind] = name
        return kind

    return register


def addressed(name: str) -> Callable[[type[_T]], type[_T]]:
    """A decorator that registers a class which is itself stored, by its `address`, but whose instances are not."""

    def register(kind: type[_T]) -> type[_T]:
        _NAMES[kind] = _STORED[kind] = name
        _registered(name, kind, kind)
        return kind

    return register


def is_stored(kind: type) -> bool:
    """Whether pickles have a stored name for a class."""
    return kind in _STORED


def public_name(kind: type) -> str:
    """The name of a class in fingerprints: its stored name, or its qualified name if it is not registered.

    >>> public_name(dict)
    'dict'
    """
    return _NAMES.get(kind) or kind.__qualname__


def instance_name(instance: object) -> str:
    """The name of an instance in fingerprints: that of its class, with that of what it adapts from another SDK, if any.

    An adapter says what it adapts by a method `adapted_name`.

    >>> class Adapter:
    ...     def adapted_name(self):
    ...         return "Theirs"
    >>> instance_name(Adapter()), instance_name({})
    ('Adapter(Theirs)', 'dict')
    """
    adapted = getattr(instance, "adapted_name", None)
    return public_name(type(instance)) + (f"({adapted()})" if adapted is not None else "")


def address(kind: type) -> str:
    """`module:name` by which stored data finds a class.

    >>> from headrace.lowlevel.time import Duration
    >>> address(Duration), address(dict)
    ('headrace.stored:Duration', 'builtins:dict')
    """
    name = _STORED.get(kind)
    return f"{kind.__module__}:{kind.__qualname__}" if name is None else f"{MODULE}:{name}"


def _registered(name: str, kind: type | None, function: Callable[..., object], *first: object) -> Maker:
    assert name not in _MAKERS, f"{name!r} is the stored name of {_MAKERS[name].kind or _MAKERS[name].func}"
    new = _MAKERS[name] = Maker(function, *first)
    new.name, new.kind, new.__module__ = name, kind, MODULE
    return new


def _reduce_of(
    kind: type,
    register: Callable[..., Maker],
    make: Callable[..., object] | None,
    parts: Callable[..., tuple[object, ...]] | None,
) -> Reduce:
    """The function that pickles instances: the fastest one for the class, as a run pickles millions of them."""
    if parts is not None:
        of_parts = register(make or kind)
        return lambda value: (of_parts, parts(value))
    if issubclass(kind, tuple):
        of_items = register(tuple.__new__, kind)
        return lambda value: (of_items, ((*value,),))
    if issubclass(kind, Enum):
        of_name = register(getattr, kind)
        return lambda value: (of_name, (value.name,))
    # As pickle's default: first the instance, then its state, which may refer to the instance.
    empty = register(object.__new__, kind)
    return lambda value: (empty, (), _getstate(value))
