"""What: a MillWheel computation as a transform of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.code_pickling import shipped
from headrace.lowlevel.records.record import KeyExtractor
from headrace.lowlevel.topology.computation import Computation
from headrace.sdk.graph.ptransform import PTransform, collections_of
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.model.element_form import ElementForm, plain_form
from headrace.sdk.windows.windowing import Windowing

Outputs = PCollection[object] | dict[str, PCollection[object]]


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
