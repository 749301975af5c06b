"""What: parts of a MillWheel topology as transforms: injectors (`Read`), computations, and sinks (`Write`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.injectors.injector import Injector
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.sinks.sink import Sink
from headrace.lowlevel.topology.computation import Computation
from headrace.sdk.graph.ptransform import PTransform, collections_of
from headrace.sdk.graph.pvalue import PBegin, PCollection, PDone, PValue
from headrace.sdk.model.element_form import ElementForm, plain_form
from headrace.sdk.windows.windowing import Windowing

Outputs = PCollection[object] | dict[str, PCollection[object]]


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


class RunComputation(PTransform[object, Outputs]):
    """Runs a `Computation` of `headrace.lowlevel` on one collection or several.

    The computation gets elements as records, with their timestamps but without their windows. Each stream that the
    computation produces becomes a collection with the windowing of the first input: a value is in the windows that its
    timestamp gives it, or in the global window if windows depend on more than the timestamp. Streams are identified by
    name alone, so only one step of a pipeline may use a name.

    Args:
        computation: An instance of a `Computation`.
        key: Function from an element to its key; for several inputs, one function for all, or a list of one for each.
        outputs: Names of the streams that the computation produces. The output is a collection for a single str, and a
            dict of collections by name for a list.
        dead_letters: Name of a further stream, for elements for which the computation raises: they become
            `DeadLetter`s instead of stopping the run, and their effects are undone. The output is then a dict.

    Raises:
        TypeError: `computation` is not an instance of a `Computation`, or `key` does not fit the inputs.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> class Total(Computation):
    ...     def process_record(self, record, context):
    ...         context.state = (context.state or 0) + record.value[1]
    ...         context.produce("totals", (context.key, context.state))
    >>> RunComputation(Total(), key=lambda pair: pair[0], outputs="totals").label
    'Total'
    """

    def __init__(
        self,
        computation: Computation,
        key: KeyExtractor | Sequence[KeyExtractor],
        outputs: str | Sequence[str] = (),
        dead_letters: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(computation, Computation):
            raise TypeError(f"RunComputation takes an instance of a Computation, got {computation!r:.200}")
        self.computation = computation
        self.keys: list[KeyExtractor] = _several(key)
        if not self.keys or not all(map(callable, self.keys)):
            raise TypeError(
                f"key of {self.label!r} must be a function from an element to its key, or one for each input, "
                f"got {key!r:.200}"
            )
        self.streams: list[str] = [outputs] if isinstance(outputs, str) else list(outputs)
        self._is_single = isinstance(outputs, str) and dead_letters is None
        self.dead_letters = dead_letters

    def default_label(self) -> str:
        """The name of the computation's class."""
        return type(self.computation).__name__

    def expand(self, inputs: object) -> Outputs:
        """The output collection, or a dict of output collections by stream name."""
        collections = collections_of(inputs)
        if not collections:
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        if len(self.keys) == 1:
            self.keys *= len(collections)
        if len(self.keys) != len(collections):
            raise TypeError(f"{self.label} has {len(collections)} inputs but {len(self.keys)} keys; give one for each")
        self.computation, self.keys = shipped((self.computation, self.keys), collections[0].pipeline.current_label)
        names = self.streams if self.dead_letters is None else [*self.streams, self.dead_letters]
        outputs = {stream: self._output(stream, collections) for stream in names}
        return outputs[self.streams[0]] if self._is_single else outputs

    def _output(self, stream: str, inputs: list[PCollection[object]]) -> PCollection[object]:
        windowing = inputs[0].windowing
        if plain_form(windowing) is not ElementForm.PLAIN:
            windowing = Windowing()
        return PCollection(
            inputs[0].pipeline, windowing, all(collection.is_bounded for collection in inputs), tag=stream
        )


def _several(key: object) -> list[KeyExtractor]:
    """Key extractors as a list; an empty list for anything else."""
    if callable(key):
        return [key]
    return list(key) if isinstance(key, Sequence) and not isinstance(key, str) else []


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
