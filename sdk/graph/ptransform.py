"""What: transforms, which turn collections into collections (`apache_beam.transforms.ptransform`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import cache, wraps
from typing import Any, Concatenate, Generic, Never, ParamSpec, TypeAlias, TypeVar, cast, get_args, get_origin

from headrace.sdk.graph.pvalue import BasePipeline, DoOutputsTuple, InT, OutT, PBegin, PCollection, PValue
from headrace.sdk.model.labels import label_of
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.typehints.consistency import is_consistent_with
from headrace.sdk.typehints.hints import normal
from headrace.sdk.typehints.io_type_hints import Hints, IOTypeHints, Stated, WithTypeHints, annotations_of

P = ParamSpec("P")


class PTransform(WithTypeHints, Generic[InT, OutT]):
    """A step of a pipeline. Subclass it and define `expand` in terms of other transforms to make a composite one.

    >>> class Double(PTransform):
    ...     def expand(self, numbers):
    ...         return numbers | Map(lambda number: 2 * number)
    >>> ("twice" >> Double()).label
    'twice'
    """

    pipeline: BasePipeline | None = None
    """The pipeline to apply it in, for a transform without inputs (`{...} | transform`)."""

    takes_several: bool = False
    """Whether a list that the transform is applied to has several inputs, instead of the elements of one."""

    key_encoding: str | None = None
    """Name of the coder with which keys of another SDK are encoded; None if keys are as the program has them."""

    has_late_output: bool = False
    """Whether the step has an output with what it drops as late; see `with_late_data`."""

    _label: str | None = None
    input_hints: Hints = ((), {})
    """Types stated by `with_input_types`."""
    output_hints: Stated = (None, {})
    """Type of the main output, and of tagged outputs, stated by `with_output_types`."""

    def __init__(self, label: str | None = None) -> None:
        self._label = label

    @property
    def label(self) -> str:
        """The label given, else `default_label()`; the name of the step in the pipeline ends with it."""
        return self._label or self.default_label()

    @label.setter
    def label(self, label: str | None) -> None:
        self._label = label

    @property
    def has_default_label(self) -> bool:
        """Whether the transform was given no label."""
        return not self._label

    def default_label(self) -> str:
        """The label of a transform that was given none."""
        return type(self).__name__

    def expand(self, inputs: InT) -> OutT:
        """What the transform makes of its input; called once, when the transform is applied."""
        raise TypeError(f"transform {self.label!r} ({type(self).__name__}) does not define expand(self, inputs)")

    def input_type(self) -> object:
        """The type of input elements: as stated, else as `expand` is annotated, else `Any`."""
        hints, _ = self.input_hints
        return hints[0] if hints else collection_types(type(self).expand)[0]

    def takes(self, given: object) -> bool:
        """Whether the transform takes elements of the type `given`."""
        return is_consistent_with(given, self.input_type())

    def output_type(self) -> tuple[object, Mapping[str | None, object]]:
        """The type of the main output and of tagged outputs, as stated or annotated; None where neither."""
        hint, tagged = self.output_hints
        annotated = collection_types(type(self).expand)[1]
        return (hint if hint is not None or annotated is Any else annotated), tagged

    def infer_output_type(self, input_type: object) -> object:
        """The type of the main output, inferred from the type of the input."""
        return Any

    def default_type_hints(self) -> IOTypeHints | None:
        """Types that count where none are stated: the annotations of `expand`, or of a step's function."""
        given, made = collection_types(type(self).expand)
        return IOTypeHints.of(((() if given is Any else (given,)), {}), (None if made is Any else made, {}))

    def get_type_hints(self) -> IOTypeHints:
        """The types of input and output, as stated, else `default_type_hints`."""
        return IOTypeHints.of(self.input_hints, self.output_hints).with_defaults(self.default_type_hints())

    def drops_late(self) -> bool:
        """Whether the step itself, rather than a step inside, drops elements that are late for it."""
        return False

    def with_late_data(self) -> PTransform[InT, tuple[OutT, PCollection[LateElement]]]:
        """The same step with an output for what it drops because it is late: it returns a pair (output, late data).

        The method is not Beam's. The step is a grouping, a `ParDo` with state, timers or side inputs, or a composite
        with one such step inside, as most transforms that combine or join are. Late data are in the global window, at
        the timestamps of the elements. An element comes once for each of its windows that is closed when it arrives.

        >>> import headrace as beam
        >>> from headrace.testing.test_stream import TestStream
        >>> from headrace.transforms.window import FixedWindows, TimestampedValue
        >>> stream = TestStream().add_elements([TimestampedValue(("red", 5), 10)]).advance_watermark_to(60)
        >>> stream = stream.add_elements([TimestampedValue(("red", 7), 20)]).advance_watermark_to_infinity()
        >>> with beam.Pipeline("LocalRunner") as pipeline:
        ...     minutes = pipeline | stream | beam.WindowInto(FixedWindows(60))
        ...     sums, late = minutes | beam.CombinePerKey(sum).with_late_data()
        ...     _ = sums | "Sums" >> beam.Map(print)
        ...     _ = late | "Late" >> beam.Map(lambda late: print(late.key, late.value, late.window, late.watermark))
        ('red', 5)
        red 7 [0.0, 60.0) Timestamp(60)
        """
        clone = copy(self)
        clone.has_late_output = True
        return cast("PTransform[InT, tuple[OutT, PCollection[LateElement]]]", clone)

    def argument_problem(self) -> str | None:
        """What is wrong with the types of the transform's arguments; None if nothing is."""
        return None

    def check_elements(self, outputs: Mapping[str | None, object]) -> None:
        """Check elements against types while the pipeline runs; `outputs` are the types by tag."""

    def __rrshift__(self, label: str) -> NamedPTransform[InT, OutT]:
        return NamedPTransform(self, label)

    def __or__(self, after: PTransform[OutT, T]) -> PTransform[InT, T]:
        if not isinstance(after, PTransform):
            return NotImplemented
        return _Chain(self, after)

    def __ror__(self, inputs: object) -> OutT:
        return self._apply_to(inputs, None)

    def _apply_to(self, inputs: object, label: str | None) -> OutT:
        """Apply to what has no `|` of its own for transforms: collections in a tuple, list or dict, or lists of values.

        Lists of values are computed at once: the result is a list of elements where a collection would be.
        """
        if self.takes_several and isinstance(inputs, Iterable) and not isinstance(inputs, (Mapping, str, bytes, list)):
            inputs = tuple(inputs)
        pipelines = [value.pipeline for _, value in named_values(inputs)]
        if not pipelines and (elements := element_lists(inputs, self.takes_several)):
            if all(isinstance(each, Iterable) and not isinstance(each, (str, bytes)) for each in elements):
                return cast(OutT, _applied_to_lists[-1](self, inputs, label or self.label))
        elif self.pipeline is not None:
            pipelines.append(self.pipeline)
        if not pipelines:
            raise TypeError(
                f"transform {label or self.label!r} was applied to {inputs!r:.200}, which holds no collection of a "
                "pipeline, and no list of elements; begin with pipeline | Create(...)"
            )
        if any(other is not pipelines[0] for other in pipelines):
            raise ValueError(
                f"transform {label or self.label!r} was given collections of different pipelines; build both in one"
            )
        return pipelines[0].apply(self, inputs, label)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label!r}>"


