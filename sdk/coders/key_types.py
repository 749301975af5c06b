"""Check whether values of a type can be keys, from type hints alone (MillWheel paper §4.2, §4.4)."""

from __future__ import annotations

import dataclasses
import inspect
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

from headrace.lowlevel.coders.key_classes import is_frozen
from headrace.lowlevel.coders.key_types import VALUE_TYPES
from headrace.sdk.coders.registry import CoderRegistry
from headrace.sdk.typehints.hints import RowTypeConstraint, fields_of, normal, type_name

_PLAIN = frozenset([str, int, bytes, float, bool, type(None), tuple, list, set, frozenset, dict, *VALUE_TYPES])
_REMEDY = (
    "use a key of str, int, a named tuple, a frozen dataclass or their like, or give the type a deterministic coder: "
    "headrace.coders.registry.register_coder({name}, coder)"
)


def key_problem(hint: object, coders: CoderRegistry) -> str | None:
    """Why values of a type cannot be keys, with the remedy; None if they can be keys, or if the hint does not tell.

    >>> from headrace.sdk.coders.registry import registry
    >>> key_problem(tuple[str, int], registry), key_problem(Any, registry)
    (None, None)
    >>> key_problem(complex, registry)
    'keys of type complex cannot be encoded deterministically; use a key of str, int, ...'
    """
    hint = normal(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return None
    if coders.has_own(hint):
        return _coder_problem(hint, coders)
    if not isinstance(hint, type) or (get_args(hint) and _is_plain(get_origin(hint))):
        inner = get_args(hint) if get_args(hint) else _row_types(hint)
        return _first_problem([part for part in inner if part is not ...], coders)
    return None if _is_plain(hint) else _class_problem(hint, coders)


def _first_problem(hints: list[object], coders: CoderRegistry) -> str | None:
    return next((problem for hint in hints if (problem := key_problem(hint, coders))), None)


def _row_types(hint: object) -> list[object]:
    return [kind for _, kind in hint.fields] if isinstance(hint, RowTypeConstraint) else []


def _coder_problem(hint: object, coders: CoderRegistry) -> str | None:
    try:
        coders.get_coder(hint).as_deterministic_coder("keys")
    except ValueError:
        coder = coders.get_coder(hint)
        return (
            f"the coder {coder} of keys of type {type_name(hint)} is not deterministic; define is_deterministic() to "
            "return True if equal values always have equal bytes, or use another type of key"
        )
    return None


def _is_plain(kind: object) -> bool:
    return kind in _PLAIN


def _class_problem(kind: type, coders: CoderRegistry) -> str | None:
    """Why instances of a class cannot be keys; None for a class whose subclasses may be keys."""
    if dataclasses.is_dataclass(kind) and not is_frozen(kind):
        return f"keys of the dataclass {kind.__name__} could change; make it @dataclass(frozen=True)"
    if (fields := fields_of(kind)) is not None:
        return _first_problem(list(fields.values()), coders)
    if issubclass(kind, Enum) or _states_itself(kind):
        return None
    if inspect.isabstract(kind) or (kind.__subclasses__() and kind.__module__ != "builtins"):
        return None
    return f"keys of type {kind.__name__} cannot be encoded deterministically; {_REMEDY.format(name=kind.__name__)}"


def _states_itself(kind: type) -> bool:
    return hasattr(kind, "__key_state__") or hasattr(kind, "__setstate__")
