"""What flows between transforms: collections of elements, and the named outputs of one step (`apache_beam.pvalue`).

A collection knows its pipeline as a `BasePipeline` and transforms as the protocol `Transform`; `PTransform` and
`PipelineGraph` are made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Never, NoReturn, Protocol, TypeAlias, TypeVar

from headrace.options.pipeline_options import PipelineOptions
from headrace.sdk.windows import GlobalWindows
from headrace.sdk.windows.windowing import Windowing

T = TypeVar("T")
InT = TypeVar("InT", contravariant=True)
OutT = TypeVar("OutT", covariant=True)


class Transform(Protocol[InT, OutT]):
    """What can be applied to collections with `|`; a `PTransform` is one."""

    @property
    def label(self) -> str:
        """The name of the transform in the pipeline."""

    def expand(self, inputs: InT) -> OutT:
        """What the transform makes of its input."""


class Alike(Protocol):
    """A step that others may be like; `AlikeStep` is one."""

    def description(self) -> str | None:
        """What tells the step from those that are like it; None if there are none."""


class BasePipeline(ABC):
    """A pipeline as collections and transforms know it while it is built."""

    options: PipelineOptions
    steps: list[Step]
    """Every step, in the order in which they were applied."""
    checks: list[Callable[[], None]]
    """Called before the pipeline runs; each raises if a part of the pipeline is not finished."""

    @property
    @abstractmethod
    def current_label(self) -> str:
        """The full label of the step that is being applied."""

    @abstractmethod
    def has_label(self, full_label: str) -> bool:
        """Whether a step of this label exists."""

    @abstractmethod
    def apply(self, transform: Transform[InT, OutT], inputs: object, label: str | None = None) -> OutT:
        """Apply a transform to a collection, or to nested tuples, lists and dicts of them; what `|` does."""

    def __or__(self, transform: Transform[PBegin, OutT]) -> OutT:
        return self.apply(transform, PBegin(self))


class PValue:
    """Anything that stands between transforms of one pipeline.

    >>> import headrace as beam
    >>> isinstance(beam.Pipeline("LocalRunner") | beam.Create([1]), PValue)
    True
    """

    def __init__(self, pipeline: BasePipeline, tag: str | None = None) -> None:
        self.pipeline = pipeline
        self.tag = tag
        self.producer: Step | None = None
        """The innermost step that puts the value out; set when the step is applied."""

    def __or__(self, transform: Transform[InT, OutT]) -> OutT:
        return self.pipeline.apply(transform, self)

    def __repr__(self) -> str:
        label = self.producer.full_label if self.producer else None
        return f"<{type(self).__name__} {label}{f'.{self.tag}' if self.tag else ''}>"

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be looped over, as its elements exist only while the pipeline runs; apply a transform to "
            "it, such as Map(function), or give it to a step as AsList(collection)"
        )

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # A function often captures a collection without using it (as part of `self`); it is pickled as this text.
        return str, (f"{self!r}: its elements exist only inside the pipeline",)


class PBegin(PValue):
    """The input of transforms that begin a pipeline.

    >>> import headrace as beam
    >>> class Digits(beam.PTransform):
    ...     def expand(self, begin):
    ...         assert isinstance(begin, PBegin)
    ...         return begin | beam.Create(range(10))
    >>> digits = beam.Pipeline("LocalRunner") | Digits()
    """

    def __repr__(self) -> str:
        return "<the pipeline itself>"


class PDone(PValue):
    """The output of transforms that end a pipeline.

    >>> import headrace as beam
    >>> class Printed(beam.PTransform):
    ...     def expand(self, inputs):
    ...         _ = inputs | beam.Map(print)
    ...         return PDone(inputs.pipeline)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["a"]) | Printed()
    a
    """


class PCollection(PValue, Generic[T]):
    """Elements, each with a timestamp, its windows, and its pane.

    Args:
        pipeline: The pipeline of the collection.
        windowing: The windowing of its elements.
        is_bounded: Whether it has an end.
        tag: Tag of the output, None for the main output.
        element_type: Type hint of its elements; `Any` where nothing is known.

    >>> import headrace as beam
    >>> words = beam.Pipeline("LocalRunner") | "Words" >> beam.Create(["tea"])
    >>> words, words.element_type, words.is_bounded
    (<PCollection Words>, <class 'str'>, True)
    """

    def __init__(
        self,
        pipeline: BasePipeline,
        windowing: Windowing | None = None,
        is_bounded: bool = True,
        tag: str | None = None,
        element_type: object = Any,
    ) -> None:
        super().__init__(pipeline, tag)
        self._windowing = windowing
        self.is_bounded = is_bounded
        self.element_type = element_type

    @property
    def windowing(self) -> Windowing:
        """The windowing of the elements: Where, When and How."""
        if self._windowing is None:
            self._windowing = Windowing(GlobalWindows())
        return self._windowing

    @classmethod
    def like(cls, other: PCollection[object], tag: str | None = None) -> PCollection[T]:
        """A new collection with the windowing and the boundedness of another."""
        return cls(other.pipeline, other.windowing, other.is_bounded, tag)


Collection: TypeAlias = PCollection[object]
"""A collection of elements of unknown types."""


@dataclass(eq=False)
class Step:
    """A transform that was applied, with its inputs and outputs."""

    full_label: str
    """The labels of the composite transforms around it and its own, as in `outer/inner`."""
    transform: Transform[Never, object]
    inputs: list[PValue]
    outputs: dict[str | None, PCollection[object]] = field(default_factory=dict)
    """Tag -> collection that this step itself puts out; empty for a composite step."""
    alike: tuple[Alike, ...] = ()
    """This step and those around it, outermost first, as far as their default labels have functions without names."""

    def add_output(self, output: PCollection[object]) -> None:
        """Make a collection an output of this step."""
        output.producer = self
        self.outputs[output.tag] = output


class DoOutputsTuple:
    """The outputs of a step with several outputs: by attribute, by key, or by iteration in the order of declaration.

    >>> import headrace as beam
    >>> def sides(number):
    ...     yield beam.TaggedOutput("even" if number % 2 == 0 else "odd", number)
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     numbers = pipeline | beam.Create([1, 2, 4]) | beam.FlatMap(sides).with_outputs("even", "odd")
    ...     _ = numbers.odd | beam.Map(print)
    ...     _ = numbers["even"] | beam.CombineGlobally(sum) | "Print" >> beam.Map(print)
    1
    6
    """

    def __init__(self, main: PCollection[object], tags: tuple[str, ...], main_tag: str | None, open_tags: bool) -> None:
        self.pipeline = main.pipeline
        self._main = main
        self._tags = tags
        self._main_tag = main_tag
        self._open_tags = open_tags
        self._outputs: dict[str, PCollection[object]] = {tag: PCollection.like(main, tag) for tag in tags}

    def all(self) -> list[PCollection[object]]:
        """The main output and the tagged outputs looked up or declared so far."""
        return [self._main, *self._outputs.values()]

    def _output(self, tag: str) -> PCollection[object]:
        if tag not in self._outputs:
            self._outputs[tag] = PCollection.like(self._main, tag)
            assert self._main.producer is not None
            self._main.producer.add_output(self._outputs[tag])
        return self._outputs[tag]

    def __getitem__(self, tag: str | int | None) -> PCollection[object]:
        name = str(tag) if isinstance(tag, int) else tag
        if name is None or name == self._main_tag:
            return self._main
        if not self._open_tags and name not in self._tags:
            known = f"neither the main tag {self._main_tag!r} nor one of the tags {self._tags}"
            raise ValueError(f"tag {name!r} is {known}")
        return self._output(name)

    def __getattr__(self, tag: str) -> PCollection[object]:
        if tag.startswith("_"):
            raise AttributeError(tag)
        return self[tag]

    def __iter__(self) -> Iterator[PCollection[object]]:
        if self._main_tag is not None:
            yield self._main
        for tag in self._tags:
            yield self[tag]

    def __or__(self, transform: Transform[InT, OutT]) -> OutT:
        return self.pipeline.apply(transform, self)
