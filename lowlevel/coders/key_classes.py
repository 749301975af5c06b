"""The classes of keys: how an encoded key names them, and how a decoded key finds them (MillWheel paper §4.4).

A key's identity has the qualified names of classes, without their modules, so that a key stays the same key when its
class moves to another module. What the modules were, and the fields, is written behind the identity:

    b"A"  length of the identity  b":"  identity  hints: b"module:qualified name(fields)", by line

The hash of a key is that of its identity. A key without classes of the program has no hints, and is its own identity.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from operator import attrgetter
from typing import NamedTuple, cast

from headrace.lowlevel.class_lookup import current_module, find_class
from headrace.lowlevel.errors import CheckpointError, StoredClassError
from headrace.lowlevel.stored_names import MODULE, address

MARK = b"A"
"""The first byte of a key with hints; the least of all first bytes of keys."""
Parted = tuple[bytes, tuple[bytes, ...]]
"""An identity, and the hints behind it."""
_LASTING = (MODULE, "builtins")
"""Modules whose name is a part of the identity, as nothing moves out of them."""


class UnstableKeyError(Exception):
    """A key has no deterministic encoding; the message says why."""


def parted(encoded: bytes) -> Parted:
    """The identity of an encoded key, and its hints.

    >>> parted(b"i7")
    (b'i7', ())
    """
    if encoded[:1] != MARK:
        return encoded, ()
    identity, lines = halves(encoded)
    return identity, tuple(lines.split(b"\n"))


def halves(marked: bytes) -> tuple[bytes, bytes]:
    """The identity of an encoded key that has hints, and the lines of these."""
    length, _, rest = marked.partition(b":")
    end = int(length[1:])
    return rest[:end], rest[end:]


def with_hints(identity: bytes, hints: Iterable[bytes]) -> bytes:
    """An encoded key: its identity, with hints behind it if there are any."""
    distinct = sorted(set(hints))
    return _with_lines(identity, b"\n".join(distinct)) if distinct else identity


def _with_lines(identity: bytes, lines: bytes) -> bytes:
    return b"%b%d:%b%b" % (MARK, len(identity), identity, lines)


def identity_of(encoded: bytes) -> bytes:
    """The part of an encoded key that tells keys apart."""
    return halves(encoded)[0] if encoded[:1] == MARK else encoded


def prefixed(letter: bytes, encoded: bytes, hint: bytes = b"") -> bytes:
    """An encoded key as the contents of another one, whose identity begins with a letter, with a hint if it has one."""
    if encoded[:1] != MARK:
        return _with_lines(letter + encoded, hint) if hint else letter + encoded
    identity, inner = parted(encoded)
    return with_hints(letter + identity, (*inner, hint) if hint else inner)


class _Found(NamedTuple):
    """A class, and where it was found."""

    kind: type
    module: str
    path: list[str]

    def is_there(self) -> bool:
        """Whether the class is still found there: a worker may have loaded a newer one."""
        found: object = sys.modules.get(self.module)
        for part in self.path:
            found = getattr(found, part, None)
        return found is self.kind


class KeyClasses:
    """The classes that the keys of a step have.

    Args:
        spelled: Names `module:qualified name` of classes that keep their module in the identity: those that a
            checkpoint of release 0.1.0 has in keys of the step.
        of_step: Whether the keys are those of one step, so that no two classes may have one qualified name.
    """

    def __init__(self, spelled: frozenset[str] = frozenset(), of_step: bool = False) -> None:
        self.spelled = spelled
        self.of_step = of_step
        self.known: dict[type, tuple[bytes, str, bytes]] = {}
        """Class -> code letter of its keys, its name in a key's identity, its hint."""
        self._found: dict[tuple[bytes, str], _Found] = {}
        """Code letter of a key, and name of its class with the hint -> the class."""
        self._seen: dict[str, type] = {}
        """Qualified name -> the class of the keys that were encoded or decoded."""

    def name(self, kind: type, letter: bytes) -> tuple[bytes, str, bytes]:
        """Code letter of keys of a class, its name in their identity, and its hint: empty if the name has a module.

        Raises:
            UnstableKeyError: The class cannot be found by its name, or another class of the step has the same name.
        """
        full = class_name(kind)
        if (other := self._other(full, kind)) is not None:
            raise UnstableKeyError(
                f"this step has keys of another class of this name, {_full(other)}, and they would be one key; "
                "give one of the classes another name"
            )
        name, hint = self.spelling(full)
        known = self.known[kind] = letter, name, f"{hint}{_fields(kind)}".encode() if hint else b""
        return known

    def spelling(self, full: str) -> tuple[str, str]:
        """How keys name a class `module:qualified name`, and the hint that goes with that; empty if there is none."""
        module, _, path = full.partition(":")
        if module in _LASTING or full in self.spelled:
            return full, ""
        alike = [name for name in self.spelled if name.partition(":")[2] == path]
        return (alike[0], "") if len(alike) == 1 else (f":{path}", full)

    def find(self, letter: bytes, name: str, hints: Mapping[str, str]) -> type:
        """The class that a key names.

        Args:
            letter: The kind of key.
            name: The name in the key's identity.
            hints: Qualified name -> hint.

        Raises:
            StoredClassError: The class is gone or has changed, or is another one than that of the step's other keys.
            CheckpointError: What has this name is not a class of such keys; malicious bytes may name anything.
        """
        spelled = name if name[:1] != ":" else hints[name[1:]]
        if (known := self._found.get((letter, spelled))) is not None and known.is_there():
            return known.kind
        kind = self._checked(letter, name, hints)
        self._found[letter, spelled] = _Found(kind, kind.__module__, kind.__qualname__.split("."))
        return kind

    def _checked(self, letter: bytes, name: str, hints: Mapping[str, str]) -> type:
        module, _, path = name.partition(":")
        fields = ""
        if not module:
            module, _, rest = hints[path].partition(":")
            fields = rest[len(path) :]
        try:
            found = _found(module, path)
        except StoredClassError as error:
            raise StoredClassError(error.name, error.problem, of_keys=True) from error
        if not isinstance(found, type) or not any(is_kind(found) for is_kind in _IS_KIND.values()):
            raise CheckpointError(
                f"{module}:{path} is named as the class of a key but is not one; the bytes were not written by headrace"
            )
        problem: str | None = None
        if not _IS_KIND[letter](found):
            problem = "was another kind of class in keys (dataclass, named tuple or enumeration)"
        elif fields and fields != (now := _fields(found)):
            problem = f"had the fields {fields} in keys and now has {now}"
        elif module not in _LASTING and found.__qualname__ != path:
            problem = f"is called {found.__qualname__} now, so that equal keys would be different ones"
        elif (other := self._other(f"{found.__module__}:{path}", found)) is not None:
            problem = f"is another class than {_full(other)}, which keys have now"
        if problem is not None:
            raise StoredClassError(f"{module}.{path}", problem, of_keys=True)
        return found

    def _other(self, full: str, kind: type) -> type | None:
        """Another class of the same name that keys of the step have; remembers the class if there is none."""
        if not self.of_step:
            return None
        path = full.partition(":")[2]
        other = self._seen.get(path)
        if other is not None and other is not kind and not _is_same(other, kind):
            return other
        self._seen[path] = kind
        return None


