"""Readable names of types, for error messages."""

from __future__ import annotations

import types
import typing
from typing import TypeVar, get_args, get_origin

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
