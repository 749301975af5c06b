"""Files in Avro's container format: a header with the schema, then blocks of records, each ended by a sync marker.

Source: Apache Avro specification, "Object Container Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from fastavro import block_reader

Schema: TypeAlias = "str | list[Schema] | dict[str, object]"
"""A schema of Avro as Python has it: the name of a type, a list for a union, or a dict."""
_SYNC_BYTES = 16
_CHUNK = 1 << 20
"""Bytes that are searched at once for a sync marker."""
_HEADER: Schema = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
    ],
}


class AvroBlock(Protocol):
    """A block of records, as fastavro has it."""

    offset: int
    size: int
    """Number of bytes."""
    num_records: int
    writer_schema: dict[str, object]
    """The schema of the file; for a union a list."""

    def __iter__(self) -> Iterator[object]:
        """The records."""


@dataclass(frozen=True, slots=True)
class AvroLayout:
    """Where the records of a file are."""

    header_bytes: int
    """Number of bytes before the first block."""
    block_bytes: int
    """Number of bytes of the first block; 0 if there is none."""
    record_bytes: float
    """About how many bytes a record has, as in the first block."""


def layout_of(file: BinaryIO) -> AvroLayout:
    """The layout of an open file. Raises what fastavro raises for a file that is not Avro, or is cut off."""
    blocks = opened(file)
    header_bytes = file.tell()
    block = next(blocks, None)
    if block is None:
        return AvroLayout(header_bytes, 0, 1.0)
    return AvroLayout(header_bytes, block.size, block.size / max(1, block.num_records))


def opened(file: BinaryIO) -> block_reader:
    """The blocks of an open file, which is left behind its header."""
    import fastavro

    return fastavro.block_reader(file)


def blocks_from(file: BinaryIO, start: int, end: int) -> Iterator[AvroBlock]:
    """The blocks that begin in the bytes from `start` to before `end` of an open file."""
    import fastavro

    header = cast("dict[str, bytes]", fastavro.schemaless_reader(file, _HEADER, None))
    first = file.tell()
    file.seek(0)
    # It reads its header now, and each block from where the file stands then.
    blocks = opened(file)
    position = first if start <= first else _after_marker(file, header["sync"], start - _SYNC_BYTES)
    while position is not None and position < end:
        file.seek(position)
        block = next(blocks, None)
        if block is None:
            raise EOFError("the file ends within a block")
        if block.num_records < 0:
            # fastavro takes it for a block without records.
            raise ValueError(f"a block states {block.num_records} as the number of its records")
        yield block
        position = block.offset + block.size


def _after_marker(file: BinaryIO, marker: bytes, start: int) -> int | None:
    """The offset after the first marker that begins at `start` or later; None if there is none.

    A marker that begins before belongs to a block that another task reads.
    """
    file.seek(start)
    rest = b""
    while chunk := file.read(_CHUNK):
        found = (rest + chunk).find(marker)
        if found >= 0:
            return start + found + len(marker)
        keep = (rest + chunk)[-(len(marker) - 1) :]
        start += len(rest) + len(chunk) - len(keep)
        rest = keep
    return None
