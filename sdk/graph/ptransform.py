"""What: a transform turns collections into collections (`apache_beam.transforms.ptransform`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Never, ParamSpec, Self, TypeAlias, TypeVar, cast

from headrace.sdk.pvalue import DoOutputsTuple, InT, OutT, PBegin, PCollection, PValue
from headrace.sdk.types.annotations import collection_types
from headrace.sdk.types.consistency import is_consistent_with

if TYPE_CHECKING:
    from headrace.sdk.pipeline import Pipeline

P = ParamSpec("P")


class PTransform(Generic[InT, OutT]):
    """A step of a pipeline. Subclass it and define `expand` in terms of other transforms to make a composite one.

    >>> class Double(PTransform):
    ...     def expand(self, numbers):
    ...         return numbers | Map(lambda number: 2 * number)
    >>> ("twice" >> Double()).label
    'twice'
    """

    pipeline: Pipeline | None = None
    """The pipeline to begin in, for a transform that is applied to nothing (`{...} | transform`)."""

    _label: str | None = None
    input_hints: tuple[tuple[object, ...], dict[str, object]] = ((), {})
    """Types stated by `with_input_types`."""
    output_hints: tuple[object, Mapping[str | None, object]] = (None, {})
    """Type of the main output, and of tagged ones, stated by `with_output_types`."""

    def __init__(self, label: str | None = None) -> None:
        self._label = label

    @property
    def label(self) -> str:
        """Its name in the pipeline: as given, else `default_label()`."""
        return self._label or self.default_label()

    @label.setter
    def label(self, label: str | None) -> None:
        self._label = label

    def default_label(self) -> str:
        """The name of a transform that was given none."""
        return type(self).__name__

    def expand(self, inputs: InT) -> OutT:
        """What the transform makes of its input; called once, when the transform is applied."""
        raise TypeError(f"transform {self.label!r} ({type(self).__name__}) does not define expand(self, inputs)")

    def with_input_types(self, *hints: object, **named_hints: object) -> Self:
        """State the type of the elements that it takes."""
        self.input_hints = (hints, named_hints)
        return self

    def with_output_types(self, hint: object = None, **tagged_hints: object) -> Self:
        """State the type of the elements that it gives: it becomes the collection's `element_type`."""
        tagged: dict[str | None, object] = dict(tagged_hints.items())
        self.output_hints = (hint, tagged)
        return self

    def input_type(self) -> object:
        """The type of the elements that it takes: as stated, else as `expand` is annotated; `Any` if neither says."""
        hints, _ = self.input_hints
        return hints[0] if hints else collection_types(type(self).expand)[0]

    def takes(self, given: object) -> bool:
        """Whether elements of a type may come."""
        return is_consistent_with(given, self.input_type())

    def output_type(self) -> tuple[object, Mapping[str | None, object]]:
        """The type of the main output and of tagged ones, as stated or annotated; None where nothing is said."""
        hint, tagged = self.output_hints
        annotated = collection_types(type(self).expand)[1]
        return (hint if hint is not None or annotated is Any else annotated), tagged

    def infer_output_type(self, input_type: object) -> object:
        """The type of its main output that follows from that of its input."""
        return Any

    def argument_problem(self) -> str | None:
        """What is wrong with the types of its arguments, if anything."""
        return None

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """Have elements checked against types while the pipeline runs; `outputs` are those of its tags."""

    def __rrshift__(self, label: str) -> NamedPTransform[InT, OutT]:
        return NamedPTransform(self, label)

    def __or__(self, after: PTransform[OutT, T]) -> PTransform[InT, T]:
        if not isinstance(after, PTransform):
            return NotImplemented
        return _Chain(self, after)

    def __ror__(self, inputs: object) -> OutT:
        return self._apply_to(inputs, None)

    def _apply_to(self, inputs: object, label: str | None) -> OutT:
        """Apply to a tuple, list or dict of collections, which have no `|` of their own for transforms."""
        pipelines = [value.pipeline for _, value in named_values(inputs)]
        if self.pipeline is not None:
            pipelines.append(self.pipeline)
        if not pipelines:
            raise TypeError(
                f"transform {label or self.label!r} was applied to {inputs!r:.200}, which holds no collection of a "
                "pipeline; begin with pipeline | Create(...)"
            )
        if any(other is not pipelines[0] for other in pipelines):
            raise ValueError(
                f"transform {label or self.label!r} was given collections of different pipelines; build both in one"
            )
        return pipelines[0].apply(self, inputs, label)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label!r}>"


T = TypeVar("T")


SomeTransform: TypeAlias = PTransform[Never, object]
"""A transform of whatever, as a pipeline keeps it."""


