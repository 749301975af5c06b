"""The steps of a pipeline as a tree, and what walks through it (`apache_beam.pipeline.PipelineVisitor`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Never

from headrace.sdk.graph.pvalue import PCollection, PValue, Step, Transform
from headrace.sdk.graph.side_inputs import AsSideInput


@dataclass(eq=False, slots=True)
class AppliedPTransform:
    """A transform that was applied, with the transforms that it was made of.

    >>> import headrace as beam
    >>> class Labels(beam.pipeline.PipelineVisitor):
    ...     def visit_transform(self, transform):
    ...         print(transform.full_label)
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | "Numbers" >> beam.Create([1, 2]) | "Double" >> beam.Map(lambda number: 2 * number)
    >>> pipeline.visit(Labels())
    Numbers
    Double
    """

    parent: AppliedPTransform | None
    """The transform around it; None for the root, which is the pipeline itself."""
    step: Step | None
    """The step; None for the root."""
    main_inputs: Mapping[str, PValue] = field(default_factory=dict)
    """The inputs by name: `None` in text for a single one, numbers or keys for several."""
    returned: dict[str | None, PCollection[object]] = field(default_factory=dict)
    """What it returned when it was applied, by tag or name; tagged outputs may be looked up later."""
    parts: list[AppliedPTransform] = field(default_factory=list)
    """The transforms inside, in the order in which they were applied."""

    @property
    def full_label(self) -> str:
        """The labels of the transforms around it and its own; empty for the root."""
        return "" if self.step is None else self.step.full_label

    @property
    def transform(self) -> Transform[Never, object] | None:
        """The transform; None for the root."""
        return None if self.step is None else self.step.transform

    @property
    def inputs(self) -> tuple[PValue, ...]:
        """The inputs without their names."""
        return tuple(self.main_inputs.values())

    @property
    def outputs(self) -> dict[str | None, PCollection[object]]:
        """The outputs by tag or name, also those that an inner transform has made."""
        return self.returned if self.step is None else {**self.returned, **self.step.outputs}

    @property
    def side_inputs(self) -> tuple[AsSideInput, ...]:
        """The side inputs of a step that has any."""
        transform = getattr(self.transform, "par_do", self.transform)
        return tuple(getattr(transform, "side_inputs", ()))

    def is_composite(self) -> bool:
        """Whether it has parts, or made none of its outputs itself."""
        made = [output.producer for output in self.outputs.values()]
        return bool(self.parts) or (bool(made) and self.step not in made) or self.step is None

    def visit(self, visitor: PipelineVisitor, visited: set[PValue]) -> None:
        """Show it, what is inside, and its outputs to a visitor.

        Args:
            visitor: The visitor.
            visited: Values that the visitor has seen.
        """
        if self.is_composite():
            visitor.enter_composite_transform(self)
            for part in self.parts:
                part.visit(visitor, visited)
            visitor.leave_composite_transform(self)
        else:
            visitor.visit_transform(self)
        for output in self.outputs.values():
            if output not in visited:
                visited.add(output)
                visitor.visit_value(output, self)


class PipelineVisitor:
    """What `Pipeline.visit` shows the steps and collections of a pipeline to; subclass it.

    Each collection comes after the step that makes it, and each step after the collections that it takes.

    >>> import headrace as beam
    >>> class Labels(PipelineVisitor):
    ...     def visit_transform(self, transform_node):
    ...         print(transform_node.full_label)
    >>> pipeline = beam.Pipeline("LocalRunner")
    >>> _ = pipeline | beam.Create(["to be"]) | "Words" >> beam.FlatMap(str.split) | beam.GroupBy(len)
    >>> pipeline.visit(Labels())
    Create
    Words
    GroupBy(key)/Key
    GroupBy(key)/GroupByKey
    """

    def visit_value(self, value: PValue, producer_node: AppliedPTransform) -> None:
        """Called for each collection.

        Args:
            value: The collection.
            producer_node: The innermost step that puts it out.
        """

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Called for each step without steps inside."""

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        """Called before the steps inside a step; first for the pipeline itself, which has no transform."""

    def leave_composite_transform(self, transform_node: AppliedPTransform) -> None:
        """Called after the steps inside a step."""
