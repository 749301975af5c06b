"""What: each distinct element once (`apache_beam.Distinct`)."""

from __future__ import annotations

from typing import cast

from headrace.sdk.combinefns.combine_fn import AnyCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn
from headrace.sdk.graph.ptransform import ptransform_fn
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.aggregation.combine import CombinePerKey
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.util.pairs import Keys


@ptransform_fn
def Distinct(inputs: PCollection[object]) -> PCollection[object]:
    """Emits each distinct element of a window once per pane.

    The elements become keys, so they must be of a type that can be a key.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["a", "b", "a"]) | beam.Distinct() | beam.Map(print)
    a
    b
    """
    pairs = inputs | "ToPairs" >> Map(lambda element: (element, None))
    # The count is not used: counting is fast, as counts are added up as columns.
    combine_fn = cast(AnyCombineFn, CountCombineFn())
    return pairs | "Group" >> CombinePerKey(combine_fn) | "Distinct" >> Keys()


@ptransform_fn
def RemoveDuplicates(inputs: PCollection[object]) -> PCollection[object]:
    """`Distinct`, under its older name in Beam.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["red", "red"]) | RemoveDuplicates() | beam.Map(print)
    red
    """
    return inputs | "RemoveDuplicates" >> Distinct()
