"""Columns whose values are in folder names, as in Hive, Spark and `WriteToParquet(partition_by=…)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import fspath
from typing import TypeVar, cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from headrace.sdk.io.argument_checks import check_column_names
from headrace.sdk.io.files.filesystem import MatchedFile, Path, filesystem_of

KeyT = TypeVar("KeyT")
NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a folder of null values."""


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """Names and types of partition columns."""

    columns: tuple[tuple[str, pa.DataType], ...] = ()

    @classmethod
    def of_names(cls, columns: Sequence[str] | Mapping[str, str]) -> FolderColumns:
        """Text columns of some names, or columns of names and Arrow types. Raises `TypeError` and `ValueError`."""
        if not isinstance(columns, Mapping):
            check_column_names("partition_by", columns)
        types = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "string")
        return cls(tuple((name, _type(name, alias)) for name, alias in types.items()))

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [name for name, _ in self.columns]

    def of(self, file: MatchedFile) -> list[tuple[str, pa.Scalar]]:
        """Names and values of the columns for a file. Raises `ValueError` that names the file."""
        if not self.columns:
            return []
        parts = file.path.split("/")[:-1]
        texts = {unquote(name): text for name, equals, text in (part.partition("=") for part in parts) if equals}
        if missing := [name for name in self.names if name not in texts]:
            raise ValueError(f"{file.path} is in no folder {missing[0]}=…; correct partition_by or the pattern")
        return [(name, _value(file, name, texts[name], type_)) for name, type_ in self.columns]


def _type(name: str, alias: str) -> pa.DataType:
    try:
        return cast(pa.DataType, pa.type_for_alias(alias))
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"partition_by gives column {name!r} the type {alias!r}, which Arrow does not know; use 'string', 'int64' "
            "or another of its names"
        ) from error


def _value(file: MatchedFile, name: str, text: str, type_: pa.DataType) -> pa.Scalar:
    try:
        return pa.scalar(None if text == NULL else unquote(text), pa.string()).cast(type_)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file.path}: folder {name}={text} is no {type_} ({error}); correct partition_by") from error


def with_constants(table: pa.RecordBatch, columns: Sequence[tuple[str, pa.Scalar]]) -> pa.RecordBatch:
    """The table with a column of equal values appended for each pair of name and value."""
    names = [*table.schema.names, *(name for name, _ in columns)]
    added = [pa.repeat(value, table.num_rows) for _, value in columns]
    return pa.RecordBatch.from_arrays([*table.columns, *added], names) if columns else table


def rows_by(table: pa.Table, columns: Sequence[str], key: Callable[[Sequence[object]], KeyT]) -> dict[KeyT, list[int]]:
    """What `key` makes of the values of columns -> indices of the rows with it.

    >>> rows_by(pa.table({"shop": [1, 2, 1]}), ["shop"], tuple)
    {(1,): [0, 2], (2,): [1]}
    """
    values = (table.column(name).to_pylist() for name in columns)
    found: dict[KeyT, list[int]] = {}
    for row, of_row in enumerate(zip(*values, strict=True)):
        found.setdefault(key(of_row), []).append(row)
    return found


def files_below(pattern: Path) -> str:
    """A pattern for all files below a folder; the path of a file, or a pattern, stays as it is."""
    pattern = fspath(pattern)
    system, path = filesystem_of(pattern)
    if re.search(r"[*?\[]", path) or system.get_file_info(path).type == fs.FileType.File:
        return pattern
    return pattern.rstrip("/") + "/**/*"
