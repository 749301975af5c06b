"""Exports, under the module name of Beam, approximate counts and quantiles, and variances."""

from headrace.sdk.combinefns.quantile_sketch import ApproximateQuantilesCombineFn
from headrace.sdk.combinefns.unique_sketch import ApproximateUniqueCombineFn
from headrace.sdk.combinefns.variance import StandardDeviationFn, VarianceFn
from headrace.sdk.transforms.aggregation.approximations import ApproximateQuantiles, ApproximateUnique

__all__ = [
    "ApproximateQuantiles",
    "ApproximateQuantilesCombineFn",
    "ApproximateUnique",
    "ApproximateUniqueCombineFn",
    "StandardDeviationFn",
    "VarianceFn",
]
