"""Equality of results: order does not matter, everything else does."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from benchmarks.workload import Workload

_SHOWN = 5


def canonical(workload: Workload, result: pa.Table) -> pa.Table:
    """What systems must agree on of the result, with the workload's column names and types, sorted by all columns."""
    named = result.rename_columns(list(workload.columns)).cast(workload.schema)
    settled = named if workload.settle is None else workload.settle(named)
    return settled.sort_by([(column, "ascending") for column in settled.column_names]).combine_chunks()


def difference(workload: Workload, expected: pa.Table, actual: pa.Table) -> str | None:
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
    lines = [f"{workload.name}: {len(wanted)} rows expected, {len(got)} got"]
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
