"""What: transforms of Headrace's sdk, such as its sources and sinks, as steps of a pipeline of Beam's SDK."""

from __future__ import annotations

from typing import Any

import apache_beam
from apache_beam.pipeline import AppliedPTransform
from apache_beam.transforms import core, external, window

from headrace.runners.beam.translation import Translation
from headrace.runners.beam.windowings import UntranslatableError
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.create import Create


class Native(apache_beam.PTransform):  # type: ignore[misc]  # Beam's types are not read
    """A transform of Headrace's sdk as a step of a pipeline of Beam's SDK, which only `HeadraceRunner` runs.

    A source is applied to the pipeline, any other transform to a collection. The step has one output, which is empty
    if the transform has none. Elements are those of the sdk: a step that is to see Beam's classes converts them.

    Args:
        transform: The transform, such as `ReadFromKafka(...)` or `WriteToParquet(...)` of `headrace.io`.

    Raises:
        TypeError: `transform` is not a transform of Headrace.

    >>> import apache_beam as beam
    >>> from headrace.io import GenerateSequence
    >>> from headrace.runners.beam import HeadraceRunner
    >>> with beam.Pipeline(runner=HeadraceRunner("LocalRunner")) as pipeline:
    ...     _ = pipeline | Native(GenerateSequence(1, 3)) | beam.Map(print)
    1
    2
    """

    def __init__(self, transform: PTransform[Any, Any]) -> None:
        super().__init__()
        if not isinstance(transform, PTransform):
            raise TypeError(
                f"Native takes a transform of Headrace, got {transform!r:.200}; transforms of Beam need no adapter"
            )
        self.transform = transform

    def default_label(self) -> str:
        """The label of the transform."""
        return self.transform.label

    def get_windowing(self, inputs: Any) -> core.Windowing:
        """The global window after a source, else the windowing of the input."""
        begins = isinstance(inputs[0], apache_beam.pvalue.PBegin)
        return core.Windowing(window.GlobalWindows()) if begins else super().get_windowing(inputs)

    def expand(self, pvalue: Any) -> apache_beam.PCollection:
        """The output, of elements of any type."""
        is_bounded = bool(getattr(self.transform, "is_bounded", True)) and bool(getattr(pvalue, "is_bounded", True))
        return apache_beam.PCollection(pvalue.pipeline, element_type=Any, is_bounded=is_bounded)

    def to_runner_api_parameter(self, context: Any) -> tuple[str, object]:
        """The step as Beam stores it while it checks the pipeline."""
        return tuple(self.to_runner_api_pickled(context))


def add_native(made: Translation, step: AppliedPTransform) -> None:
    """Add the step of a `Native`. Raises UntranslatableError if its transform gives several collections."""
    [source] = step.main_inputs.values()
    begins = isinstance(source, apache_beam.pvalue.PBegin)
    output = (made.pipeline if begins else made.collection(source)) | step.full_label >> step.transform.transform
    if isinstance(output, (tuple, dict)):
        raise UntranslatableError(
            f"step {step.full_label!r} gives several collections, but a Native has one; write a transform of "
            "Headrace that gives the one that the pipeline needs"
        )
    if not isinstance(output, PCollection):
        output = made.pipeline | f"{step.full_label}/Nothing" >> Create([])
    made.put(step, output)


_INSTEAD = {
    "ReadFromKafka": "use headrace.runners.beam.Native(headrace.io.ReadFromKafka(...))",
    "WriteToKafka": "use headrace.runners.beam.Native(headrace.io.WriteToKafka(...))",
}


def refuse_external(transform: apache_beam.PTransform, label: str) -> None:
    """Raise UntranslatableError for a transform that an expansion service of another language would have to expand."""
    if isinstance(transform, external.ExternalTransform):
        kind = type(transform).__name__
        instead = _INSTEAD.get(kind, "use a transform of Beam's Python SDK, or one of Headrace's by Native(...)")
        raise UntranslatableError(
            f"step {label!r}: {kind} runs in another language by an expansion service, which this runner does not "
            f"have; {instead}"
        )
