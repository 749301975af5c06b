"""Exports, under the module name of Beam, the core transforms."""

from headrace.sdk.combinefns.combine_fn import CombineFn
from headrace.sdk.combinefns.vectorized import VectorizedCombineFn
from headrace.sdk.functions.changelog import Change, ChangeKind, RowChange, RowOperation
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.io.row_changes import FromRowChanges
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.splittable.restrictions import RestrictionProvider
from headrace.sdk.splittable.watermark_estimators import WatermarkEstimatorProvider
from headrace.sdk.transforms.aggregation.combine import CombineGlobally, CombinePerKey, CombineValues
from headrace.sdk.transforms.core.create import Create, Impulse
from headrace.sdk.transforms.core.flatten import Flatten, FlattenWith
from headrace.sdk.transforms.core.group_by_key import GroupByKey
from headrace.sdk.transforms.core.par_do import Filter, FlatMap, FlatMapTuple, Map, MapTuple, ParDo
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.transforms.schemas.group_by import GroupBy, Select
from headrace.sdk.transforms.util.changelog import FromChangelog, ToChangelog
from headrace.sdk.transforms.util.partition import Partition, PartitionFn
from headrace.sdk.windows.windowing import Windowing

__all__ = [
    "Change",
    "ChangeKind",
    "CombineFn",
    "CombineGlobally",
    "CombinePerKey",
    "CombineValues",
    "Create",
    "DoFn",
    "Filter",
    "FlatMap",
    "FlatMapTuple",
    "Flatten",
    "FlattenWith",
    "FromChangelog",
    "FromRowChanges",
    "GroupBy",
    "GroupByKey",
    "Impulse",
    "LateElement",
    "Map",
    "MapTuple",
    "ParDo",
    "Partition",
    "PartitionFn",
    "RestrictionProvider",
    "RowChange",
    "RowOperation",
    "Select",
    "ToChangelog",
    "VectorizedCombineFn",
    "WatermarkEstimatorProvider",
    "WindowInto",
    "Windowing",
]