def _is_same(first: type, second: type) -> bool:
    """Whether two classes are one: made anew in this process, or the main program under its two names."""
    return current_module(first.__module__) == current_module(second.__module__)


def _found(module: str, path: str) -> object:
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and current_module(module) == module:
        return found
    return find_class(module, path)


def _full(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def class_name(kind: type) -> str:
    """Module and qualified name of a class, from which it can be found again; see `address`.

    Raises:
        UnstableKeyError: The class cannot be found by its name.

    >>> from decimal import Decimal
    >>> class_name(Decimal)
    'decimal:Decimal'
    """
    name = address(kind)
    try:
        found = class_of(name)
    except StoredClassError:
        found = None
    if found is not kind:
        raise UnstableKeyError(f"class {name} cannot be found by that name; define it at the top level of a module")
    return name


def class_of(name: str) -> type:
    """The class with this `class_name`. It is looked up each time, because a worker may have loaded a newer one.

    Raises:
        StoredClassError: There is none.
    """
    module, _, path = name.partition(":")
    return cast(type, find_class(module, path))


def _fields(kind: type) -> str:
    """The fields of a dataclass or named tuple as a hint states them; empty for other classes."""
    if (names := getattr(kind, "_fields", None)) is None:
        if not dataclasses.is_dataclass(kind):
            return ""
        names = [field.name for field in init_fields(kind)]
    return f"({','.join(names)})"


def init_fields(kind: type) -> list[dataclasses.Field[object]]:
    """The fields to encode: those that a generated `__init__` takes, or all if `__init__` is not generated."""
    return [field for field in dataclasses.fields(kind) if field.init or not has_generated_init(kind)]


_parameters = attrgetter("__dataclass_params__")
"""Returns the parameters of a dataclass's decorator."""


def is_frozen(kind: type) -> bool:
    """Whether instances of a dataclass cannot change."""
    return bool(_parameters(kind).frozen)


def has_generated_init(kind: type) -> bool:
    """Whether the `__init__` of a dataclass was generated."""
    return bool(_parameters(kind).init)


_IS_KIND: dict[bytes, Callable[[type], bool]] = {
    b"C": lambda kind: issubclass(kind, tuple) and hasattr(kind, "_fields"),
    b"D": dataclasses.is_dataclass,
    b"E": lambda kind: issubclass(kind, Enum),
    b"G": lambda kind: hasattr(kind, "__setstate__") and not _reduces(kind),
    b"K": lambda kind: hasattr(kind, "__of_key_state__"),
}


def _reduces(kind: type) -> bool:
    """Whether a class defines `__reduce__`."""
    return any("__reduce__" in vars(base) for base in kind.__mro__ if base is not object)
