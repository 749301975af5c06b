"""What: where collections begin: an injector in the pipeline."""

from __future__ import annotations

from headrace.lowlevel.injector import Injector
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PBegin, PCollection


class Source(PTransform[PBegin, PCollection[object]]):
    """Brings records in from outside. Subclass it and define `injector`."""

    is_bounded = True
    """Whether the input comes to an end by itself."""

    def injector(self) -> Injector:
        """What reads, and knows the watermark; made when the pipeline is compiled."""
        raise TypeError(f"{type(self).__name__} does not define injector(self)")

    def injector_of(self, tag: str | None) -> Injector:
        """The injector of an output; for sources with more than one."""
        return self.injector()

    def expand(self, inputs: PBegin) -> PCollection[object]:
        """A collection in the global window."""
        if not isinstance(inputs, PBegin):
            raise TypeError(
                f"{self.label} begins a pipeline, so it cannot take {inputs!r:.80}; apply it to the pipeline"
            )
        return PCollection(inputs.pipeline, is_bounded=self.is_bounded)


class Read(Source):
    """A collection of what an injector brings in.

    Args:
        injector: Any injector of the low level; its values become elements, its timestamps theirs.
        is_bounded: Whether its input comes to an end.
    """

    def __init__(self, injector: Injector, is_bounded: bool = True) -> None:
        super().__init__()
        self._injector = injector
        self.is_bounded = is_bounded

    def injector(self) -> Injector:
        """The injector given."""
        return self._injector
