"""What: combining in two phases, so that no one key's elements all meet in one place (MillWheel §8.4, hot keys).

Elements of a key are spread over shards, which are keys of a keyed computation of their own. It combines what a bundle
brings of each window and sends it on at once, without state, to the grouping in the same epoch. There it looks like
what came: elements are judged late at the same watermark, and panes are the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias, cast

from headrace.lowlevel.computation import BundleComputation, Context, InlineComputation
from headrace.lowlevel.record import Batch, Emit
from headrace.sdk.arrivals import InputForm, sorter
from headrace.sdk.contents import Combiner
from headrace.sdk.frames import Frames
from headrace.sdk.transforms.combine import Fanout
from headrace.sdk.windowing import Windowing
from headrace.sdk.windows import TimestampCombiner

ShardKey: TypeAlias = tuple[int, object]


class Spread(InlineComputation):
    """Puts the number of a shard beside the key of each pair (key, payload)."""

    def __init__(self, fanout: Fanout, output_stream: str) -> None:
        self._fanout = fanout
        self._output_stream = output_stream
        self._next = 0

    def loses_ids(self) -> bool:
        """A record that comes again goes another way."""
        return True

    def start_bundle(self) -> None:
        """Begin anywhere, so that small bundles do not all begin with the same shard."""
        self._next = random.getrandbits(30)

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Spread a batch's pairs in turn."""
        pairs = cast("Sequence[tuple[object, object]]", batch.values)
        first, self._next = self._next, self._next + len(pairs)
        fanout = self._fanout
        if callable(fanout):
            values = [
                ((at % max(1, fanout(key)), key), payload)
                for at, (key, payload) in zip(count(first), pairs, strict=False)
            ]
        else:
            values = [((at % fanout, key), payload) for at, (key, payload) in zip(count(first), pairs, strict=False)]
        emit(self._output_stream, Batch(values, batch.timestamps))


class Shards(BundleComputation):
    """Combines the elements of a shard and bundle by window, for a `Grouping` with inputs of this `output_form`.

    Args:
        windowing: That of the grouping.
        combine: What combines values, or accumulators where the input is lifted.
        streams: Input stream -> its form; all of them are lifted or none is.
        output_stream: Where pairs of key and payload go.
    """

    def __init__(
        self, windowing: Windowing, combine: Combiner, streams: dict[str, InputForm], output_stream: str
    ) -> None:
        self._combine, self._output_stream = combine, output_stream
        self._stamps = windowing.timestamp_combiner
        self.output_form = InputForm.LIFTED if InputForm.LIFTED in streams.values() else InputForm.SHARDED
        frames = Frames(windowing)
        self._sorters = {
            stream: sorter(windowing, form, frames) for stream, form in streams.items() if form is not InputForm.LIFTED
        }

    def state_signature(self) -> Mapping[str, str]:
        """Nothing is stored."""
        return {}

    def setup(self) -> None:
        """Set the CombineFn up."""
        self._combine.setup()

    def teardown(self) -> None:
        """Tear the CombineFn down."""
        self._combine.teardown()

    def has_teardown(self) -> bool:
        """Whether the CombineFn's does anything."""
        return self._combine.has_teardown()

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Combine the records of a shard and send the results on."""
        pairs = cast("Sequence[tuple[ShardKey, object]]", batch.values)
        (_, key), _ = pairs[0]
        if self.output_form is InputForm.LIFTED:
            payloads = self._merged(pairs)
        else:
            payloads = self._combined(stream, batch, context.watermark)
        values: list[object] = [(key, payload) for payload in payloads]
        context.produce_batch(self._output_stream, Batch(values, [min(batch.timestamps)] * len(values)))

    def _merged(self, pairs: Sequence[tuple[ShardKey, object]]) -> list[object]:
        """One accumulator for all of a window."""
        combine = self._combine
        found: dict[bytes, tuple[list[object], list[int], list[int]]] = {}
        for _, payload in pairs:
            code, accumulator, elements, lost = cast("tuple[bytes, object, int, int]", payload)
            accumulators, counts, losses = found.setdefault(code, ([combine.create_accumulator()], [], []))
            accumulators.append(accumulator)
            counts.append(elements)
            losses.append(lost)
        return [
            (code, combine.compact(combine.merge_accumulators(accumulators)), sum(counts), sum(losses))
            for code, (accumulators, counts, losses) in found.items()
        ]

    def _combined(self, stream: str, batch: Batch, watermark: int) -> list[object]:
        """An accumulator for each window, and what else the grouping has to know of the elements."""
        combine = self._combine
        arrivals = self._sorters[stream](batch.values, batch.timestamps, watermark)
        payloads: list[object] = []
        # How many records there were is told once; what is in no window is told beside it.
        records = len(batch.values)
        payloads.append((None, None, arrivals.outside, arrivals.late, None, records))
        for frame, items, elements, lost, timestamps in arrivals.by_window:
            accumulator = combine.compact(combine.add_inputs(combine.create_accumulator(), items))
            payloads.append((frame.code, accumulator, elements, lost, self._few(timestamps, watermark), 0))
        return payloads

    def _few(self, timestamps: list[int] | None, watermark: int) -> list[int] | None:
        """Those timestamps that make a difference: of the ones in time, the one that the windowing asks for."""
        extreme = _EXTREMES.get(self._stamps)
        if timestamps is None or extreme is None:
            return timestamps
        timely = [time for time in timestamps if time >= watermark]
        late = {time for time in timestamps if time < watermark}
        return [*late, extreme(timely)] if timely else list(late)


_EXTREMES: dict[TimestampCombiner, Callable[[list[int]], int]] = {
    TimestampCombiner.OUTPUT_AT_EARLIEST: min,
    TimestampCombiner.OUTPUT_AT_LATEST: max,
}
