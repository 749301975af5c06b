"""Under the name that Beam programs import: transforms made of others."""

from headrace.sdk.transforms.batchelements import BatchElements
from headrace.sdk.transforms.batches import GroupIntoBatches
from headrace.sdk.transforms.distinct import Distinct, RemoveDuplicates
from headrace.sdk.transforms.group import CoGroupByKey
from headrace.sdk.transforms.log_elements import LogElements
from headrace.sdk.transforms.pairs import Keys, KvSwap, Values, WithKeys
from headrace.sdk.transforms.regex import Regex
from headrace.sdk.transforms.reify import Reify
from headrace.sdk.transforms.reshuffle import Reshuffle, ReshufflePerKey
from headrace.sdk.transforms.tee import Tee
from headrace.sdk.transforms.tostring import ToString
from headrace.sdk.transforms.wait_on import WaitOn

__all__ = [
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
    "Tee",
    "ToString",
    "Values",
    "WaitOn",
    "WithKeys",
]
