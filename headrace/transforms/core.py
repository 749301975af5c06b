"""Under the name that Beam programs import: the transforms that others are made of."""

from headrace.sdk.transforms.changelog import Change, ChangeKind, FromChangelog, ToChangelog
from headrace.sdk.transforms.combine import CombineGlobally, CombinePerKey, CombineValues
from headrace.sdk.transforms.combinefn import CombineFn
from headrace.sdk.transforms.create import Create, Impulse
from headrace.sdk.transforms.element import DoFn, Filter, FlatMap, FlatMapTuple, Map, MapTuple, ParDo
from headrace.sdk.transforms.flatten import Flatten, FlattenWith
from headrace.sdk.transforms.group import GroupByKey
from headrace.sdk.transforms.group_by import GroupBy, Select
from headrace.sdk.transforms.partition import Partition, PartitionFn
from headrace.sdk.transforms.window_into import WindowInto
from headrace.sdk.windowing import Windowing

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
    "GroupBy",
    "GroupByKey",
    "Impulse",
    "Map",
    "MapTuple",
    "ParDo",
    "Partition",
    "PartitionFn",
    "Select",
    "ToChangelog",
    "WindowInto",
    "Windowing",
]
