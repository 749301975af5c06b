"""Exports, under the module name of Beam, all coders."""

from headrace.sdk.coders.coder import Coder
from headrace.sdk.coders.composite import (
    IterableCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    RowCoder,
    TupleCoder,
    TupleSequenceCoder,
)
from headrace.sdk.coders.pickled import (
    CloudpickleCoder,
    DeterministicFastPrimitivesCoder,
    FastPrimitivesCoder,
    PickleCoder,
)
from headrace.sdk.coders.plain import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    DecimalCoder,
    FloatCoder,
    StrUtf8Coder,
    TimestampCoder,
    ToBytesCoder,
    VarIntCoder,
)

__all__ = [
    "BigIntegerCoder",
    "BooleanCoder",
    "BytesCoder",
    "CloudpickleCoder",
    "Coder",
    "DecimalCoder",
    "DeterministicFastPrimitivesCoder",
    "FastPrimitivesCoder",
    "FloatCoder",
    "IterableCoder",
    "ListCoder",
    "MapCoder",
    "NullableCoder",
    "PickleCoder",
    "RowCoder",
    "StrUtf8Coder",
    "TimestampCoder",
    "ToBytesCoder",
    "TupleCoder",
    "TupleSequenceCoder",
    "VarIntCoder",
]
