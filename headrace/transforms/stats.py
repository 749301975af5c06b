"""Under the name that Beam programs import: approximate counts and quantiles."""

from headrace.sdk.transforms.quantiles import ApproximateQuantiles, ApproximateQuantilesCombineFn
from headrace.sdk.transforms.unique import ApproximateUnique, ApproximateUniqueCombineFn

__all__ = [
    "ApproximateQuantiles",
    "ApproximateQuantilesCombineFn",
    "ApproximateUnique",
    "ApproximateUniqueCombineFn",
]
