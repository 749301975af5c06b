"""What: each different element once (`apache_beam.Distinct`)."""

from __future__ import annotations

from typing import cast

from headrace.sdk.ptransform import ptransform_fn
from headrace.sdk.pvalue import PCollection
from headrace.sdk.transforms.combine import CombinePerKey
from headrace.sdk.transforms.combinefn import AnyCombineFn
from headrace.sdk.transforms.element import Map
from headrace.sdk.transforms.numeric import CountCombineFn
from headrace.sdk.transforms.pairs import Keys


@ptransform_fn
def Distinct(inputs: PCollection[object]) -> PCollection[object]:
    """Each different element of a window, once a pane.

    Elements are grouped by themselves, so they must be what can be a key.
    """
    pairs = inputs | "ToPairs" >> Map(lambda element: (element, None))
    # That they are counted is of no use but speed: counts are added up as columns.
    combine_fn = cast(AnyCombineFn, CountCombineFn())
    return pairs | "Group" >> CombinePerKey(combine_fn) | "Distinct" >> Keys()


@ptransform_fn
def RemoveDuplicates(inputs: PCollection[object]) -> PCollection[object]:
    """The old name of `Distinct`."""
    return inputs | "RemoveDuplicates" >> Distinct()
