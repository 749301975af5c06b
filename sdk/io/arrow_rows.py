"""Arrow record batches as Python values: lists, dicts and `Row`s."""

from __future__ import annotations

import pyarrow as pa

from headrace.lowlevel.columnar.arrow_to_python import dicts_of, to_list
from headrace.sdk.model.row import Row

__all__ = ["to_dicts", "to_list", "to_rows"]


def to_rows(batch: pa.RecordBatch) -> list[object]:
    """A `Row` for each row of a batch.

    >>> to_rows(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [Row(carrier='UA', delay=3)]
    """
    return [Row.of(fields) for fields in to_dicts(batch)]


def to_dicts(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """A dict for each row of a batch.

    >>> to_dicts(pa.record_batch({"carrier": ["UA"], "delay": [3]}))
    [{'carrier': 'UA', 'delay': 3}]
    """
    names = batch.schema.names
    if not names:
        return [{} for _ in range(batch.num_rows)]
    return dicts_of(tuple(names), [to_list(column) for column in batch.columns])