T = TypeVar("T")


_applied_to_lists: list[Callable[[PTransform[Any, Any], object, str], object]] = []


def apply_to_lists_by(function: Callable[[PTransform[Any, Any], object, str], object]) -> None:
    """Set the function of transform, lists of elements and label that computes a transform of lists at once.

    `headrace.transforms` sets it: it needs pipelines, which know transforms.
    """
    _applied_to_lists[:] = [function]


SomeTransform: TypeAlias = PTransform[Never, object]
"""A transform of any type."""


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
        """A setting of the transform (`with_outputs`, …); a transform that it returns keeps the label."""
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

    def with_late_data(self) -> NamedPTransform[InT, tuple[OutT, PCollection[LateElement]]]:
        """See `PTransform.with_late_data`."""
        return NamedPTransform(self.transform.with_late_data(), self.label)

    def with_input_types(self, *hints: object, **named_hints: object) -> NamedPTransform[InT, OutT]:
        """See `PTransform.with_input_types`."""
        return NamedPTransform(self.transform.with_input_types(*hints, **named_hints), self.label)

    def with_output_types(self, hint: object = None, **tagged_hints: object) -> NamedPTransform[InT, OutT]:
        """See `PTransform.with_output_types`."""
        return NamedPTransform(self.transform.with_output_types(hint, **tagged_hints), self.label)


