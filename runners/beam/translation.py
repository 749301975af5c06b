"""Translation of Beam's graph into a pipeline of Headrace, step by step; known composites are taken whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import apache_beam
from apache_beam.pipeline import AppliedPTransform

from headrace.runners.beam.functions.do_fns import holds_checked_types
from headrace.runners.beam.windowings import UntranslatableError
from headrace.sdk.graph.pvalue import DoOutputsTuple, PCollection
from headrace.sdk.pipeline.pipeline import Pipeline

Collection: TypeAlias = PCollection[object]


class Translation:
    """A pipeline of Headrace that does what one of Beam's does.

    Args:
        pipeline: The pipeline to which steps are added; empty.
        rules: Class of Beam's transform -> what adds its steps.
    """

    def __init__(self, pipeline: Pipeline, rules: Mapping[type, Rule]) -> None:
        self.pipeline = pipeline
        self._rules = rules
        self._collections: dict[apache_beam.PCollection, Collection] = {}
        self._begun: set[AppliedPTransform] = set()

    def translate(self, step: AppliedPTransform) -> None:
        """Add a step, or the steps that it consists of, behind those that it reads.

        A step is added once; the order of steps in Beam's tree does not matter. Raises UntranslatableError if a step
        cannot be run.
        """
        if step in self._begun:
            return
        self._begun.add(step)
        for read in (*step.main_inputs.values(), *(side.pvalue for side in step.side_inputs)):
            if isinstance(read, apache_beam.PCollection):
                self._require(read, step)
        if (rule := self._rule(step)) is not None:
            rule(self, step)
        else:
            self.enter(step)

    def _rule(self, step: AppliedPTransform) -> Rule | None:
        return None if holds_checked_types(step) else self._rules.get(type(step.transform))

    def _require(self, collection: apache_beam.PCollection, reader: AppliedPTransform) -> None:
        """Add the steps that make a collection, unless they are there."""
        producer = around = collection.producer
        ways: list[AppliedPTransform] = []
        while around is not None:
            if around is producer or self._rule(around) is not None:
                ways.insert(0, around)
            around = around.parent
        # The outermost step that is taken whole makes the collection, or, if it was added inside of that, its producer.
        for step in ways:
            if collection not in self._collections:
                self.translate(step)
        if collection not in self._collections:
            raise UntranslatableError(
                f"step {reader.full_label!r} reads {collection}, which no step before it makes; build the pipeline so "
                "that a step is applied to the output of another one"
            )

    def enter(self, step: AppliedPTransform) -> None:
        """Add the steps that a step consists of. Raises UntranslatableError for a primitive."""
        if step.parts:
            for part in step.parts:
                self.translate(part)
        elif not all(output in self._collections for output in step.outputs.values()):
            raise UntranslatableError(
                f"step {step.full_label!r}: the runner cannot run {type(step.transform).__name__}; "
                "see docs/guide/from-beam.md for what it can"
            )

    def source(self, step: AppliedPTransform) -> Collection:
        """The one collection that a step takes."""
        [taken] = step.main_inputs.values()
        return self._collections[taken]

    def collection(self, collection: apache_beam.PCollection) -> Collection:
        """The collection for one of Beam's."""
        return self._collections[collection]

    def put(self, step: AppliedPTransform, collection: Collection, tag: str | None = None) -> None:
        """Record the collection for an output of a step."""
        self._collections[step.outputs[tag]] = collection

    def put_all(self, step: AppliedPTransform, outputs: DoOutputsTuple) -> None:
        """Record the collections for the outputs of a step by their tags."""
        for tag in step.outputs:
            self.put(step, outputs[tag], tag)


Rule = Callable[[Translation, AppliedPTransform], None]
