"""Equality of results: order does not matter, everything else does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

_SHOWN = 5
Rows = Sequence[tuple[object, ...]]
Result = pa.Table | Rows
"""A table, or rows with values in the workload's order, as a system gives them: nobody is timed making tables."""


class Expectation(Protocol):
    """What is known of results before there is one."""

    @property
    def name(self) -> str:
        """Of what was computed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def settle(self) -> Callable[[pa.Table], pa.Table] | None:
        """What is the same for all systems in a result, if that is not all of it."""


def canonical(of: Expectation, result: Result) -> pa.Table:
    """What systems must agree on of the result, with the workload's column names and types, sorted by all columns."""
    if not isinstance(result, pa.Table):
        result = pa.table(list(zip(*result, strict=True)) or [[]] * len(of.columns), schema=of.schema)
    named = result.rename_columns(list(of.columns)).cast(of.schema)
    settled = named if of.settle is None else of.settle(named)
    return settled.sort_by([(column, "ascending") for column in settled.column_names]).combine_chunks()


def difference(of: Expectation, expected: pa.Table, actual: pa.Table) -> str | None:
    """What differs between two canonical results, or None.

    >>> from benchmarks.workload import W1
    >>> tables = [pa.table([["a"], [0], [total]], schema=W1.schema) for total in (7, 8)]
    >>> difference(W1, tables[0], tables[0])
    >>> print(difference(W1, *tables))
    W1: 1 rows expected, 1 got
      1 missing: [('a', 0, 7)]
      1 wrong: [('a', 0, 8)]
    """
    if expected.equals(actual):
        return None
    wanted, got = _rows(expected), _rows(actual)
    lines = [f"{of.name}: {len(wanted)} rows expected, {len(got)} got"]
    for label, rows in (("missing", _without(wanted, got)), ("wrong", _without(got, wanted))):
        if rows:
            lines.append(f"  {len(rows)} {label}: {rows[:_SHOWN]}")
    return "\n".join(lines)


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _without(rows: list[tuple[object, ...]], others: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Rows that the others lack, or have fewer times."""
    left = Counter(rows)
    left.subtract(Counter(others))
    return [row for row, n in left.items() for _ in range(n)]