class NamedPTransform(PTransform[InT, OutT]):
    """A transform under another label: what `"label" >> transform` gives."""

    def __init__(self, transform: PTransform[InT, OutT], label: str) -> None:
        if not isinstance(label, str):
            raise TypeError(f"a label must be a str, got {label!r}; write pcollection | 'label' >> transform")
        super().__init__(label)
        self.transform = transform

    def __ror__(self, inputs: object) -> OutT:
        return self.transform._apply_to(inputs, self.label)

    def __rrshift__(self, label: str) -> NamedPTransform[InT, OutT]:
        return NamedPTransform(self.transform, label)

    def __getattr__(self, name: str) -> object:
        """Settings of the transform (`with_outputs`, `without_defaults`, …); what they return keeps the label."""
        if name.startswith("_") or name == "transform":
            raise AttributeError(name)
        attribute = getattr(self.transform, name)
        if not callable(attribute):
            return attribute

        @wraps(attribute)
        def call(*args: object, **kwargs: object) -> object:
            result = attribute(*args, **kwargs)
            return NamedPTransform(result, self.label) if isinstance(result, PTransform) else result

        return call

    def with_input_types(self, *hints: object, **named_hints: object) -> NamedPTransform[InT, OutT]:
        """See `PTransform.with_input_types`."""
        return NamedPTransform(self.transform.with_input_types(*hints, **named_hints), self.label)

    def with_output_types(self, hint: object = None, **tagged_hints: object) -> NamedPTransform[InT, OutT]:
        """See `PTransform.with_output_types`."""
        return NamedPTransform(self.transform.with_output_types(hint, **tagged_hints), self.label)


class _Chain(PTransform[InT, OutT]):
    """Two transforms, one after the other."""

    def __init__(self, *parts: SomeTransform) -> None:
        super().__init__("|".join(part.label for part in parts))
        self._parts = parts

    def __or__(self, after: PTransform[OutT, T]) -> PTransform[InT, T]:
        if not isinstance(after, PTransform):
            return NotImplemented
        return _Chain(*self._parts, after)

    def expand(self, inputs: InT) -> OutT:
        """Apply the parts in order."""
        value: object = inputs
        for part in self._parts:
            value = value | part
        return cast(OutT, value)


class _FunctionTransform(PTransform[InT, OutT]):
    """A composite made of a function from collections to collections."""

    def __init__(self, function: Callable[..., OutT], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        super().__init__()
        self._function, self._args, self._kwargs = function, args, kwargs

    def default_label(self) -> str:
        """The function's name and, to tell uses of it apart, its first argument."""
        first = f"({label_of(self._args[0])})" if self._args else ""
        return label_of(self._function) + first

    def expand(self, inputs: InT) -> OutT:
        """Call the function."""
        return self._function(inputs, *self._args, **self._kwargs)


def ptransform_fn(function: Callable[Concatenate[InT, P], OutT]) -> Callable[P, PTransform[InT, OutT]]:
    """A composite transform as a function of its input: a decorator.

    >>> @ptransform_fn
    ... def Scale(numbers, factor):
    ...     return numbers | Map(lambda number: factor * number)
    >>> Scale(3).label
    'Scale(3)'
    """

    @wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> PTransform[InT, OutT]:
        return _FunctionTransform(function, args, kwargs)

    return make


def is_function(transform: object) -> bool:
    """Whether a transform was made of a function by `ptransform_fn`."""
    return isinstance(transform, _FunctionTransform)


def label_of(function: object) -> str:
    """How a function is named in a label.

    >>> label_of(len), label_of(3)
    ('len', '3')
    """
    if default_label := getattr(function, "default_label", None):
        return str(default_label())
    name = getattr(function, "__name__", None)
    if name == "<lambda>":
        code = cast(FunctionType, function).__code__
        return f"<lambda at {os.path.basename(code.co_filename)}:{code.co_firstlineno}>"
    return str(name or function)


def named_values(inputs: object) -> Iterator[tuple[str, PValue]]:
    """Every value of a pipeline in nested tuples, lists and dicts, with the name of its place."""
    from headrace.sdk.pipeline import Pipeline

    if isinstance(inputs, PValue):
        yield "", inputs
    elif isinstance(inputs, Pipeline):
        yield "", PBegin(inputs)
    elif isinstance(inputs, DoOutputsTuple):
        for output in inputs:
            yield output.tag or "", output
    elif isinstance(inputs, dict):
        for key, value in inputs.items():
            yield from ((f"{key}.{name}".rstrip("."), inner) for name, inner in named_values(value))
    elif isinstance(inputs, (list, tuple)):
        for index, value in enumerate(inputs):
            yield from ((f"{index}.{name}".rstrip("."), inner) for name, inner in named_values(value))


def collections_of(inputs: object) -> list[PCollection[object]]:
    """The collections among `named_values`."""
    return [value for _, value in named_values(inputs) if isinstance(value, PCollection)]
