"""What: Beam's DoFns as the engine calls them, by Beam's own `DoFnRunner`, which knows every kind of parameter.

Some take or give batches of elements (`process_batch`, `yields_batches`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

import apache_beam
from apache_beam.pipeline import AppliedPTransform
from apache_beam.runners import common
from apache_beam.runners.worker.opcounters import OperationCounters
from apache_beam.runners.worker.operations import InefficientExecutionWarning
from apache_beam.typehints.batch import BatchConverter
from apache_beam.utils.counters import CounterFactory
from apache_beam.utils.windowed_value import HomogeneousWindowedBatch, WindowedBatch, create
from apache_beam.utils.windowed_value import WindowedValue as BeamValue

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.beam_private import (
    finalizer_callbacks,
    output_types,
    side_argument,
    side_options,
    takes_elements,
)
from headrace.runners.beam.functions.own_coders import OwnCoder
from headrace.runners.beam.windowings import pane_to_beam, to_beam, value_of_beam
from headrace.sdk.functions import lifecycle
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.special_outputs import TaggedOutput, WindowedValue
from headrace.sdk.windows import BoundedWindow


class _CurrentSide:
    """The side input of the element that is being processed, in the place of a `SideInputMap`."""

    def __init__(self) -> None:
        self.value: object = None

    def __getitem__(self, window: object) -> object:
        return self.value

    def is_globally_windowed(self) -> bool:
        """False, so that the value is asked for with each element."""
        return False


class TaggedReceiver(common.Receiver):  # type: ignore[misc]  # Beam's types are not read
    """Outputs of a tag, in a list that all tags share.

    Args:
        tag: The tag.
        outputs: The list.
        check: What raises for a value that is not of the types that the step and its readers expect; None if types are
            not checked at run time.
    """

    def __init__(
        self, tag: str | None, outputs: list[tuple[str | None, BeamValue]], check: Callable[[object], None] | None
    ) -> None:
        self._tag, self._outputs, self._check = tag, outputs, check

    def receive(self, windowed_value: BeamValue) -> None:
        """Take an output."""
        if self._check is not None:
            self._check(windowed_value.value)
        self._outputs.append((self._tag, windowed_value))


class _Dropped(common.Receiver):  # type: ignore[misc]  # Beam's types are not read
    """Outputs of a tag that nothing reads."""

    def receive(self, windowed_value: BeamValue) -> None:
        """Drop an output."""

    def receive_batch(self, windowed_batch: WindowedBatch) -> None:
        """Drop a batch of outputs."""


class _Receivers(dict[str | None, common.Receiver]):
    """Tag -> what takes its outputs."""

    def __missing__(self, tag: str | None) -> common.Receiver:
        return _Dropped()


def holds_checked_types(step: AppliedPTransform) -> bool:
    """Whether a composite has a part with checked types, so that it cannot be taken whole."""
    return any(
        output_types(getattr(part.transform, "fn", None)) is not None or holds_checked_types(part)
        for part in step.parts
    )


def output_check(fn: apache_beam.DoFn, label: str) -> Callable[[object], None] | None:
    """What raises Beam's TypeCheckError for an output of a wrong type; None if types are not checked at run time."""
    hints = output_types(fn)
    if hints is None:
        return None
    counters = OperationCounters(CounterFactory(), label, None, 0, producer_type_hints=hints)
    return cast("Callable[[object], None]", counters.type_check)


