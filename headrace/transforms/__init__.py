"""Exports, under the module name of Beam, all transforms, and the modules of windows, triggers and combiners."""

from typing import Any

from headrace.absent_names.absent_modules import add_absent_names
from headrace.sdk.graph.ptransform import apply_to_lists_by
from headrace.transforms import (
    combiners,
    core,
    deduplicate,
    error_handling,
    periodicsequence,
    ptransform,
    stats,
    timeutil,
    trigger,
    userstate,
    util,
    window,
)
from headrace.transforms.core import *
from headrace.transforms.ptransform import PTransform, ptransform_fn
from headrace.transforms.stats import ApproximateQuantiles, ApproximateUnique
from headrace.transforms.util import *


@apply_to_lists_by
def _apply_to_lists(transform: PTransform[Any, Any], inputs: object, label: str) -> object:
    # Pipelines take as long to import as all transforms.
    from headrace.sdk.pipeline.eager import apply_eagerly

    return apply_eagerly(transform, inputs, label)


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
    "PTransform",
    "ParDo",
    "Partition",
    "PartitionFn",
    "Regex",
    "Reify",
    "RemoveDuplicates",
    "Reshuffle",
    "RestrictionProvider",
    "Select",
    "SortAndBatchElements",
    "Tee",
    "ToChangelog",
    "ToString",
    "Values",
    "WaitOn",
    "WatermarkEstimatorProvider",
    "WindowInto",
    "Windowing",
    "WithKeys",
    "combiners",
    "core",
    "deduplicate",
    "error_handling",
    "periodicsequence",
    "ptransform",
    "ptransform_fn",
    "stats",
    "timeutil",
    "trigger",
    "userstate",
    "util",
    "window",
]

add_absent_names(__name__)
