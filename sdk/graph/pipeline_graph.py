"""A pipeline while it is built: transforms applied to collections, each under a label of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.graph.alike_steps import AlikeStep, labels_before
from headrace.sdk.graph.build_checks import check_inputs, type_outputs
from headrace.sdk.graph.pipeline_visitor import AppliedPTransform, PipelineVisitor
from headrace.sdk.graph.ptransform import NamedPTransform, PTransform, named_values
from headrace.sdk.graph.pvalue import (
    Alike,
    BasePipeline,
    DoOutputsTuple,
    InT,
    OutT,
    PCollection,
    PDone,
    PValue,
    Step,
    Transform,
)
from headrace.sdk.model.labels import has_function_without_name


class PipelineGraph(BasePipeline):
    """The steps of a pipeline, in the order in which they were applied.

    >>> graph = PipelineGraph(PipelineOptions([]))
    >>> graph.steps
    []
    """

    def __init__(self, options: PipelineOptions) -> None:
        self.options = options
        self.steps: list[Step] = []
        self.checks: list[Callable[[], None]] = []
        self._root = self._around = AppliedPTransform(None, None)
        """The pipeline itself; and the step that is being applied, or the pipeline."""
        self._labels: set[str] = set()
        self._alike: dict[str, list[AlikeStep]] = {}
        """Full label -> the steps that have it by default, though their functions have no names."""

    def apply(self, transform: Transform[InT, OutT], inputs: object, label: str | None = None) -> OutT:
        """Apply a transform to a collection, or to nested tuples, lists and dicts of them; what `|` does.

        Raises:
            TypeError: `transform` is no transform, or takes a collection and is applied to something else.
            RuntimeError: Another step has the same full label.
        """
        if isinstance(transform, NamedPTransform):
            named: NamedPTransform[InT, OutT] = transform
            return self.apply(named.transform, inputs, label or named.label)
        if not isinstance(transform, PTransform):
            raise TypeError(f"expected a transform, got {transform!r:.200}; {_instead_of(transform)}")
        applied: PTransform[InT, OutT] = transform
        by_default = label is None and applied.has_default_label
        label, alike = label or applied.label, () if self._around.step is None else self._around.step.alike
        if self._around.step is None:
            label, alike = self._outermost(label)
        step = Step(self._claim(label, by_default), applied, self._inputs_of(applied, inputs), alike=alike)
        if by_default and has_function_without_name(label):
            self._group(step, label)
        self.steps.append(step)
        check_inputs(step, applied, inputs)
        with self._inside(AppliedPTransform(self._around, step, _by_name(inputs))) as node:
            result = applied.expand(cast(InT, inputs))
        self._set_producer(step, node, result)
        type_outputs(step, applied, inputs, result)
        return result

    def _claim(self, label: str, by_default: bool) -> str:
        """A full label that no other step has; functions without names are numbered where their labels are equal."""
        full_label = wanted = self._full(label)
        number = 1
        while full_label in self._labels:
            if not (by_default and has_function_without_name(label)):
                raise RuntimeError(
                    f"a step with the label {full_label!r} already exists in the pipeline; "
                    "give this one a label of its own: pcollection | 'label' >> transform"
                )
            number += 1
            full_label = f"{wanted}_{number}"
        self._labels.add(full_label)
        return full_label

    def _full(self, label: str) -> str:
        return "/".join(filter(None, [self.current_label, label]))

    def _group(self, step: Step, label: str) -> None:
        """Note a step whose default label others may have."""
        group = self._alike.setdefault(self._full(label), [])
        group.append(AlikeStep(group, step.transform, partial(labels_before, step)))
        step.alike = (*step.alike, group[-1])

    def _outermost(self, label: str) -> tuple[str, tuple[Alike, ...]]:
        """The label of a step that is in no other step, and what others are like of a translated graph around it."""
        return label, ()

    def has_label(self, full_label: str) -> bool:
        """See `BasePipeline`."""
        return full_label in self._labels

    @property
    def current_label(self) -> str:
        """See `BasePipeline`."""
        return self._around.full_label

    def _inputs_of(self, transform: PTransform[InT, OutT], inputs: object) -> list[PValue]:
        values = [value for _, value in named_values(inputs)]
        if inputs is None or any(isinstance(value, PDone) for value in values):
            raise TypeError(
                f"transform {transform.label!r} was applied to the output of a step that has none ({inputs!r}); "
                "apply it to a collection"
            )
        if any(value.pipeline is not self for value in values):
            raise ValueError(
                f"transform {transform.label!r} was given collections of different pipelines; build both in one"
            )
        return values

    def visit(self, visitor: PipelineVisitor) -> None:
        """Show all steps and collections to a visitor; see `PipelineVisitor`. Raises `TypeError` for anything else."""
        if not isinstance(visitor, PipelineVisitor):
            raise TypeError(f"visit takes a PipelineVisitor, got {visitor!r:.200}; give an instance of a subclass")
        self._root.visit(visitor, set())

    @contextmanager
    def _inside(self, node: AppliedPTransform) -> Iterator[AppliedPTransform]:
        outer, self._around = self._around, node
        outer.parts.append(node)
        try:
            yield node
        finally:
            self._around = outer

    def _set_producer(self, step: Step, node: AppliedPTransform, result: object) -> None:
        """Make the step the producer of what no inner step produced."""
        if isinstance(result, DoOutputsTuple):
            values: dict[str | None, PValue] = {value.tag: value for value in result.all()}
        else:
            values = {name or None: value for name, value in named_values(result)}
        for tag, value in values.items():
            if isinstance(value, PCollection):
                node.returned[tag] = value
                if value.producer is None:
                    step.add_output(value)


def _by_name(inputs: object) -> dict[str, PValue]:
    """Inputs by their names in text, as Beam has them."""
    return {name or "None": value for name, value in named_values(inputs)}


def _instead_of(given: object) -> str:
    """What to write instead of something that is no transform."""
    if isinstance(given, str):
        return f"a label stands before its transform: pcollection | {given!r:.80} >> transform"
    if isinstance(given, type) and issubclass(given, PTransform):
        return f"make an instance of the class: {given.__name__}(...)"
    return "write pcollection | Map(function), say"
