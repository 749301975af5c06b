"""Under the name that Beam programs import: what flows between transforms."""

from headrace.sdk.pvalue import DoOutputsTuple, PBegin, PCollection, PDone, PValue, TaggedOutput
from headrace.sdk.row import Row
from headrace.sdk.sides.arguments import AsDict, AsIter, AsList, AsMultiMap, AsSideInput, AsSingleton, EmptySideInput

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
