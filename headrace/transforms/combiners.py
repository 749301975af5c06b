"""Under the name that Beam programs import: the usual aggregations."""

from headrace.sdk.transforms.collecting import (
    Largest,
    LatestCombineFn,
    SampleCombineFn,
    Smallest,
    ToDictCombineFn,
    ToListCombineFn,
    TopCombineFn,
    ToSetCombineFn,
)
from headrace.sdk.transforms.combiners import Count, Latest, Mean, Sample, ToDict, ToList, Top, ToSet
from headrace.sdk.transforms.numeric import CountCombineFn, MeanCombineFn
from headrace.sdk.transforms.tuples import SingleInputTupleCombineFn, TupleCombineFn

__all__ = [
    "Count",
    "CountCombineFn",
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
