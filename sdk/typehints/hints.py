"""Normal form of type hints, whether from `typing`, built-in generics or Beam's `KV` (`apache_beam.typehints`).

Rows, named tuples and dataclasses are types with named fields (`apache_beam.typehints.row_type`).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar, cast, get_args, get_origin

from headrace.sdk.model.row import Row
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue, WindowedValue


@dataclasses.dataclass(frozen=True, slots=True)
class RowTypeConstraint:
    """The type of rows with these fields, in this order.

    >>> flight = RowTypeConstraint.from_fields([("carrier", str), ("delay", int)])
    >>> flight
    Row(carrier=str, delay=int)
    >>> dict(flight.fields)["delay"]
    <class 'int'>
    """

    fields: tuple[tuple[str, object], ...]

    @classmethod
    def from_fields(cls, fields: Iterable[tuple[str, object]], **options: object) -> RowTypeConstraint:
        """The type of rows with fields of these names and types; Beam's further options are accepted and ignored."""
        return cls(tuple((name, kind) for name, kind in fields))

    @classmethod
    def from_user_type(cls, kind: type) -> RowTypeConstraint | None:
        """The row type of a NamedTuple or dataclass; None for another class."""
        fields = fields_of(kind)
        return None if fields is None else cls(tuple(fields.items()))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={type_name(kind)}' for name, kind in self.fields)})"

    # Called for unions such as `Row(...) | None`.
    def __or__(self, other: object) -> object:
        return typing.Union[self, other]  # noqa: UP007 - this is what `|` calls

    def __call__(self) -> None:
        """Raise TypeError; the method exists because `typing` accepts only callables as types."""
        raise TypeError(f"{self} is a type hint; make rows with Row(...)")


_field_names = cast("Callable[[type], tuple[str, ...]]", attrgetter("_fields"))


def fields_of(hint: object) -> dict[str, object] | None:
    """The fields of a type, as name -> type; None if the type declares no fields."""
    if isinstance(hint, RowTypeConstraint):
        return dict(hint.fields)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        types = _types(hint)
        return {each.name: types.get(each.name, typing.Any) for each in dataclasses.fields(hint)}
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        types = _types(hint)
        return {name: types.get(name, typing.Any) for name in _field_names(hint)}
    return None


def _types(kind: type) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(kind)
    except Exception:
        # An annotation names something that only type checkers import, so the types are not known.
        return {}


def made_of(kind: type, values: dict[str, object]) -> object:
    """An instance of `kind` (`Row`, a NamedTuple or a dataclass) with these field values."""
    return Row.of(values) if kind is Row else kind(**values)


UNIONS = (typing.Union, types.UnionType)
"""Origins of unions: `typing.Union` for `Union[...]`, `types.UnionType` for `|`."""


def union_members(hint: object) -> tuple[object, ...]:
    """The members of a union; for any other type, the type alone."""
    return get_args(hint) if get_origin(hint) in UNIONS else (hint,)


def type_name(hint: object) -> str:
    """The name of a type as it is written in a program.

    >>> type_name(dict[str, list[int]]), type_name(int | None), type_name(typing.Any)
    ('dict[str, list[int]]', 'int | None', 'Any')
    """
    if hint is type(None):
        return "None"
    if isinstance(hint, TypeVar):
        return hint.__name__
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    if len(members := union_members(hint)) > 1:
        return " | ".join(map(type_name, members))
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(origin, type) and arguments:
        return f"{origin.__name__}[{', '.join('...' if inner is ... else type_name(inner) for inner in arguments)}]"
    return str(hint).replace("typing.", "")


KV = tuple  # type: ignore[type-arg]  # users write the parameters: KV[str, int]
"""A pair of key and value, as in `KV[str, int]`."""
K = TypeVar("K")
V = TypeVar("V")
ANY_PAIR = types.GenericAlias(tuple, (K, V))
"""The type of pairs whose key and value have any types."""
_TRANSPARENT = (typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired)


def normal(hint: object) -> object:
    """The normal form of a hint: a class, a generic with normal arguments, a union, a type variable or `Any`.

    A hint that is not understood becomes `Any`: a check must never refuse a correct pipeline.

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
    if origin in UNIONS:
        return union(map(normal, arguments))
    if origin is not None:
        return _generic(origin, arguments)
    if isinstance(hint, tuple):
        # Older Beam programs write (str, int) for Tuple[str, int].
        return tuple_of(map(normal, hint))
    if not isinstance(hint, type) or hint is object or getattr(hint, "_is_protocol", False):
        return Any
    return dict if typing.is_typeddict(hint) else hint


def _generic(origin: object, arguments: tuple[object, ...]) -> object:
    # A list of arguments, as `Callable` has, is no type.
    if not isinstance(origin, type) or any(isinstance(argument, list) for argument in arguments):
        return origin if isinstance(origin, type) else Any
    if origin is tuple:
        return _tuple(arguments)
    if origin is TaggedOutput:
        return types.GenericAlias(origin, (arguments[0], normal(arguments[1])))
    if not arguments:
        return origin
    inner = tuple(argument if argument is ... else normal(argument) for argument in arguments)
    return types.GenericAlias(origin, inner)


def _tuple(arguments: tuple[object, ...]) -> object:
    if len(arguments) == 2 and arguments[1] is ...:
        return types.GenericAlias(tuple, (normal(arguments[0]), ...))
    return tuple_of(() if arguments == ((),) else map(normal, arguments))


def tuple_of(items: Iterable[object]) -> object:
    """The type of tuples whose items have these types, in this order."""
    return types.GenericAlias(tuple, tuple(items))


def iterable_of(kind: object) -> object:
    """The type of iterables whose items have a type."""
    return types.GenericAlias(Iterable, (kind,))


def union(members: Iterable[object]) -> object:
    """The union of types; `Any` if one of them is `Any`, or if there are none.

    >>> union([int, int]), union([int, Any])
    (<class 'int'>, typing.Any)
    """
    found = list(dict.fromkeys(part for member in members for part in union_members(member)))
    if not found or Any in found:
        return Any
    made: object = typing.Union[tuple(found)]  # noqa: UP007 - the number of members is known only here
    return made


def pair(hint: object) -> tuple[object, object] | None:
    """The key and value types of a type of pairs; both `Any` if not known, None if the type is not a type of pairs."""
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
    """The item type of an iterable type; `Any` if not known, None if the type is not iterable."""
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
    """The element type of a step's output type; for `TimestampedValue[int]` it is int."""
    members = [_element(member) for member in union_members(normal(hint))]
    return union(member for member in members if (get_origin(member) or member) is not TaggedOutput)


def tagged_types(hint: object) -> dict[str | None, object]:
    """The types of the tagged outputs that are among a step's output types, by tag.

    >>> tagged_types(int | TaggedOutput[typing.Literal["odd"], str])
    {'odd': <class 'str'>}
    """
    arguments = [get_args(member) for member in union_members(normal(hint)) if get_origin(member) is TaggedOutput]
    return {str(get_args(tag)[0]): kind for tag, kind in arguments}


def _element(hint: object) -> object:
    origin = get_origin(hint)
    if origin is TimestampedValue:
        return get_args(hint)[0]
    if hint in (TimestampedValue, WindowedValue) or origin is WindowedValue:
        return Any
    return hint
