"""Headrace: a Beam-style SDK on MillWheel primitives, executed by Apache Spark.

>>> import headrace as beam
>>> with beam.Pipeline("LocalRunner") as pipeline:
...     _ = pipeline | beam.Create([1, 2, 3]) | beam.Map(lambda number: number * number) | "Print" >> beam.Map(print)
1
4
9
"""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from headrace.absent_names.absent_modules import absent_attribute, add_absent_modules

if TYPE_CHECKING:
    from headrace import coders, io, metrics, options, pvalue, testing, transforms, typehints, utils
    from headrace.pvalue import PCollection, Row, TaggedOutput
    from headrace.sdk.expressions.expression import (
        col,
        event_time,
        literal,
        pane_index,
        pane_timing,
        window_end,
        window_start,
    )
    from headrace.sdk.pipeline.pipeline import Pipeline
    from headrace.sdk.transforms.core.low_level import RunComputation
    from headrace.transforms import *

__version__ = "0.1.0"

__all__ = [
    "ApproximateQuantiles",
    "ApproximateUnique",
    "BatchElements",
    "Change",
    "ChangeKind",
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
    "FromChangelog",
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
    "RestrictionProvider",
    "Row",
    "RunComputation",
    "Select",
    "SortAndBatchElements",
    "TaggedOutput",
    "Tee",
    "ToChangelog",
    "ToString",
    "Values",
    "WaitOn",
    "WatermarkEstimatorProvider",
    "WindowInto",
    "Windowing",
    "WithKeys",
    "coders",
    "col",
    "combiners",
    "event_time",
    "io",
    "literal",
    "metrics",
    "options",
    "pane_index",
    "pane_timing",
    "ptransform_fn",
    "pvalue",
    "testing",
    "transforms",
    "trigger",
    "typehints",
    "utils",
    "window",
    "window_end",
    "window_start",
]

_MODULES = {
    "coders",
    "error",
    "io",
    "lowlevel",
    "metrics",
    "options",
    "pipeline",
    "pvalue",
    "runners",
    "sdk",
    "testing",
    "transforms",
    "typehints",
    "utils",
}
_PLACES = {
    "PCollection": "headrace.pvalue",
    "Pipeline": "headrace.sdk.pipeline.pipeline",
    "Row": "headrace.pvalue",
    "RunComputation": "headrace.sdk.transforms.core.low_level",
    "TaggedOutput": "headrace.pvalue",
    **dict.fromkeys(
        ["col", "event_time", "literal", "pane_index", "pane_timing", "window_end", "window_start"],
        "headrace.sdk.expressions.expression",
    ),
}
"""Maps a name that is not in `headrace.transforms` to its module."""


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that a command starts without importing all modules."""
    if name in _MODULES:
        return import_module(f"headrace.{name}")
    if name not in __all__:
        return absent_attribute(__name__, name)
    found = getattr(import_module(_PLACES.get(name, "headrace.transforms")), name)
    globals()[name] = found
    return cast(object, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


add_absent_modules()
