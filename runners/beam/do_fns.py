"""What: Beam's DoFns as the engine calls them, by Beam's own `DoFnRunner`, which knows every kind of parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import apache_beam
from apache_beam.runners import common
from apache_beam.utils.windowed_value import WindowedValue as BeamValue
from apache_beam.utils.windowed_value import create

from headrace.lowlevel.stored_names import named
from headrace.runners.beam.run import finalizers
from headrace.runners.beam.windows import pane_to_beam, to_beam, value_of_beam
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.model.tagged_output import TaggedOutput
from headrace.sdk.model.windowed_value import WindowedValue
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


class _Outputs(common.Receiver):  # type: ignore[misc]  # Beam's types are not read
    """Outputs of a tag, in a list that all tags share."""

    def __init__(self, tag: str | None, outputs: list[tuple[str | None, BeamValue]]) -> None:
        self._tag, self._outputs = tag, outputs

    def receive(self, windowed_value: BeamValue) -> None:
        """Take an output."""
        self._outputs.append((self._tag, windowed_value))


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
        self._finalizers = finalizers.Finalizers(label)

    def default_label(self) -> str:
        """The name of Beam's DoFn."""
        return str(self._fn.default_label())

    def setup(self) -> None:
        """See `DoFn`."""
        self._outputs: list[tuple[str | None, BeamValue]] = []
        receivers = {tag: _Outputs(tag, self._outputs) for tag in (None, *self._tags)}
        self._sides = [_CurrentSide() for _ in range(self._count)]
        # The windows of the last element, most often those of the next.
        self._windows: tuple[BoundedWindow, ...] = ()
        self._beam_windows: tuple[apache_beam.transforms.window.BoundedWindow, ...] = ()
        self._runner = common.DoFnRunner(
            self._fn,
            self._args,
            self._kwargs,
            self._sides,
            self._windowing,
            receivers,
            step_name=self._label,
            **self._runner_options(),
        )
        self._runner.setup()

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
        if value.windows is not self._windows:
            self._windows, self._beam_windows = value.windows, tuple(map(to_beam, value.windows))
        given = create(element, value.timestamp.micros, self._beam_windows, pane_to_beam(value.pane_info))
        if self._runner.process(given):
            raise NotImplementedError(f"step {self._label!r} defers the rest of an element, which the runner cannot do")
        return self._taken(given)

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
        rows = [_tagged(finalizers.TAG, self._finalizers.row(callback)) for callback in finalizer._callbacks]
        finalizer.reset()
        return rows

    def finish_bundle(self) -> Iterable[object] | None:
        """See `DoFn`."""
        self._runner.finish()
        outputs = [_tagged(tag, value_of_beam(output)) for tag, output in self._outputs]
        self._outputs.clear()
        return outputs

    def has_finish_bundle(self) -> bool:
        """See `DoFn`."""
        return type(self._fn).finish_bundle is not apache_beam.DoFn.finish_bundle

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
    """The contents of a side input as Beam gives them to user code."""

    def __init__(self, side: apache_beam.pvalue.AsSideInput) -> None:
        self._kind, self._options = type(side), side._view_options()

    def __call__(self, values: list[object]) -> object:
        """The argument for the values of a side window."""
        return cast(object, self._kind._from_runtime_iterable(values, self._options))
