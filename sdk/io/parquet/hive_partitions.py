"""Columns of which the values are in the names of folders, as Hive, Spark and `WriteToParquet(partition_by=…)` do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import fspath
from typing import cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from headrace.sdk.io.files import Found, Path, filesystem_of

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The folder of what is not there."""


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """Names and types of such columns."""

    columns: tuple[tuple[str, pa.DataType], ...] = ()

    @classmethod
    def named(cls, given: Sequence[str] | Mapping[str, str]) -> FolderColumns:
        """From names, or names with those of types. Raises `TypeError` and `ValueError`."""
        if isinstance(given, str):
            raise TypeError(f"partition_by must be a list of columns, got text; write [{given!r}]")
        types = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, "string")
        return cls(tuple((name, _type(name, alias)) for name, alias in types.items()))

    @property
    def names(self) -> list[str]:
        """Of all columns."""
        return [name for name, _ in self.columns]

    def of(self, file: Found) -> list[tuple[str, pa.Scalar]]:
        """What the folders of a file say. Raises `ValueError` that names it."""
        if not self.columns:
            return []
        parts = file.path.split("/")[:-1]
        said = {unquote(name): text for name, equals, text in (part.partition("=") for part in parts) if equals}
        if missing := [name for name in self.names if name not in said]:
            raise ValueError(f"{file.path} is in no folder {missing[0]}=…; correct partition_by or the pattern")
        return [(name, _value(file, name, said[name], type_)) for name, type_ in self.columns]


def _type(name: str, alias: str) -> pa.DataType:
    try:
        return cast(pa.DataType, pa.type_for_alias(alias))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"partition_by gives column {name!r} the type {alias!r}, which Arrow does not know; use 'string', 'int64' "
            "or another of its names"
        ) from error


def _value(file: Found, name: str, text: str, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(None if text == NULL else unquote(text), pa.string()).cast(type_)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file.path}: folder {name}={text} is no {type_} ({error}); correct partition_by") from error


def added(table: pa.RecordBatch, columns: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    """A table with columns of one value behind its own."""
    for name, value in columns:
        table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def below(pattern: Path) -> str:
    """What matches all files below a folder, and a file or pattern as it is."""
    pattern = fspath(pattern)
    system, path = filesystem_of(pattern)
    if re.search(r"[*?\[]", path) or system.get_file_info(path).type == fs.FileType.File:
        return pattern
    return pattern.rstrip("/") + "/**/*"
