"""Exports, under the module name of Beam, coders."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.coders import coders, row_coder, typecoders
from headrace.coders.coders import *
from headrace.coders.typecoders import registry

__all__ = [
    "BigIntegerCoder",
    "BooleanCoder",
    "BytesCoder",
    "CloudpickleCoder",
    "Coder",
    "DecimalCoder",
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
    "coders",
    "registry",
    "row_coder",
    "typecoders",
]

add_absent_names(__name__)
