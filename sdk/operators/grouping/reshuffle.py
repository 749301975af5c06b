"""Where elements are processed: a shuffle that changes nothing else (the work behind `Reshuffle`).

Elements go to a keyed computation without state and out of it in the same epoch. As all productions, they are
committed with the epoch (MillWheel §6.1.2), and what comes behind runs in other tasks than what came before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.computation import BundleComputation, Context, InlineComputation
from headrace.lowlevel.record import Batch, Emit
from headrace.sdk.fusion.plan import Form
from headrace.sdk.windows import BoundedWindow

_Windowed = tuple[object, Sequence[BoundedWindow], object]


class Scatter(InlineComputation):
    """Puts a number before each value, so that values are spread evenly over so many keys."""

    def __init__(self, buckets: int, output_stream: str) -> None:
        self._buckets, self._output_stream = buckets, output_stream
        self._next = 0

    def loses_ids(self) -> bool:
        """A record that comes again goes another way."""
        return True

    def start_bundle(self) -> None:
        """Begin anywhere, so that small bundles do not all go the same way."""
        self._next = random.randrange(self._buckets)

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Number a batch's values in turn."""
        first, self._next = self._next, self._next + len(batch.values)
        numbers = [number % self._buckets for number in range(first, self._next)]
        emit(self._output_stream, Batch(list(zip(numbers, batch.values, strict=True)), batch.timestamps))


@dataclass(frozen=True, slots=True)
class Route:
    """Where the records of an input stream go, and how they carry windows."""

    form: Form
    output_stream: str


class Shuffle(BundleComputation):
    """Passes pairs (key, payload) on as they come.

    Args:
        routes: Input stream -> where its records go.
        keep_keys: Whether what goes on are pairs; otherwise the payload alone, the key having been a number.
    """

    def __init__(self, routes: dict[str, Route], keep_keys: bool) -> None:
        self._routes, self._keep_keys = routes, keep_keys

    def state_signature(self) -> Mapping[str, str]:
        """Nothing is stored."""
        return {}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Pass a batch on."""
        route = self._routes[stream]
        pairs = cast("Sequence[tuple[object, object]]", batch.values)
        if not self._keep_keys:
            batch = Batch([payload for _, payload in pairs], batch.timestamps)
        elif route.form is Form.WINDOWED:
            windowed = cast("Sequence[tuple[object, _Windowed]]", pairs)
            batch = Batch([((key, value), windows, pane) for key, (value, windows, pane) in windowed], batch.timestamps)
        context.produce_batch(route.output_stream, batch)
