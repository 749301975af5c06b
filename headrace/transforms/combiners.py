"""Exports, under the module name of Beam, the common aggregations."""

from headrace.sdk.combinefns.collecting import (
    CountDistinctCombineFn,
    EarliestCombineFn,
    Largest,
    LatestCombineFn,
    SampleCombineFn,
    Smallest,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.combinefns.composite import SingleInputTupleCombineFn, TupleCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn, CountNonNullCombineFn, MeanCombineFn
from headrace.sdk.transforms.aggregation.combiners import (
    Count,
    Earliest,
    Latest,
    Mean,
    Sample,
    ToDict,
    ToList,
    Top,
    ToSet,
)

__all__ = [
    "Count",
    "CountCombineFn",
    "CountDistinctCombineFn",
    "CountNonNullCombineFn",
    "Earliest",
    "EarliestCombineFn",
    "Largest",
    "Latest",
    "LatestCombineFn",
    "Mean",
    "MeanCombineFn",
    "Sample",
    "SampleCombineFn",
    "SingleInputTupleCombineFn",
    "Smallest",
    "ToDict",
    "ToDictCombineFn",
    "ToList",
    "ToListCombineFn",
    "ToSet",
    "ToSetCombineFn",
    "Top",
    "TopCombineFn",
    "TupleCombineFn",
]
