"""Rows of an Iceberg table by key: the data files with rows of some keys, and the other rows of these files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from importlib import import_module
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_LISTED = 200
"""The greatest number of values for which pyiceberg compares each one with the bounds of a file."""


def files_with_keys(table: Table, keys: pa.Table) -> Iterator[tuple[DataFile, pa.Table]]:
    """The data files that contain rows of some keys, each with the rows that it contains besides.

    Args:
        table: The table; the newest snapshot counts.
        keys: A column for each key column, without nulls.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    # The filter only leaves out files: all rows of the others are read, as those that stay are written again.
    for task in table.scan(row_filter=_covering(keys)).plan_files():
        rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
        others = without_keys(rows, keys)
        if others.num_rows < rows.num_rows:
            yield task.file, others


def without_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is not among some.

    >>> rows, keys = pa.table({"k": [1, 2], "l": ["a", "b"]}), pa.table({"l": ["a", "b"], "k": [1, 1]})
    >>> without_keys(rows, keys).to_pylist()
    [{'k': 2, 'l': 'b'}]
    """
    names = keys.column_names
    each = [pc.is_in(rows.column(name), keys.column(name).cast(rows.schema.field(name).type)) for name in names]
    # Few rows have values of keys in each of the columns, and only these are compared as Python values.
    candidates = pc.indices_nonzero(reduce(pc.and_, each))
    wanted, found = set(_tuples(keys, names)), _tuples(rows.take(candidates), names)
    gone = [index for index, key in zip(candidates.to_pylist(), found, strict=True) if key in wanted]
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows)), pa.array(gone, pa.int64()))))


def _tuples(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def _covering(keys: pa.Table) -> BooleanExpression:
    """A condition that rows of some keys meet, and maybe others."""
    # Its types do not know that it takes names of columns.
    expressions = import_module("pyiceberg.expressions")
    met: list[BooleanExpression] = []
    for name in keys.column_names:
        values = pc.unique(keys.column(name))
        if len(values) <= _LISTED:
            met.append(expressions.In(name, values.to_pylist()))
        else:
            bounds = pc.min_max(values).as_py()
            met.append(expressions.GreaterThanOrEqual(name, bounds["min"]))
            met.append(expressions.LessThanOrEqual(name, bounds["max"]))
    return reduce(and_, met)
