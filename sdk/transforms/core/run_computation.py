"""What: a computation of the low level inside a pipeline (MillWheel's API between two transforms)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lowlevel.computation import Computation
from headrace.lowlevel.record import KeyExtractor
from headrace.sdk.fusion.plan import Form, plain_form
from headrace.sdk.ptransform import PTransform, collections_of
from headrace.sdk.pvalue import PCollection
from headrace.sdk.shipping import shipped
from headrace.sdk.windowing import Windowing

Outputs = PCollection[object] | dict[str, PCollection[object]]


class RunComputation(PTransform[object, Outputs]):
    """Runs a `Computation` of `headrace.lowlevel` on one collection or several.

    It gets the elements as records, with their timestamps but without their windows. What it produces to a stream
    becomes a collection, in the windowing of the (first) input: each value is in the windows that its timestamp gives
    it (or in the global window, where windows depend on more than the timestamp). Streams are known by name alone, so
    each name is used by one step of a pipeline only.

    Args:
        computation: An instance.
        key: From an element to its key; for several inputs one for all, or a list with one for each.
        outputs: The streams that it produces to. For one name the transform gives a collection, for several a dict.
        dead_letters: A further stream, for elements that it raises for: they become `DeadLetter`s there instead of
            stopping the run, and what they had done before is undone. The transform then gives a dict.

    >>> from headrace.lowlevel.computation import Computation
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
        """The computation's class."""
        return type(self.computation).__name__

    def expand(self, inputs: object) -> Outputs:
        """A collection for each output."""
        collections = collections_of(inputs)
        if not collections:
            raise TypeError(f"{self.label} was applied to {inputs!r:.200}; apply it to a collection")
        if len(self.keys) == 1:
            self.keys *= len(collections)
        if len(self.keys) != len(collections):
            raise TypeError(f"{self.label} has {len(collections)} inputs but {len(self.keys)} keys; give one for each")
        self.computation, self.keys = shipped((self.computation, self.keys), collections[0].pipeline.current_label)
        names = self.streams if self.dead_letters is None else [*self.streams, self.dead_letters]
        made = {stream: self._output(stream, collections) for stream in names}
        return made[self.streams[0]] if self._is_single else made

    def _output(self, stream: str, inputs: list[PCollection[object]]) -> PCollection[object]:
        windowing = inputs[0].windowing
        if plain_form(windowing) is not Form.PLAIN:
            windowing = Windowing()
        return PCollection(inputs[0].pipeline, windowing, all(one.is_bounded for one in inputs), tag=stream)


def _several(key: object) -> list[KeyExtractor]:
    """Key extractors as a list; an empty one of what is none."""
    if callable(key):
        return [key]
    return list(key) if isinstance(key, Sequence) and not isinstance(key, str) else []
