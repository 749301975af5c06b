"""Headrace: a Beam-style SDK on MillWheel primitives, executed by Apache Spark.

>>> import headrace as beam
>>> with beam.Pipeline("LocalRunner") as pipeline:
...     _ = pipeline | beam.Create([1, 2, 3]) | beam.Map(lambda number: number * number) | "Print" >> beam.Map(print)
1
4
9
"""

from importlib import import_module
from typing import TYPE_CHECKING

from headrace import coders, metrics, options, pvalue, testing, transforms, typehints, utils
from headrace.pvalue import PCollection, Row, TaggedOutput
from headrace.sdk.columns.expression import col
from headrace.sdk.pipeline import Pipeline
from headrace.sdk.transforms.computation import RunComputation
from headrace.transforms import (
    ApproximateQuantiles,
    ApproximateUnique,
    BatchElements,
    CoGroupByKey,
    CombineFn,
    CombineGlobally,
    CombinePerKey,
    CombineValues,
    Create,
    Distinct,
    DoFn,
    Filter,
    FlatMap,
    FlatMapTuple,
    Flatten,
    FlattenWith,
    GroupBy,
    GroupByKey,
    GroupIntoBatches,
    Impulse,
    Keys,
    KvSwap,
    LogElements,
    Map,
    MapTuple,
    ParDo,
    Partition,
    PartitionFn,
    PTransform,
    Regex,
    Reify,
    RemoveDuplicates,
    Reshuffle,
    Select,
    Tee,
    ToString,
    Values,
    WaitOn,
    Windowing,
    WindowInto,
    WithKeys,
    combiners,
    ptransform_fn,
    trigger,
    window,
)

if TYPE_CHECKING:
    from headrace import io

__version__ = "0.1.0.dev0"

__all__ = [
    "ApproximateQuantiles",
    "ApproximateUnique",
    "BatchElements",
    "CoGroupByKey",
    "CombineFn",
    "CombineGlobally",
    "CombinePerKey",
    "CombineValues",
    "Create",
    "Distinct",
    "DoFn",
    "Filter",
    "FlatMap",
    "FlatMapTuple",
    "Flatten",
    "FlattenWith",
    "GroupBy",
    "GroupByKey",
    "GroupIntoBatches",
    "Impulse",
    "Keys",
    "KvSwap",
    "LogElements",
    "Map",
    "MapTuple",
    "PCollection",
    "PTransform",
    "ParDo",
    "Partition",
    "PartitionFn",
    "Pipeline",
    "Regex",
    "Reify",
    "RemoveDuplicates",
    "Reshuffle",
    "Row",
    "RunComputation",
    "Select",
    "TaggedOutput",
    "Tee",
    "ToString",
    "Values",
    "WaitOn",
    "WindowInto",
    "Windowing",
    "WithKeys",
    "coders",
    "col",
    "combiners",
    "io",
    "metrics",
    "options",
    "ptransform_fn",
    "pvalue",
    "testing",
    "transforms",
    "trigger",
    "typehints",
    "utils",
    "window",
]


def __getattr__(name: str) -> object:
    """`io` is loaded when it is first used: it needs Arrow, which takes longer than everything else together."""
    if name == "io":
        return import_module("headrace.io")
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