@named("BeamDoFn")
class BeamDoFn(DoFn):
    """A DoFn of Beam's SDK.

    Args:
        fn: The DoFn.
        args: Further positional arguments, with Beam's placeholders for side inputs.
        kwargs: Further named arguments, likewise.
        sides: Number of side inputs.
        windowing: Beam's windowing of the outputs.
        tags: Tags of the outputs that something reads or that are declared.
        label: Name of the step, for messages.
    """

    outputs_per_window = False

    def __init__(
        self,
        fn: apache_beam.DoFn,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        sides: int,
        windowing: apache_beam.Windowing,
        tags: Iterable[str],
        label: str,
    ) -> None:
        self._fn, self._args, self._kwargs, self._count = fn, args, kwargs, sides
        self._windowing, self._tags, self._label = windowing, tuple(tags), label
        self._finalizers = lifecycle.Finalizers(label)

    def default_label(self) -> str:
        """The name of Beam's DoFn."""
        return str(self._fn.default_label())

    def setup(self) -> None:
        """See `DoFn`."""
        self._outputs: list[tuple[str | None, BeamValue]] = []
        self._check = output_check(self._fn, self._label)
        receivers = _Receivers({tag: self._receiver(tag) for tag in (None, *self._tags)})
        self._sides = [_CurrentSide() for _ in range(self._count)]
        # The windows of the last element, most often those of the next.
        self._windows: tuple[BoundedWindow, ...] = ()
        self._beam_windows: list[apache_beam.transforms.window.BoundedWindow] = []
        self._runner = common.DoFnRunner(
            self._run_fn(),
            self._args,
            self._kwargs,
            self._sides,
            self._windowing,
            receivers,
            step_name=self._label,
            **self._runner_options(),
        )
        self._runner.setup()

    def _run_fn(self) -> apache_beam.DoFn:
        """The DoFn that the `DoFnRunner` runs."""
        return self._fn

    def _receiver(self, tag: str | None) -> TaggedReceiver:
        """What takes the outputs of a tag."""
        return TaggedReceiver(tag, self._outputs, self._check)

    def _runner_options(self) -> dict[str, object]:
        """Further arguments of the `DoFnRunner`."""
        return {}

    def start_bundle(self) -> None:
        """See `DoFn`."""
        self._outputs.clear()
        self._runner.start()

    def process(
        self, element: object, *sides: object, value: WindowedValue = DoFn.WindowedValueParam
    ) -> Iterable[object] | None:
        """Outputs of an element."""
        for current, side in zip(self._sides, sides, strict=True):
            current.value = side
        given = self._given(element, value)
        self._runner.process(given)
        return self._taken(given)

    def _given(self, element: object, value: WindowedValue) -> BeamValue:
        """Beam's element for one of Headrace's, which comes in parts."""
        if value.windows is not self._windows:
            self._windows, self._beam_windows = value.windows, list(map(to_beam, value.windows))
        # A list of its own, as Beam has one, and appends to that of an output in several windows.
        return create(element, value.timestamp.micros, self._beam_windows[:], pane_to_beam(value.pane_info))

    def _taken(self, given: BeamValue) -> Iterable[object] | None:
        """The outputs since the last call, for an input."""
        finalizer = self._runner.bundle_finalizer_param
        if not (self._outputs or finalizer.has_callbacks()):
            return None
        outputs = [
            _tagged(tag, output.value if _inherits(output, given) else value_of_beam(output))
            for tag, output in self._outputs
        ]
        self._outputs.clear()
        outputs += self._callbacks()
        return outputs

    def _callbacks(self) -> list[object]:
        """The callbacks that were registered since the last call, as outputs."""
        finalizer = self._runner.bundle_finalizer_param
        rows = [_tagged(lifecycle.TAG, self._finalizers.row(callback)) for callback in finalizer_callbacks(finalizer)]
        finalizer.reset()
        return rows

    def finish_bundle(self) -> Iterable[object] | None:
        """See `DoFn`."""
        self._runner.finish()
        return self._all_taken()

    def _all_taken(self) -> list[object]:
        """The outputs since the last call, with timestamps and windows of their own."""
        outputs = [_tagged(tag, value_of_beam(output)) for tag, output in self._outputs]
        self._outputs.clear()
        return outputs

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        is_own = type(self._fn).finish_bundle is not apache_beam.DoFn.finish_bundle
        return is_own or bool(common.DoFnSignature(self._fn).get_bundle_contexts())

    def teardown(self) -> None:
        """See `DoFn`."""
        self._runner.teardown()


def _inherits(output: BeamValue, given: BeamValue) -> bool:
    """Whether an output has the timestamp, windows and pane of its input."""
    same = output.windows is given.windows or output.windows == given.windows
    return same and bool(output.timestamp_micros == given.timestamp_micros)


def _tagged(tag: str | None, output: object) -> object:
    return output if tag is None else TaggedOutput(tag, output)


class BeamView:
    """The contents of a side input as Beam gives them to user code.

    Args:
        side: The side input.
        coder: The coder with which the elements are encoded; None if they are as the program has them.
    """

    def __init__(self, side: apache_beam.pvalue.AsSideInput, coder: OwnCoder | None = None) -> None:
        self._kind, self._options, self._coder = type(side), side_options(side), coder

    def __call__(self, values: list[object]) -> object:
        """The argument for the values of a side window."""
        elements = values if self._coder is None else list(map(self._coder.decode, values))
        return side_argument(self._kind, elements, self._options)


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
