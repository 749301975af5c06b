"""Arrow record batches as bytes, in Arrow's IPC format."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def encode_tables(tables: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Encode record batches of one schema as an Arrow IPC stream.

    >>> table = pa.record_batch({"sum": [7]})
    >>> [decoded.to_pydict() for decoded in decode_tables(encode_tables([table, table], table.schema))]
    [{'sum': [7]}, {'sum': [7]}]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for table in tables:
            stream.write_batch(table)
    return bytes(memoryview(sink.getvalue()))


def decode_tables(data: bytes | memoryview) -> list[pa.RecordBatch]:
    """Decode the bytes of `encode_tables`; the columns are views of the bytes."""
    return list(pa.ipc.open_stream(pa.py_buffer(data)))
