"""Objects of other packages that a process has in a registry, so that they are sent by their names, as Beam sends them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Reduced = tuple[Callable[..., object], tuple[object, ...]]
"""What another process calls, and with what, to get its object."""

_FINDERS = {
    "Descriptor": "FindMessageTypeByName",
    "EnumDescriptor": "FindEnumTypeByName",
    "FieldDescriptor": "FindFieldByName",
    "FileDescriptor": "FindFileByName",
    "MethodDescriptor": "FindMethodByName",
    "OneofDescriptor": "FindOneofByName",
    "ServiceDescriptor": "FindServiceByName",
}
"""Type of a descriptor of Protocol Buffers -> the method of a pool that finds it by its name."""


def registered(value: Any) -> Reduced | None:
    """How another process finds its object for a value; None for a value that is in no registry that is known here.

    A function that uses an enum of Protocol Buffers (`Color.RED`) captures a descriptor, and a function of a program
    with absl's flags often captures `FLAGS`. Neither can be pickled.

    >>> registered("text") is None
    True
    """
    rule = _RULES.get(type(value).__module__)
    return rule(value) if rule else None


def _descriptor_by_name(value: Any) -> Reduced | None:
    kind = type(value).__name__
    if kind == "EnumValueDescriptor":
        return _enum_value, (value.type, value.name)
    if kind not in _FINDERS:
        return None
    file = _file(value, kind)
    if file.pool is not _pool():
        return None
    find = "FindExtensionByName" if getattr(value, "is_extension", False) else _FINDERS[kind]
    name = value.name if value is file else value.full_name
    return _descriptor, (find, name, tuple(_definitions(file).values()))


def _file(value: Any, kind: str) -> Any:
    match kind:
        case "FileDescriptor":
            return value
        case "MethodDescriptor":
            return value.containing_service.file
        case "OneofDescriptor":
            return value.containing_type.file
        case _:
            return value.file


def _definitions(file: Any) -> dict[str, bytes]:
    """Name -> definition of a file and of all that it imports, each after those that it imports.

    They are sent as the other process may not have imported the module that was generated from the file.
    """
    found: dict[str, bytes] = {}
    for imported in file.dependencies:
        found.update(_definitions(imported))
    return found | {file.name: file.serialized_pb}


def _descriptor(find: str, name: str, definitions: tuple[bytes, ...]) -> object:
    pool = _pool()
    for definition in definitions:
        pool.AddSerializedFile(definition)
    return getattr(pool, find)(name)


def _enum_value(enum: Any, name: str) -> object:
    return enum.values_by_name[name]


def _pool() -> Any:
    return importlib.import_module("google.protobuf.descriptor_pool").Default()


def _flags_by_name(value: Any) -> Reduced | None:
    return (_flags, ()) if value is _flags() else None


def _flags() -> object:
    return importlib.import_module("absl.flags").FLAGS


_RULES: dict[str, Callable[[Any], Reduced | None]] = {
    "absl.flags._flagvalues": _flags_by_name,
    "google._upb._message": _descriptor_by_name,
    "google.protobuf.descriptor": _descriptor_by_name,
    "google.protobuf.pyext._message": _descriptor_by_name,
}
"""Module of the type of a value -> how its objects are found; the three of Protocol Buffers are its implementations."""
