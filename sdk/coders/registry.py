"""The registry of coders by type (`apache_beam.coders.registry`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import cast, get_args, get_origin

from headrace.lowlevel.coders.coder import STANDARD_KEYS, KeyCoder, UnusableCoder, error_text
from headrace.lowlevel.coders.coder import Coder as LowCoder
from headrace.lowlevel.errors import CoderError
from headrace.lowlevel.time import Timestamp
from headrace.sdk.coders import composite
from headrace.sdk.coders.coder import Coder, TypeCoders
from headrace.sdk.coders.pickled import FastPrimitivesCoder
from headrace.sdk.coders.plain import (
    BooleanCoder,
    BytesCoder,
    DecimalCoder,
    FloatCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
from headrace.sdk.typehints.hints import fields_of, normal, union_members

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
