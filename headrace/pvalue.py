"""Under the name that Beam programs import: what flows between transforms."""

from headrace.sdk.pvalue import DoOutputsTuple, PBegin, PCollection, PDone, PValue, TaggedOutput
from headrace.sdk.row import Row

__all__ = ["DoOutputsTuple", "PBegin", "PCollection", "PDone", "PValue", "Row", "TaggedOutput"]
