"""The computations behind `Reshuffle`: elements pass through a keyed computation that changes nothing.

The computation has no state and sends the elements on in the same epoch. Like all productions, they are committed with
the epoch (MillWheel §6.1.2), and the steps behind run in other tasks than the steps before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Context, InlineComputation
from headrace.sdk.model.element_form import ElementForm
from headrace.sdk.windows import BoundedWindow

_Windowed = tuple[object, Sequence[BoundedWindow], object]


@named("Scatter")
class Scatter(InlineComputation):
    """Turns each value into a pair (number, value) with numbers from 0 to `buckets` - 1, so that keys are even."""

    def __init__(self, buckets: int, output_stream: str) -> None:
        self._buckets, self._output_stream = buckets, output_stream
        self._next = 0

    def loses_ids(self) -> bool:
        """Return True: a record that is delivered again gets another number."""
        return True

    def start_bundle(self) -> None:
        """Begin with a random number, so that small bundles do not all go to the same keys."""
        self._next = random.randrange(self._buckets)

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Number a batch's values in turn."""
        first, self._next = self._next, self._next + len(batch.values)
        numbers = [number % self._buckets for number in range(first, self._next)]
        emit(self._output_stream, Batch(list(zip(numbers, batch.values, strict=True)), batch.timestamps))


@dataclass(frozen=True, slots=True)
class Route:
    """The output stream of an input stream, and the form in which its records carry windows."""

    form: ElementForm
    output_stream: str


@named("Shuffle")
class Shuffle(BundleComputation):
    """Passes pairs (key, payload) on unchanged.

    Args:
        routes: Input stream -> route of its records.
        keep_keys: Whether the output is the pair; otherwise only the payload, as the key is a number of `Scatter`.
    """

    def __init__(self, routes: dict[str, Route], keep_keys: bool) -> None:
        self._routes, self._keep_keys = routes, keep_keys

    def state_signature(self) -> Mapping[str, str]:
        """Return an empty mapping, because there is no state."""
        return {}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Send a batch to the output stream of its route."""
        route = self._routes[stream]
        pairs = cast("Sequence[tuple[object, object]]", batch.values)
        if not self._keep_keys:
            batch = Batch([payload for _, payload in pairs], batch.timestamps)
        elif route.form is ElementForm.WINDOWED:
            windowed = cast("Sequence[tuple[object, _Windowed]]", pairs)
            batch = Batch([((key, value), windows, pane) for key, (value, windows, pane) in windowed], batch.timestamps)
        context.produce_batch(route.output_stream, batch)
