"""What: sources, the transforms that read input with an injector."""

from __future__ import annotations

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Injector
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PBegin, PCollection


class Source(PTransform[PBegin, PCollection[object]]):
    """Base of the transforms that read input; a subclass defines `injector`."""

    is_bounded = True
    """Whether the input has an end."""

    def injector(self) -> Injector:
        """The injector, which reads records and gives the watermark; it is made when the pipeline is compiled."""
        raise TypeError(f"{type(self).__name__} does not define injector(self)")

    def arrow_schema(self) -> pa.Schema | None:
        """The names and types of the elements' fields, as the input declares them; None if it does not.

        It is called on the driver when a run begins, and raises no error for an input that cannot be read: the run
        does. A field of the type `null` has a type that is not known.
        """
        return None

    def injector_of(self, tag: str | None) -> Injector:
        """The injector of the output with a tag; sources with several outputs override this method."""
        return self.injector()

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """A collection in the global window."""
        if not isinstance(inputs, PBegin):
            raise TypeError(
                f"{self.label} begins a pipeline, so it cannot take {inputs!r:.80}; apply it to the pipeline"
            )
        return PCollection(inputs.pipeline, is_bounded=self.is_bounded)


class Read(Source):
    """A collection of the records of an injector.

    >>> import headrace as beam
    >>> from headrace.lowlevel import BoundedInjector
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | Read(BoundedInjector([("red", 5_000_000)])) | beam.Map(print)
    red

    Args:
        injector: Any injector of the low level; its records become elements, with the same values and timestamps.
        is_bounded: Whether the input has an end.
    """

    def __init__(self, injector: Injector, is_bounded: bool = True) -> None:
        super().__init__()
        self._injector = injector
        self.is_bounded = is_bounded

    def injector(self) -> Injector:
        """The given injector."""
        return self._injector
