"""What: the transform that writes a collection to a sink."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.sinks.sink import Sink
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection, PDone, PValue


class Write(PTransform[PCollection[object], PValue]):
    """Passes elements with their timestamps to a sink after the commit of the epoch that made them.

    Outputs of a `DoFn` with `strong_productions = False` are passed to the sink at once; the sink must support that, as
    `SendSink` does.

    >>> import headrace as beam
    >>> from headrace.lowlevel import CallSink
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     _ = pipeline | beam.Create(["red"]) | Write(CallSink(lambda epoch, rows: print([row for row, _ in rows])))
    ['red']

    Args:
        sink: Any sink of the low level, such as `CallSink(function)`.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def sink(self) -> Sink:
        """The given sink."""
        return self._sink

    def is_whole(self, inputs: Sequence[PValue]) -> bool:
        """Whether the sink receives the elements of these inputs; False if `expand` applies other steps instead."""
        return True

    def expand(self, inputs: PCollection[object]) -> PValue:
        """The end of a pipeline's branch."""
        if not isinstance(inputs, PCollection):
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        return PDone(inputs.pipeline)
