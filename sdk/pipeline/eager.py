"""Transforms that are applied to lists of values instead of collections: computed at once, in memory (as in Beam)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import cast

from headrace.lowlevel.sinks.sink import CallSink
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.graph.ptransform import PTransform, mapped
from headrace.sdk.graph.pvalue import BasePipeline, DoOutputsTuple, PCollection
from headrace.sdk.pipeline.pipeline import Pipeline
from headrace.sdk.transforms.core.create import Create
from headrace.sdk.transforms.core.low_level import Write


class EagerOutputs:
    """The outputs of a step with several outputs, as lists: by attribute, by key, or by iteration.

    Args:
        outputs: The outputs of the step.
        elements: The elements of each output.

    Raises:
        KeyError: A tag is looked up that `with_outputs` did not declare.
    """

    def __init__(self, outputs: DoOutputsTuple, elements: dict[PCollection[object], list[object]]) -> None:
        self._outputs, self._elements = outputs, elements

    def __getitem__(self, tag: str | int | None) -> list[object]:
        collection = self._outputs[tag]
        if collection not in self._elements:
            raise KeyError(f"the output {tag!r} was not collected; declare it: with_outputs({tag!r})")
        return self._elements[collection]

    def __getattr__(self, tag: str) -> list[object]:
        if tag.startswith("_"):
            raise AttributeError(tag)
        return self[tag]

    def __iter__(self) -> Iterator[list[object]]:
        return (self._elements[collection] for collection in self._outputs)


def apply_eagerly(transform: PTransform[object, object], inputs: object, label: str) -> object:
    """What a transform makes of lists, computed at once by a pipeline in memory.

    Args:
        transform: The transform.
        inputs: A list, or nested tuples and dicts of lists; each is the elements of one input.
        label: Label of the step.

    Returns:
        What `expand` returns, with a list of elements for each collection.

    >>> from headrace import CoGroupByKey, Map
    >>> [1, 2, 3] | Map(lambda number: number * number)
    [1, 4, 9]
    >>> {"mail": [("ann", "ann@example.org")], "phone": [("ann", 11)]} | CoGroupByKey()
    [('ann', {'mail': ['ann@example.org'], 'phone': [11]})]
    """
    pipeline = Pipeline("LocalRunner", PipelineOptions([]))
    numbers = count()

    def created(elements: object) -> object:
        return pipeline | f"CreatePInput{next(numbers)}" >> Create(cast("list[object]", elements))

    given = tuple(inputs) if transform.takes_several and isinstance(inputs, list) else inputs
    result = pipeline.apply(transform, mapped(given, created, lists_too=False), label)
    collected = mapped(result, _Collected(pipeline).of)
    pipeline.run()
    return collected


class _Collected:
    """Adds a sink to each collection, which appends the elements to a list."""

    def __init__(self, pipeline: BasePipeline) -> None:
        self._pipeline, self._numbers = pipeline, count()

    def of(self, value: object) -> object:
        """The list, or lists, that a result will have when the pipeline has run."""
        if isinstance(value, DoOutputsTuple):
            return EagerOutputs(value, {output: self._elements(output) for output in value.all()})
        return self._elements(value) if isinstance(value, PCollection) else value

    def _elements(self, collection: PCollection[object]) -> list[object]:
        elements: list[object] = []

        def deliver(epoch: int, rows: Sequence[tuple[object, int]]) -> None:
            elements.extend(value for value, _ in rows)

        self._pipeline.apply(Write(CallSink(deliver)), collection, f"Collect{next(self._numbers)}")
        return elements
