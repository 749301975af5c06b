"""What: Beam's DoFns that take or give batches of elements (`process_batch`, `yields_batches`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import apache_beam
from apache_beam.pipeline import AppliedPTransform
from apache_beam.runners.worker.operations import InefficientExecutionWarning
from apache_beam.typehints.batch import BatchConverter
from apache_beam.utils.windowed_value import HomogeneousWindowedBatch, WindowedBatch
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import takes_elements
from headrace.runners.beam.functions.do_fns import BeamDoFn, TaggedReceiver
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.special_outputs import WindowedValue

_ELEMENTS = 4096
"""Greatest number of elements of a batch, as in Beam's worker."""


def warn_of_rebatching(step: AppliedPTransform) -> None:
    """Warn, as Beam does, if a step takes batches of another type than the step before gives."""
    [source] = step.main_inputs.values()
    fn = step.transform.fn
    given = _converter("output_batch_converter", source.producer)
    wanted = _converter("input_batch_converter", step)
    if given is not None and wanted is not None and given != wanted and not takes_elements(fn):
        warnings.warn(
            f"step {step.full_label!r}: the input of {fn} comes in batches of {given.batch_type!r}, which become "
            f"batches of {wanted.batch_type!r}; batches of one type cost less",
            InefficientExecutionWarning,
            stacklevel=2,
        )


def _converter(name: str, step: AppliedPTransform | None) -> BatchConverter | None:
    """A converter that Beam has given to the DoFn of a step."""
    return getattr(getattr(getattr(step, "transform", None), "fn", None), name, None)


class _BatchOutputs(TaggedReceiver):
    """Outputs of a tag, of which some come as batches."""

    def __init__(self, fn: apache_beam.DoFn, *rest: Any) -> None:
        super().__init__(*rest)
        self._fn = fn

    def receive_batch(self, windowed_batch: WindowedBatch) -> None:
        """Take the elements of a batch."""
        for value in windowed_batch.as_windowed_values(self._fn.output_batch_converter.explode_batch):
            self.receive(value)


@named("BeamBatchDoFn")
class BeamBatchDoFn(BeamDoFn):
    """A DoFn of Beam's SDK whose batches are made of the elements of a bundle; see `BeamDoFn`.

    One that has a `process`, too, gets elements, as with Beam where they do not come as batches of its type.
    """

    def setup(self) -> None:
        """See `DoFn`."""
        self._waiting: list[tuple[BeamValue, tuple[object, ...]]] = []
        super().setup()

    def _receiver(self, tag: str | None) -> TaggedReceiver:
        return _BatchOutputs(self._fn, tag, self._outputs, self._check)

    def start_bundle(self) -> None:
        """See `DoFn`."""
        self._waiting.clear()
        super().start_bundle()

    def process(
        self, element: object, *sides: object, value: WindowedValue = DoFn.WindowedValueParam
    ) -> Iterable[object] | None:
        """Outputs of an element, or of a batch that is full with it."""
        if takes_elements(self._fn):
            return super().process(element, *sides, value=value)
        self._waiting.append((self._given(element, value), sides))
        return self._of_batches() if len(self._waiting) >= _ELEMENTS else None

    def finish_bundle(self) -> Iterable[object] | None:
        """Outputs of what waits, and those of the DoFn's own method."""
        waited = self._of_batches()
        return [*waited, *(super().finish_bundle() or ())]

    def has_finish_bundle(self) -> bool:
        """True, as elements may wait."""
        return True

    def _of_batches(self) -> list[object]:
        """The outputs of the elements that wait."""
        for _, group in groupby(self._waiting, _side_ids):
            values, sides = zip(*group, strict=True)
            for current, side in zip(self._sides, sides[0], strict=True):
                current.value = side
            produce = self._fn.input_batch_converter.produce_batch
            for batch in HomogeneousWindowedBatch.from_windowed_values(values, produce_fn=produce):
                self._runner.process_batch(batch)
        self._waiting.clear()
        return self._all_taken()


def _side_ids(waiting: tuple[BeamValue, tuple[object, ...]]) -> tuple[int, ...]:
    """Identities of the side inputs of an element: equal only where the side inputs are the same objects."""
    return tuple(map(id, waiting[1]))
