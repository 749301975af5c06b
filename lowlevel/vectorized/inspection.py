"""What a column computation has stored, as somebody sees it who looks into a checkpoint (paper §6.2).

The signature in the checkpoint tells what its bytes mean; none of the program's code runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from headrace.lowlevel import segment
from headrace.lowlevel.arrays import numbers_in, of_numbers
from headrace.lowlevel.columnwise.fields import Field, Layout
from headrace.lowlevel.columnwise.timerrows import HOLD as HOLD_COLUMN
from headrace.lowlevel.columnwise.timerrows import HOLD_TAG, NO_HOLD, STATE_ASPECT, TIMERS_ASPECT, TIMESTAMP
from headrace.lowlevel.timer import HOLD, TimeDomain

_KINDS = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
_SAID = re.compile(r"(?P<name>\S+) (?P<kind>\w+(\[[^\]]*\])?)")
_WIDTH = re.compile(r"fixed_size_binary\[(\d+)\]")


class FieldsCoder:
    """Shows a key's fields as a dict; it is for looking only, as it knows no defaults.

    >>> coder = coder_in({"timers combined": "no", "state field 0": "total int64", "state field 1": "seen bool"})
    >>> coder.decode(bytes([7, 0, 0, 0, 0, 0, 0, 0, 1]))
    {'total': 7, 'seen': True}
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def encode(self, value: object) -> bytes:
        """It does not."""
        raise TypeError("what a checkpoint holds is only looked at here; change it by running the program")

    def decode(self, data: bytes) -> object:
        """The fields that are there: what was stored by an earlier program may have fewer."""
        fields = cast("Mapping[str, tuple[object, int]]", self._layout.dtype.fields or {})
        whole = self._layout.decode([data])
        return {name: whole[name][0].item() for name in self._layout.fields if fields[name][1] < len(data)}


def has_timers(signature: Mapping[str, str]) -> bool:
    """Whether segments hold timers."""
    return TIMERS_ASPECT in signature


def coder_in(signature: Mapping[str, str]) -> FieldsCoder | None:
    """What reads the state of a computation of this signature; None if it is no column computation's."""
    if not has_timers(signature):
        return None
    fields: dict[str, Field] = {}
    while (said := signature.get(f"{STATE_ASPECT} {len(fields)}")) is not None:
        found = _SAID.match(said)
        assert found is not None, "a layout has made it"
        fields[found["name"]] = Field(_kind(found["kind"]))
    return FieldsCoder(Layout.of(dict(fields), "the checkpoint"))


def _kind(said: str) -> pa.DataType:
    width = _WIDTH.match(said)
    if width is not None:
        return pa.binary(int(width[1]))
    return _KINDS.get(said, pa.timestamp("us"))


def marks_in(batch: pa.RecordBatch, after: int, domains: Collection[int]) -> Iterator[tuple[int, bytes, int, str]]:
    """(timestamp, encoded key, domain, tag) of timers in a segment that have not fired, and of what they hold.

    Args:
        batch: The segment.
        after: Watermark up to which timers have fired.
        domains: Those wanted.
    """
    batch = batch.filter(of_numbers(numbers_in(batch.column(TIMESTAMP)) > after))
    keys = cast("list[bytes]", batch.column(segment.KEY).to_pylist())
    if TimeDomain.LOW_WATERMARK in domains:
        for timestamp, key in zip(batch.column(TIMESTAMP).to_pylist(), keys, strict=True):
            yield timestamp, key, int(TimeDomain.LOW_WATERMARK), HOLD_TAG
    if HOLD in domains and HOLD_COLUMN in batch.schema.names:
        holds = numbers_in(batch.column(HOLD_COLUMN))
        for place in np.flatnonzero(holds != NO_HOLD).tolist():
            yield int(holds[place]), keys[place], HOLD, HOLD_TAG
