"""Exports, under the module name of Beam, transforms that are composed of other transforms."""

from headrace.sdk.transforms.aggregation.combiners import Distinct, RemoveDuplicates
from headrace.sdk.transforms.aggregation.sort_and_batch import SortAndBatchElements
from headrace.sdk.transforms.core.reshuffle import Reshuffle, ReshufflePerKey
from headrace.sdk.transforms.util.async_map import AsyncMap
from headrace.sdk.transforms.util.batch_elements import BatchElements
from headrace.sdk.transforms.util.co_group_by_key import CoGroupByKey
from headrace.sdk.transforms.util.conversions import Reify, ToString
from headrace.sdk.transforms.util.group_into_batches import GroupIntoBatches
from headrace.sdk.transforms.util.pairs import Keys, KvSwap, Values, WithKeys
from headrace.sdk.transforms.util.pass_through import LogElements, Tee, WaitOn
from headrace.sdk.transforms.util.regex import Regex

__all__ = [
    "AsyncMap",
    "BatchElements",
    "CoGroupByKey",
    "Distinct",
    "GroupIntoBatches",
    "Keys",
    "KvSwap",
    "LogElements",
    "Regex",
    "Reify",
    "RemoveDuplicates",
    "Reshuffle",
    "ReshufflePerKey",
    "SortAndBatchElements",
    "Tee",
    "ToString",
    "Values",
    "WaitOn",
    "WithKeys",
]
