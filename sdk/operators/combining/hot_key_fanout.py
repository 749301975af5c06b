"""What: combining in two phases, so that the elements of a hot key are combined in several places (MillWheel §8.4).

The elements of a key are spread over shards, which are the keys of a separate keyed computation. That computation
combines the elements of a bundle by window and sends the accumulators in the same epoch, without state, to the
grouping. Elements are judged late at the same watermark as without fan-out, and panes are the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias, cast

from headrace.lowlevel.records.record import Batch, Emit
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.computation import BundleComputation, Context, InlineComputation
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, Fanout, RunsCombiner
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.window_assignment import sorter
from headrace.sdk.windows import TimestampCombiner
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

ShardKey: TypeAlias = tuple[int, object]


@named("Spread")
class Spread(InlineComputation):
    """Adds the number of a shard to the key of each pair (key, payload)."""

    def __init__(self, fanout: Fanout, output_stream: str) -> None:
        self._fanout = fanout
        self._output_stream = output_stream
        self._next = 0

    def loses_ids(self) -> bool:
        """Return True, because a replayed record may be sent to another shard."""
        return True

    def start_bundle(self) -> None:
        """Choose a random first shard, so that small bundles do not all start with the same one."""
        self._next = random.getrandbits(30)

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        """Distribute the pairs of a batch over the shards in turn."""
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


@named("Shards")
class Shards(RunsCombiner, BundleComputation):
    """Combines the elements of a shard and bundle by window, for a `Grouping` with inputs of this `output_form`.

    Args:
        windowing: Windowing of the grouping.
        combine: Combines values, or accumulators if the input is lifted.
        streams: Input stream -> its form; either all of them are lifted or none is.
        output_stream: Stream to which pairs of key and payload are sent.
    """

    _combine: AnyCombineFn

    def __init__(
        self, windowing: Windowing, combine: AnyCombineFn, streams: dict[str, GroupingInputForm], output_stream: str
    ) -> None:
        self._combine, self._output_stream = combine, output_stream
        self._stamps = windowing.timestamp_combiner
        self.output_form = (
            GroupingInputForm.LIFTED if GroupingInputForm.LIFTED in streams.values() else GroupingInputForm.SHARDED
        )
        namespaces = WindowNamespaces(windowing)
        self._sorters = {
            stream: sorter(windowing, form, namespaces)
            for stream, form in streams.items()
            if form is not GroupingInputForm.LIFTED
        }

    def state_signature(self) -> Mapping[str, str]:
        """Return an empty mapping, because there is no state."""
        return {}

    def process_batch(self, stream: str, batch: Batch, context: Context) -> None:
        """Combine the records of a shard and send the results."""
        pairs = cast("Sequence[tuple[ShardKey, object]]", batch.values)
        (_, key), _ = pairs[0]
        if self.output_form is GroupingInputForm.LIFTED:
            payloads = self._merged(pairs)
        else:
            payloads = self._combined(stream, batch, context.watermark)
        values: list[object] = [(key, payload) for payload in payloads]
        context.produce_batch(self._output_stream, Batch(values, [min(batch.timestamps)] * len(values)))

    def _merged(self, pairs: Sequence[tuple[ShardKey, object]]) -> list[object]:
        """Payloads of lifted input: one merged accumulator for each window."""
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
        """Payloads of other input: an accumulator for each window, and the counters that the grouping needs."""
        combine = self._combine
        arrivals = self._sorters[stream](batch.values, batch.timestamps, watermark)
        payloads: list[object] = []
        # The first payload has the number of records and of elements outside windows.
        payloads.append((None, None, arrivals.outside, 0, None, len(batch.values)))
        payloads += [(namespace.code, None, 0, number, None, 0) for namespace, number in arrivals.late]
        for each in arrivals.by_window:
            accumulator = combine.compact(combine.add_inputs(combine.create_accumulator(), each.items))
            few = self._few(each.timestamps, watermark)
            payloads.append((each.namespace.code, accumulator, each.elements, each.lost, few, 0))
        return payloads

    def _few(self, timestamps: list[int] | None, watermark: int) -> list[int] | None:
        """The timestamps that affect panes: those that are late, and one of the others, by the timestamp combiner."""
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
