"""Which coder goes with which type (`apache_beam.coders.registry`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import cast, get_args, get_origin

from headrace.lowlevel.coder import STANDARD_KEYS, KeyCoder
from headrace.lowlevel.coder import Coder as LowCoder
from headrace.lowlevel.errors import CoderError
from headrace.lowlevel.time import Timestamp
from headrace.lowlevel.unusable import UnusableCoder, told
from headrace.sdk.coders.coder import Coder
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
from headrace.sdk.types.fields import fields_of
from headrace.sdk.types.hints import normal, union_members

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
    """Coders by type. What a program registers goes with its pipelines to the workers.

    >>> from headrace.sdk.coders.registry import registry
    >>> registry.get_coder(dict[str, int])
    MapCoder[StrUtf8Coder, VarIntCoder]
    >>> registry.get_coder(complex)
    FastPrimitivesCoder
    """

    def __init__(self) -> None:
        self._registered: dict[type, type[Coder] | Coder] = {}

    def register_coder(self, kind: type, coder: type[Coder] | Coder) -> None:
        """Let values of exactly this type have a coder: a class of coders, or one.

        Raises:
            TypeError: `kind` is no class, or `coder` is no coder.
        """
        if not isinstance(kind, type):
            raise TypeError(f"a coder is registered for a class, got {kind!r}; its values are known by their class")
        if not _is_coder(coder):
            raise TypeError(f"the coder of {kind.__name__} must be a Coder or a class of them, got {coder!r}")
        self._registered[kind] = coder

    def get_coder(self, hint: object) -> Coder:
        """The coder for a type hint; `FastPrimitivesCoder`, which takes any value, where nothing better is known."""
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
        from headrace.sdk.coders.composite import NullableCoder

        others = [member for member in members if member is not type(None)]
        return NullableCoder(self.get_coder(others[0])) if len(others) == 1 else FastPrimitivesCoder()

    def get_custom_type_coder_tuples(self, kinds: Iterable[type]) -> list[tuple[type, type[Coder] | Coder]]:
        """Those of the types that have a registered coder, with it."""
        return [(kind, self._registered[kind]) for kind in kinds if kind in self._registered]

    def verify_deterministic(self, key_coder: Coder, op_name: str, silent: bool = True) -> Coder:
        """A deterministic coder for the keys of a step. Raises `ValueError` if there is none."""
        return key_coder.as_deterministic_coder(op_name)

    def _own(self, kind: object) -> Coder | None:
        coder = self._registered.get(kind) if isinstance(kind, type) else None
        if not isinstance(coder, type):
            return coder
        try:
            return coder.from_type_hint(kind, self)
        except Exception as error:
            problem = f"cannot be made ({told(error)}); mend it, or register an instance: register_coder(type, coder)"
            raise CoderError(cast(type, kind).__qualname__, coder.__qualname__, problem) from error

    def has_own(self, kind: object) -> bool:
        """Whether a coder was registered for a type."""
        return kind in self._registered

    def key_coder(self) -> KeyCoder:
        """What encodes keys: the registered coders for their types, the engine's own encoding for all others."""
        own: dict[type, LowCoder] = {}
        for kind in self._registered:
            try:
                coder = self._own(kind)
                assert coder is not None
                own[kind] = coder.as_deterministic_coder("keys")
            except CoderError as error:
                # No matter to a pipeline that has no such keys.
                own[kind] = UnusableCoder(error.kind, error.coder, error.problem)
            except ValueError:
                # Left out: a key of it is refused where it is met, or where a hint says that it will be.
                continue
        return KeyCoder(own) if own else STANDARD_KEYS


def _is_coder(what: object) -> bool:
    return isinstance(what, Coder) or (isinstance(what, type) and issubclass(what, Coder))


def _maker(hint: object) -> Callable[[object, CoderRegistry], Coder] | None:
    """What makes the coder of a composite type."""
    from headrace.sdk.coders import composite

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
"""The one that pipelines use."""
