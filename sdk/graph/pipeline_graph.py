"""A pipeline while it is built: transforms applied to collections, each under a label of its own.

Steps whose default labels are equal, because their functions are alike and have no names, are numbered in the order of
the program, so a step that is added, moved or removed changes the numbers of others. A checkpoint keeps the description
of a step beside its stored data, and refuses the data to another step.

Visitors walk through the steps as a tree (`apache_beam.pipeline.PipelineVisitor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from types import FunctionType
from typing import Never, cast

from headrace.lowlevel.errors import TopologyError
from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.graph.build_checks import check_inputs, type_outputs
from headrace.sdk.graph.ptransform import NamedPTransform, PTransform, SomeTransform, named_values
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
from headrace.sdk.graph.side_inputs import AsSideInput
from headrace.sdk.model.labels import has_function_without_name, label_of, without_addresses
from headrace.sdk.model.late_element import LATE_DATA, LateElement


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
        if applied.has_late_output:
            return cast(OutT, (result, late_data_of(step, self.steps[self.steps.index(step) :])))
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


def late_data_of(step: Step, inside: Sequence[Step]) -> PCollection[LateElement]:
    """The collection of what a step drops as late. Raises `TopologyError` unless one step inside drops anything.

    Args:
        step: The step that was applied.
        inside: The step, and the steps that it consists of.
    """
    dropping = [each for each in inside if each.outputs and cast(SomeTransform, each.transform).drops_late()]
    if len(dropping) != 1:
        several = f"{len(dropping)} steps inside drop it: {', '.join(repr(each.full_label) for each in dropping)}"
        raise TopologyError(
            f"step {step.full_label!r} was given with_late_data(), but "
            f"{several if dropping else 'it has no output of late data'}; say it of "
            f"{'one of these' if dropping else 'a grouping, or a ParDo with state, timers or side inputs'}"
        )
    [dropper] = dropping
    [given, *_] = dropper.inputs
    is_bounded = isinstance(given, PCollection) and given.is_bounded
    late: PCollection[LateElement] = PCollection(given.pipeline, None, is_bounded, LATE_DATA, LateElement)
    dropper.add_output(cast("PCollection[object]", late))
    return late


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


_DEPTH = 8
"""How deep in an object values are looked for."""


@dataclass(eq=False, slots=True)
class AlikeStep:
    """A step whose default label has a function without a name.

    >>> group = []
    >>> for factor in (2, 3):
    ...     group.append(AlikeStep(group, {"factor": factor}, lambda: ["Create"]))
    >>> [step.description()[:7] for step in group], AlikeStep([], None, list).description()
    (['1 of 2,', '2 of 2,'], None)
    """

    group: list[AlikeStep]
    """All steps with this default label, in the order of the program."""
    transform: object
    before: Callable[[], Iterable[str]]
    """Gives the labels of all steps from which elements come."""

    def description(self) -> str | None:
        """The number of the step in its group, and a digest of its input and values; None if it is the only one."""
        if len(self.group) < 2:
            return None
        described = [*sorted(self.before()), *_values(self.transform, _DEPTH, {})]
        digest = sha256(repr(described).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"{self.group.index(self) + 1} of {len(self.group)}, {digest}"


def labels_before(step: Step) -> set[str]:
    """The labels of all steps from which elements come to a step."""
    found, open_steps = set[str](), [step]
    while open_steps:
        for value in open_steps.pop().inputs:
            if value.producer is not None and value.producer.full_label not in found:
                found.add(value.producer.full_label)
                open_steps.append(value.producer)
    return found


def closure_of(function: FunctionType) -> Iterator[object]:
    """The values of the variables of outer functions; None for one that is not assigned yet."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None


def _values(value: object, depth: int, seen: dict[int, object]) -> Iterator[str]:
    """The plain values in an object, as in closures and defaults of its functions, by which it differs from others."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield repr(value)
    elif isinstance(value, PValue):
        yield "" if value.producer is None else value.producer.full_label
    elif isinstance(value, type) or depth == 0 or id(value) in seen or isinstance(value, BasePipeline):
        yield getattr(value, "__qualname__", type(value).__qualname__)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(",".join(_values(each, depth - 1, seen)) for each in value)
    else:
        # The object is kept, so that no other one gets its id.
        seen[id(value)] = value
        for part in _parts(value):
            yield from _values(part, depth - 1, seen)


def _parts(value: object) -> Iterator[object]:
    yield type(value)
    if isinstance(value, FunctionType):
        yield label_of(value)
        yield from (value.__defaults__, value.__kwdefaults__)
        yield from closure_of(value)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (key, each)
    elif slots := [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]:
        yield from (getattr(value, name, None) for name in slots)
        yield from getattr(value, "__dict__", {}).items()
    else:
        # Numbers, dates, patterns and the like are known by their text only.
        yield from vars(value).items() if hasattr(value, "__dict__") else [without_addresses(repr(value))]


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
