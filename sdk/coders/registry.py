"""The registry of coders by type (`apache_beam.coders.registry`), and the check that values of a type can be keys.

A key needs a deterministic coder; the check knows type hints alone (MillWheel paper §4.2, §4.4).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any, TypeVar, cast, get_args, get_origin

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder, UnusableCoder, error_text
from headrace.lowlevel.coders.coder import Coder as LowCoder
from headrace.lowlevel.coders.key_classes import is_frozen
from headrace.lowlevel.coders.key_types import VALUE_TYPES
from headrace.lowlevel.errors import CoderError
from headrace.lowlevel.time import Timestamp
from headrace.sdk.coders import composite
from headrace.sdk.coders.coder import (
    BooleanCoder,
    BytesCoder,
    Coder,
    DecimalCoder,
    FastPrimitivesCoder,
    FloatCoder,
    StrUtf8Coder,
    TimestampCoder,
    TypeCoders,
    VarIntCoder,
)
from headrace.sdk.typehints.hints import RowTypeConstraint, fields_of, normal, type_name, union_members

_PLAIN: dict[type, type[Coder]] = {
    bool: BooleanCoder,
    bytes: BytesCoder,
    Decimal: DecimalCoder,
    float: FloatCoder,
    int: VarIntCoder,
    str: StrUtf8Coder,
    Timestamp: TimestampCoder,
}


class CoderRegistry:
    """Looks up the coder for a type. The coders that a program registers are sent to the workers with its pipelines.

    >>> from headrace.sdk.coders.registry import registry
    >>> registry.get_coder(dict[str, int])
    MapCoder[StrUtf8Coder, VarIntCoder]
    >>> registry.get_coder(complex)
    FastPrimitivesCoder
    """

    def __init__(self) -> None:
        self._registered: dict[type, type[Coder] | Coder] = {}

    def register_coder(self, kind: type, coder: type[Coder] | Coder) -> None:
        """Register a coder, or a class of coders, for values of exactly this type.

        Raises:
            TypeError: `kind` is not a class, or `coder` is neither a coder nor a class of coders.
        """
        if not isinstance(kind, type):
            raise TypeError(f"a coder is registered for a class, got {kind!r}; its values are known by their class")
        if not _is_coder(coder):
            raise TypeError(f"the coder of {kind.__name__} must be a Coder or a class of them, got {coder!r}")
        self._registered[kind] = coder

    def get_coder(self, hint: object) -> Coder:
        """The coder for a type hint; `FastPrimitivesCoder`, which takes any value, for a type without a coder.

        Raises:
            CoderError: The class registered for the type could not be instantiated.
        """
        hint = normal(hint)
        members = union_members(hint)
        if len(members) > 1:
            return self._of_union(members)
        if (registered := self._own(hint)) is not None:
            return registered
        plain = _PLAIN.get(cast(type, hint))
        if plain is not None:
            return plain()
        make = _maker(hint)
        return make(hint, self) if make is not None else FastPrimitivesCoder()

    def _of_union(self, members: Sequence[object]) -> Coder:
        others = [member for member in members if member is not type(None)]
        return composite.NullableCoder(self.get_coder(others[0])) if len(others) == 1 else FastPrimitivesCoder()

    def get_custom_type_coder_tuples(self, kinds: Iterable[type]) -> list[tuple[type, type[Coder] | Coder]]:
        """(type, registered coder) for each of the types that has a registered coder."""
        return [(kind, self._registered[kind]) for kind in kinds if kind in self._registered]

    def verify_deterministic(self, key_coder: Coder, op_name: str, silent: bool = True) -> Coder:
        """A deterministic coder for the keys of a step. Raises `ValueError` if no deterministic coder exists."""
        return key_coder.as_deterministic_coder(op_name)

    def _own(self, kind: object) -> Coder | None:
        coder = self._registered.get(kind) if isinstance(kind, type) else None
        if not isinstance(coder, type):
            return coder
        try:
            return coder.from_type_hint(kind, self)
        except Exception as error:
            problem = (
                f"cannot be made ({error_text(error)}); mend it, or register an instance: register_coder(type, coder)"
            )
            raise CoderError(cast(type, kind).__qualname__, coder.__qualname__, problem) from error

    def has_own(self, kind: object) -> bool:
        """Whether a coder was registered for a type."""
        return kind in self._registered

    def key_coder(self) -> KeyCoder:
        """The key coder: registered coders for their types, the engine's own encoding for all other types."""
        own: dict[type, LowCoder] = {}
        for kind in self._registered:
            try:
                coder = self._own(kind)
                assert coder is not None
                own[kind] = coder.as_deterministic_coder("keys")
            except CoderError as error:
                # A pipeline without keys of this type must run all the same.
                own[kind] = UnusableCoder(error.kind, error.coder, error.problem)
            except ValueError:
                # The type is left out: a key of this type fails at run time, or at build time if a hint tells.
                continue
        return KeyCoder(own) if own else STANDARD_KEYS


def _is_coder(what: object) -> bool:
    return isinstance(what, Coder) or (isinstance(what, type) and issubclass(what, Coder))


def _maker(hint: object) -> Callable[[object, TypeCoders], Coder] | None:
    """The `from_type_hint` of the coder class for a composite type; None for any other type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if fields_of(hint) is not None:
        return composite.RowCoder.from_type_hint
    if origin is tuple and arguments[-1:] == (...,):
        return composite.TupleSequenceCoder.from_type_hint
    if origin is tuple:
        return composite.TupleCoder.from_type_hint
    if origin is list:
        return composite.ListCoder.from_type_hint
    if origin is dict or origin is Mapping:
        return composite.MapCoder.from_type_hint
    if origin in (Iterable, Sequence):
        return composite.IterableCoder.from_type_hint
    return None


registry = CoderRegistry()
"""The registry that pipelines use."""


_PLAIN_KEYS = frozenset([str, int, bytes, float, bool, type(None), tuple, list, set, frozenset, dict, *VALUE_TYPES])
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
    return kind in _PLAIN_KEYS


def _class_problem(kind: type, coders: CoderRegistry) -> str | None:
    """Why instances of a class cannot be keys; None for a class whose subclasses may be keys."""
    if dataclasses.is_dataclass(kind) and not is_frozen(kind):
        return f"keys of the dataclass {kind.__name__} could change; make it @dataclass(frozen=True)"
    if (fields := fields_of(kind)) is not None:
        return _first_problem(list(fields.values()), coders)
    if issubclass(kind, Enum) or hasattr(kind, "__key_state__") or hasattr(kind, "__setstate__"):
        return None
    if inspect.isabstract(kind) or (kind.__subclasses__() and kind.__module__ != "builtins"):
        return None
    return f"keys of type {kind.__name__} cannot be encoded deterministically; {_REMEDY.format(name=kind.__name__)}"
