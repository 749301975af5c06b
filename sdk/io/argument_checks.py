"""Checks of arguments that several sources and sinks take, and that the packages are there which they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import pyarrow as pa

_PACKAGES = {
    "confluent_kafka": "Kafka is read and written by confluent-kafka: pip install 'headrace[kafka]'",
    "deltalake": "Delta tables are read and written by deltalake: pip install 'headrace[delta]'",
    "fastavro": "Avro is read and written by fastavro: pip install 'headrace[avro]'",
    "pyiceberg.catalog": "Iceberg tables are read and written by pyiceberg: pip install 'headrace[iceberg]'",
}
"""Module of a package -> the message without it."""


def require_package(module: str) -> None:
    """Raise `ImportError`, with the command that installs the package of a module, if it is not installed."""
    try:
        import_module(module)
    except ImportError as error:
        raise ImportError(_PACKAGES[module]) from error


def refuse_unless(transform: str, argument: str, given: object, default: object, instead: str) -> None:
    """Raise `TypeError` if an unsupported argument differs from Beam's default.

    >>> refuse_unless("ReadFromText", "delimiter", None, None, "lines end in LF or CR LF")
    >>> refuse_unless("ReadFromText", "delimiter", b"|", None, "lines end in LF or CR LF")
    Traceback (most recent call last):
      ...
    TypeError: ReadFromText has no delimiter, got b'|' for it; lines end in LF or CR LF
    """
    if given is not default and (type(given) is not type(default) or given != default):
        raise TypeError(f"{transform} has no {argument}, got {given!r:.200} for it; {instead}")


def check_schema(schema: object) -> None:
    """Raise `TypeError` or `ValueError` for an argument `schema` that is neither None nor a `pyarrow.Schema`."""
    if schema is not None and not isinstance(schema, pa.Schema):
        raise TypeError(f"schema must be a pyarrow.Schema, got {schema!r:.200}; write pyarrow.schema([...])")
    if schema is not None and not schema.names:
        raise ValueError("the schema has no columns; name them, or leave schema out")


def check_column_names(argument: str, names: object) -> None:
    """Raise `TypeError` for an argument that is no list of columns."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of columns, got text; write [{names!r}]")
    if not isinstance(names, Sequence):
        raise TypeError(f"{argument} must be a list of columns, got {names!r:.200}")


def check_options(name: str, options: object) -> None:
    """Raise `TypeError` for an argument that is no mapping of texts, without the values, which may be secret."""
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise TypeError(f"{name} must be a dict of names and texts, got an object of type {type(options).__name__}")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{name} must be a dict of names and texts, but {key!r:.80} is a {type(value).__name__}")
