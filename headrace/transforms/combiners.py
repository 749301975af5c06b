"""Under the name that Beam programs import: the usual aggregations."""

from headrace.sdk.transforms.collecting import (
    LatestCombineFn,
    SampleCombineFn,
    SingleInputTupleCombineFn,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
    TupleCombineFn,
)
from headrace.sdk.transforms.combiners import Count, Latest, Mean, Sample, ToDict, ToList, Top, ToSet
from headrace.sdk.transforms.numeric import CountCombineFn, MeanCombineFn

__all__ = [
    "Count",
    "CountCombineFn",
    "Latest",
    "LatestCombineFn",
    "Mean",
    "MeanCombineFn",
    "Sample",
    "SampleCombineFn",
    "SingleInputTupleCombineFn",
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
