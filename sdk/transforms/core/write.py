"""What: where collections leave a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.sink import Sink
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection, PDone, PValue


class Write(PTransform[PCollection[object], PDone]):
    """Hands elements, with their timestamps, to a sink once the epoch that made them is committed.

    What a `DoFn` with weak productions puts out is handed to it at once; it must be a sink for that, as `SendSink`.

    Args:
        sink: Any sink of the low level, for instance `CallSink(function)`.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def sink(self) -> Sink:
        """The sink given."""
        return self._sink

    def is_whole(self, inputs: Sequence[PValue]) -> bool:
        """Whether the sink takes the elements of these inputs; False where `expand` makes other steps of it."""
        return True

    def expand(self, inputs: PCollection[object]) -> PDone:
        """Nothing comes after it."""
        if not isinstance(inputs, PCollection):
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        return PDone(inputs.pipeline)
