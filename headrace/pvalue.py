"""Exports, under the module name of Beam, collections, side inputs and elements."""

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.graph.pvalue import DoOutputsTuple, PBegin, PCollection, PDone, PValue
from headrace.sdk.graph.side_inputs import (
    AsDict,
    AsIter,
    AsList,
    AsMultiMap,
    AsSideInput,
    AsSingleton,
    EmptySideInput,
)
from headrace.sdk.model.row import Row
from headrace.sdk.model.special_outputs import TaggedOutput

__all__ = [
    "AsDict",
    "AsIter",
    "AsList",
    "AsMultiMap",
    "AsSideInput",
    "AsSingleton",
    "DoOutputsTuple",
    "EmptySideInput",
    "PBegin",
    "PCollection",
    "PDone",
    "PValue",
    "Row",
    "TaggedOutput",
]

add_absent_names(__name__)
