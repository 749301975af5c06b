"""Reading of a column computation's state and timers from a checkpoint, for inspection (MillWheel paper §6.2).

The signature in the checkpoint gives the layout of the bytes; none of the program's code runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel.columnar.arrow_arrays import numbers_in, of_numbers
from headrace.lowlevel.state import segment
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.lowlevel.vectorized.fields import Field, Layout
from headrace.lowlevel.vectorized.timer_rows import HOLD as HOLD_COLUMN
from headrace.lowlevel.vectorized.timer_rows import HOLD_TAG, NO_HOLD, STATE_ASPECT, TIMERS_ASPECT, TIMESTAMP

_KINDS = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
_FIELD = re.compile(r"(?P<name>\S+) (?P<kind>\w+(\[[^\]]*\])?)")
_WIDTH = re.compile(r"fixed_size_binary\[(\d+)\]")


@named("FieldsCoder")
class FieldsCoder:
    """A coder that decodes a key's state to a dict of its fields. It cannot encode, as it does not know the defaults.

    >>> coder = coder_in({"timers combined": "no", "state field 0": "total int64", "state field 1": "seen bool"})
    >>> coder.decode(bytes([7, 0, 0, 0, 0, 0, 0, 0, 1]))
    {'total': 7, 'seen': True}
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def encode(self, value: object) -> bytes:
        """Raises TypeError."""
        raise TypeError("state that was read from a checkpoint cannot be encoded; run the program to change it")

    def decode(self, data: bytes) -> object:
        """Name -> value of each stored field; state that an earlier program stored may have fewer fields."""
        fields = cast("Mapping[str, tuple[object, int]]", self._layout.dtype.fields or {})
        whole = self._layout.decode([data])
        return {name: whole[name][0].item() for name in self._layout.fields if fields[name][1] < len(data)}


def has_timers(signature: Mapping[str, str]) -> bool:
    """Whether the segments of a computation with this signature contain timers."""
    return TIMERS_ASPECT in signature


def coder_in(signature: Mapping[str, str]) -> FieldsCoder | None:
    """The coder for the state of a computation with this signature; None if it is not a column computation."""
    if not has_timers(signature):
        return None
    fields: dict[str, Field] = {}
    while (field := signature.get(f"{STATE_ASPECT} {len(fields)}")) is not None:
        parts = _FIELD.match(field)
        assert parts is not None, "the aspect was written by Layout.signature"
        fields[parts["name"]] = Field(_kind(parts["kind"]))
    return FieldsCoder(Layout.of(dict(fields), "the checkpoint"))


def _kind(name: str) -> pa.DataType:
    width = _WIDTH.match(name)
    if width is not None:
        return pa.binary(int(width[1]))
    return _KINDS.get(name, pa.timestamp("us"))


def marks_in(batch: pa.RecordBatch, after: int, domains: Collection[int]) -> Iterator[tuple[int, bytes, int, str]]:
    """(timestamp, encoded key, domain, tag) of the timers in a segment that have not fired, and of their holds.

    Args:
        batch: The segment.
        after: Watermark up to which timers have fired, microseconds UTC.
        domains: The domains to include.
    """
    batch = batch.filter(of_numbers(numbers_in(batch.column(TIMESTAMP)) > after))
    keys = cast("list[bytes]", batch.column(segment.KEY).to_pylist())
    if TimeDomain.LOW_WATERMARK in domains:
        for timestamp, key in zip(batch.column(TIMESTAMP).to_pylist(), keys, strict=True):
            yield timestamp, key, int(TimeDomain.LOW_WATERMARK), HOLD_TAG
    if HOLD in domains and HOLD_COLUMN in batch.schema.names:
        holds = numbers_in(batch.column(HOLD_COLUMN))
        for index in np.flatnonzero(holds != NO_HOLD).tolist():
            yield int(holds[index]), keys[index], HOLD, HOLD_TAG
