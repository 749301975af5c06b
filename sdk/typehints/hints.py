"""One form for type hints, be they `typing`'s, built-in generics or Beam's `KV` (`apache_beam.typehints`)."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any, TypeVar, get_args, get_origin

from headrace.sdk.pvalue import TaggedOutput
from headrace.sdk.types.fields import RowTypeConstraint
from headrace.sdk.windowedvalue import WindowedValue
from headrace.sdk.windows import TimestampedValue

# Without parameters on purpose: they are given where it is used.
KV = tuple  # type: ignore[type-arg]
"""A pair of key and value, as in `KV[str, int]`."""
K = TypeVar("K")
V = TypeVar("V")
ANY_PAIR = types.GenericAlias(tuple, (K, V))
"""The type of pairs of whatever types."""
_UNIONS = (typing.Union, types.UnionType)
_TRANSPARENT = (typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)


def normal(hint: object) -> object:
    """A hint as a class, a generic with normal arguments, a union, a type variable or `Any`.

    What is not understood is `Any`: a check must never refuse what could be right.

    >>> normal(typing.Optional[typing.List[int]])
    typing.Optional[list[int]]
    >>> normal("some text"), normal(None), normal(typing.Literal[1, 2])
    (typing.Any, <class 'NoneType'>, <class 'int'>)
    """
    if hint is None:
        return type(None)
    if isinstance(hint, (RowTypeConstraint, TypeVar)):
        return hint
    if isinstance(hint, typing.NewType):
        return normal(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _TRANSPARENT:
        return normal(arguments[0])
    if origin is typing.Literal:
        return union(type(value) for value in arguments)
    if origin in _UNIONS:
        return union(map(normal, arguments))
    if origin is not None:
        return _generic(origin, arguments)
    if isinstance(hint, tuple):
        # As in Beam's older programs: (str, int) for Tuple[str, int].
        return tuple_of(map(normal, hint))
    if not isinstance(hint, type) or hint is object or getattr(hint, "_is_protocol", False):
        return Any
    return dict if typing.is_typeddict(hint) else hint


def _generic(origin: object, arguments: tuple[object, ...]) -> object:
    if not isinstance(origin, type) or not all(map(_is_type, arguments)):
        return origin if isinstance(origin, type) else Any
    if origin is tuple:
        return _tuple(arguments)
    if not arguments:
        return origin
    inner = tuple(argument if argument is ... else normal(argument) for argument in arguments)
    return types.GenericAlias(origin, inner)


def _is_type(argument: object) -> bool:
    # The parameters of a Callable are a list.
    return not isinstance(argument, list)


def _tuple(arguments: tuple[object, ...]) -> object:
    if len(arguments) == 2 and arguments[1] is ...:
        return types.GenericAlias(tuple, (normal(arguments[0]), ...))
    return tuple_of(() if arguments == ((),) else map(normal, arguments))


def tuple_of(items: Iterable[object]) -> object:
    """The type of tuples with items of these types."""
    return types.GenericAlias(tuple, tuple(items))


def iterable_of(kind: object) -> object:
    """The type of iterables of a type."""
    return types.GenericAlias(Iterable, (kind,))


def union(members: Iterable[object]) -> object:
    """The type of what is of any of these types; `Any` if one of them is, or if there are none.

    >>> union([int, int]), union([int, Any])
    (<class 'int'>, typing.Any)
    """
    found = list(dict.fromkeys(part for member in members for part in union_members(member)))
    if not found or Any in found:
        return Any
    made: object = typing.Union[tuple(found)]  # noqa: UP007 - of a number known only here
    return made


def union_members(hint: object) -> tuple[object, ...]:
    """The types that a union is of; any other type is the only one."""
    return get_args(hint) if get_origin(hint) in _UNIONS else (hint,)


def pair(hint: object) -> tuple[object, object] | None:
    """Key and value types of pairs: both `Any` where nothing is known, None if the type is not one of pairs."""
    hint = normal(hint)
    if hint is Any or isinstance(hint, TypeVar) or hint is tuple:
        return Any, Any
    members = union_members(hint)
    if len(members) > 1:
        pairs = [pair(member) for member in members]
        known = [found for found in pairs if found is not None]
        if len(known) < len(pairs):
            return None
        return union(key for key, _ in known), union(value for _, value in known)
    if isinstance(hint, RowTypeConstraint):
        # A row with two fields can be unpacked like a pair.
        return (Any, Any) if len(hint.fields) == 2 else None
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        if len(arguments) == 2:
            return (arguments[0], arguments[0]) if arguments[1] is ... else (arguments[0], arguments[1])
        return None
    known_class = origin or hint
    if known_class in _NO_PAIRS:
        return None
    return Any, Any


_NO_PAIRS = (int, float, bool, complex, bytes, type(None))


def item(hint: object) -> object | None:
    """The type of the items of an iterable; `Any` where it is not known, None if the type is no iterable."""
    hint = normal(hint)
    found = [_item(member) for member in union_members(hint) if member is not type(None)]
    if not found:
        return Any
    return None if None in found else union(found)


def _item(hint: object) -> object | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return union(argument for argument in arguments if argument is not ...)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        inner: object = arguments[0]
        return inner
    if hint in (int, float, bool, complex):
        return None
    return str if hint is str else Any


def element(hint: object) -> object:
    """The type of the element in what a step puts out: a `TimestampedValue[int]` puts out an int."""
    members = [_element(member) for member in union_members(normal(hint))]
    return union(member for member in members if member is not TaggedOutput)


def _element(hint: object) -> object:
    origin = get_origin(hint)
    if origin is TimestampedValue:
        return get_args(hint)[0]
    if hint in (TimestampedValue, WindowedValue) or origin is WindowedValue:
        return Any
    return hint


def shown(hint: object) -> str:
    """A type as a person writes it.

    >>> shown(normal(typing.Dict[str, typing.List[int]])), shown(typing.Any)
    ('dict[str, list[int]]', 'Any')
    """
    if hint is type(None):
        return "None"
    if isinstance(hint, TypeVar):
        return hint.__name__
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    if len(members := union_members(hint)) > 1:
        return " | ".join(map(shown, members))
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(origin, type) and arguments:
        return f"{origin.__name__}[{', '.join('...' if inner is ... else shown(inner) for inner in arguments)}]"
    return str(hint).replace("typing.", "")
