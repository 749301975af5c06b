"""What flows between transforms: collections of elements, and the named outputs of one step (`apache_beam.pvalue`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from headrace.sdk.pipeline import Pipeline, Step
    from headrace.sdk.ptransform import PTransform
    from headrace.sdk.windowing import Windowing

T = TypeVar("T")
InT = TypeVar("InT", contravariant=True)
OutT = TypeVar("OutT", covariant=True)


class PValue:
    """Anything that stands between transforms of one pipeline."""

    def __init__(self, pipeline: Pipeline, tag: str | None = None) -> None:
        self.pipeline = pipeline
        self.tag = tag
        self.producer: Step | None = None
        """The innermost step that this is an output of; set when the step is applied."""

    def __or__(self, transform: PTransform[InT, OutT]) -> OutT:
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
        # A function often captures one without using it (as part of `self`); what it finds then is a plain remark.
        return str, (f"{self!r}: its elements exist only inside the pipeline",)


class PBegin(PValue):
    """The input of transforms that begin a pipeline."""

    def __repr__(self) -> str:
        return "<the pipeline itself>"


class PDone(PValue):
    """The output of transforms that end one."""


class PCollection(PValue, Generic[T]):
    """Elements, each with a timestamp, the windows that it is in, and the pane that it came with.

    Args:
        pipeline: The pipeline that it is part of.
        windowing: The windowing of its elements.
        is_bounded: Whether its elements come to an end.
        tag: Name of the output that it is, None for the main one.
        element_type: Type hint of its elements; `Any` where nothing is known.
    """

    def __init__(
        self,
        pipeline: Pipeline,
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
        """Where, When and How of its elements."""
        if self._windowing is None:
            from headrace.sdk.windowing import Windowing
            from headrace.sdk.windows import GlobalWindows

            self._windowing = Windowing(GlobalWindows())
        return self._windowing

    @classmethod
    def like(cls, other: PCollection[object], tag: str | None = None) -> PCollection[T]:
        """A new collection with the windowing and the boundedness of another."""
        return cls(other.pipeline, other.windowing, other.is_bounded, tag)


class TaggedOutput:
    """A value that a step puts out under a tag instead of on its main output.

    >>> TaggedOutput("odd", 3)
    TaggedOutput('odd', 3)
    """

    __slots__ = ("tag", "value")

    def __init__(self, tag: str, value: object) -> None:
        if not isinstance(tag, str):
            raise TypeError(f"the tag of a TaggedOutput must be a str, got {tag!r}")
        self.tag = tag
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaggedOutput) and (self.tag, self.value) == (other.tag, other.value)

    def __hash__(self) -> int:
        return hash((self.tag, self.value))

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"


class DoOutputsTuple:
    """The outputs of a step with several: by attribute, by key, or one after the other as they were declared."""

    def __init__(self, main: PCollection[object], tags: tuple[str, ...], main_tag: str | None, open_tags: bool) -> None:
        self.pipeline = main.pipeline
        self._main = main
        self._tags = tags
        self._main_tag = main_tag
        self._open_tags = open_tags
        self._outputs: dict[str, PCollection[object]] = {tag: PCollection.like(main, tag) for tag in tags}

    def all(self) -> list[PCollection[object]]:
        """The main output and those of the declared tags."""
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

    def __or__(self, transform: PTransform[InT, OutT]) -> OutT:
        return self.pipeline.apply(transform, self)