class _Chain(PTransform[InT, OutT]):
    """Two transforms, one after the other."""

    def __init__(self, *parts: SomeTransform) -> None:
        super().__init__()
        self._parts = parts

    def default_label(self) -> str:
        """The labels of the parts."""
        return "|".join(part.label for part in self._parts)

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
        """The name of the function, with its first argument, so that several uses have different labels."""
        first = f"({label_of(self._args[0])})" if self._args else ""
        return label_of(self._function) + first

    def expand(self, inputs: InT) -> OutT:
        """Call the function."""
        return self._function(inputs, *self._args, **self._kwargs)


def ptransform_fn(fn: Callable[Concatenate[InT, P], OutT]) -> Callable[P, PTransform[InT, OutT]]:
    """A composite transform as a function of its input: a decorator.

    >>> @ptransform_fn
    ... def Scale(numbers, factor):
    ...     return numbers | Map(lambda number: factor * number)
    >>> Scale(3).label
    'Scale(3)'
    """

    @wraps(fn)
    def make(*args: P.args, **kwargs: P.kwargs) -> PTransform[InT, OutT]:
        return _FunctionTransform(fn, args, kwargs)

    return make


def is_of_engine(transform: object) -> bool:
    """Whether a transform, with all that is in it, is one of the engine rather than of the program.

    >>> is_of_engine(ptransform_fn(sorted)()), is_of_engine(PTransform())
    (False, True)
    """
    made_of = transform._function if isinstance(transform, _FunctionTransform) else type(transform)
    return str(made_of.__module__).startswith("headrace.")


@cache
def collection_types(expand: Callable[..., object]) -> tuple[object, object]:
    """The element types in `expand(self, inputs: PCollection[A]) -> PCollection[B]`; `Any` where not annotated."""
    types, result = annotations_of(expand)

    def inner(hint: object) -> object:
        arguments = get_args(hint)
        return normal(arguments[0]) if get_origin(hint) is PCollection and arguments else Any

    return inner(next(iter(types.values()), Any)), inner(result)


def named_values(inputs: object) -> Iterator[tuple[str, PValue]]:
    """Every `PValue` in nested tuples, lists and dicts, with its path: keys and indices joined by dots."""
    if isinstance(inputs, PValue):
        yield "", inputs
    elif isinstance(inputs, BasePipeline):
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


def mapped(inputs: object, function: Callable[[object], object], lists_too: bool = True) -> object:
    """A copy of nested tuples, dicts and lists, whose other values a function has replaced.

    Args:
        inputs: The tuples, dicts and lists.
        function: What each value becomes.
        lists_too: Whether a list is copied; otherwise it is a value.

    >>> mapped({"a": ([1], 2)}, str, lists_too=False)
    {'a': ('[1]', '2')}
    """
    if isinstance(inputs, dict):
        return {key: mapped(value, function, lists_too) for key, value in inputs.items()}
    if isinstance(inputs, tuple) or (lists_too and isinstance(inputs, list)):
        items: list[Any] = [mapped(value, function, lists_too) for value in inputs]
        # A named tuple takes its fields one by one.
        return type(inputs)(*items) if hasattr(inputs, "_fields") else type(inputs)(items)
    return function(inputs)


def element_lists(inputs: object, takes_several: bool) -> list[object]:
    """The values in nested tuples and dicts, each of which is the elements of one input.

    >>> element_lists({"a": [1, 2], "b": ([3], [4])}, False)
    [[1, 2], [3], [4]]
    """
    found: list[object] = []
    mapped(tuple(inputs) if takes_several and isinstance(inputs, list) else inputs, found.append, lists_too=False)
    return found


def collections_of(inputs: object) -> list[PCollection[object]]:
    """The collections among `named_values`."""
    return [value for _, value in named_values(inputs) if isinstance(value, PCollection)]
