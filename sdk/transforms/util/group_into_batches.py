"""What: batches of the values of a key (`apache_beam.GroupIntoBatches`)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.lowlevel.stored_names import stored_as
from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.functions.do_fn import DoFn
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.transforms.core.par_do import ParDo
from headrace.sdk.typehints.consistency import is_whole
from headrace.sdk.userstate.collection_states import BagState, BagStateSpec
from headrace.sdk.userstate.timers import TimeDomain, TimerSpec, UserTimer, on_timer
from headrace.sdk.userstate.value_states import ReadModifyWriteState, ReadModifyWriteStateSpec
from headrace.sdk.windows import IntervalWindow

Pair = tuple[object, object]
Batch = tuple[object, list[object]]
Clock = Callable[[], float]


@stored_as("ShardedKey")
class ShardedKey(NamedTuple):
    """A key, and the id of one of its shards.

    >>> ShardedKey("britney", b"1").key
    'britney'
    """

    key: object
    shard_id: bytes


class GroupIntoBatches(PTransform[PCollection[object], PCollection[object]]):
    """Gathers values by key and window: pairs (key, value) become pairs (key, list of `batch_size` values).

    A smaller batch is emitted at the end of its window, and when its first value has waited for the maximum time.

    Args:
        batch_size: Number of values in a batch.
        max_buffering_duration_secs: Greatest time that a value waits, in seconds of processing time; None or 0 for no
            limit.
        clock: Function that gives the processing time in seconds since 1970; a clock other than the runner's is for
            tests.

    Raises:
        ValueError: `batch_size` is below 1, or the duration below 0.

    >>> import headrace as beam
    >>> with beam.Pipeline("LocalRunner") as pipeline:
    ...     pairs = pipeline | beam.Create([("tea", 1), ("tea", 2), ("tea", 3)])
    ...     _ = pairs | beam.GroupIntoBatches(2) | beam.Map(print)
    ('tea', [1, 2])
    ('tea', [3])
    """

    def __init__(
        self, batch_size: int, max_buffering_duration_secs: DurationTypes | None = None, clock: Clock = time.time
    ) -> None:
        super().__init__()
        if not is_whole(batch_size) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r:.80}; give a whole number of at least 1")
        longest = Duration.of(0 if max_buffering_duration_secs is None else max_buffering_duration_secs)
        if longest < 0:
            raise ValueError(f"max_buffering_duration_secs is {max_buffering_duration_secs}; give 0 or more seconds")
        if longest > 0:
            self._fn: DoFn = _TimedBatches(batch_size, longest, None if clock is time.time else clock)
        else:
            self._fn = _Batches(batch_size)

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """A collection of pairs (key, list of values), made by a step with state."""
        return inputs | "Batch" >> ParDo(self._fn)

    class WithShardedKey(PTransform[PCollection[object], PCollection[object]]):
        """The same transform with each key split into shards, which are processed in parallel.

        The output is pairs (`ShardedKey`, list of values). The arguments are those of `GroupIntoBatches`.
        """

        def __init__(
            self, batch_size: int, max_buffering_duration_secs: DurationTypes | None = None, clock: Clock = time.time
        ) -> None:
            super().__init__()
            self._batches = GroupIntoBatches(batch_size, max_buffering_duration_secs, clock)

        def expand(self, inputs: PCollection[object]) -> PCollection[object]:
            """A collection of pairs (`ShardedKey`, list of values), with one shard of a key for each process."""
            return inputs | "Shard" >> ParDo(_Shard()) | self._batches


class _Shard(DoFn):
    """Splits keys into one shard for each process."""

    def setup(self) -> None:
        """Choose the id of the shard, once in each process."""
        self._shard = uuid.uuid4().bytes

    def process(self, pair: Pair) -> Iterable[object]:
        """The pair with the shard in its key."""
        key, value = pair
        return [(ShardedKey(key, self._shard), value)]


class _Batches(DoFn):
    VALUES = BagStateSpec("values")
    COUNT = ReadModifyWriteStateSpec("count")
    END = TimerSpec("window_end", TimeDomain.WATERMARK)

    def __init__(self, size: int) -> None:
        self._size = size

    def process(
        self,
        pair: Pair,
        window: IntervalWindow = DoFn.WindowParam,
        values: BagState = DoFn.StateParam(VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(COUNT),
        end: UserTimer = DoFn.TimerParam(END),
    ) -> Iterable[Batch] | None:
        """Store the value; emit the batch if the batch is complete."""
        number = self._keep(pair, values, count)
        if number == 1:
            end.set(window.max_timestamp())
        return _flushed(pair[0], values, count) if number >= self._size else None

    @staticmethod
    def _keep(pair: Pair, values: BagState, count: ReadModifyWriteState) -> int:
        """Store a value; the result is the number of stored values."""
        values.add(pair[1])
        before = count.read()
        number = before + 1 if isinstance(before, int) else 1
        count.write(number)
        return number

    @on_timer(END)
    def on_end(
        self,
        key: object = DoFn.KeyParam,
        values: BagState = DoFn.StateParam(VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(COUNT),
    ) -> Iterable[Batch]:
        """Emit the values that are left at the end of the window."""
        return _flushed(key, values, count)


class _TimedBatches(_Batches):
    WAIT = TimerSpec("buffering_end", TimeDomain.REAL_TIME)

    def __init__(self, size: int, longest: Duration, clock: Clock | None) -> None:
        super().__init__(size)
        self._longest = longest
        self._clock = clock

    def process(
        self,
        pair: Pair,
        window: IntervalWindow = DoFn.WindowParam,
        values: BagState = DoFn.StateParam(_Batches.VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(_Batches.COUNT),
        end: UserTimer = DoFn.TimerParam(_Batches.END),
        wait: UserTimer = DoFn.TimerParam(WAIT),
    ) -> Iterable[Batch] | None:
        """Store the value; emit the batch if the batch is complete."""
        number = self._keep(pair, values, count)
        if number == 1:
            end.set(window.max_timestamp())
            self._begin_waiting(wait)
        if number < self._size:
            return None
        wait.clear()
        return _flushed(pair[0], values, count)

    def _begin_waiting(self, wait: UserTimer) -> None:
        if self._clock is None:
            wait.set_relative(self._longest)
        else:
            wait.set(self._clock() + float(self._longest))

    @on_timer(_Batches.END)
    def on_end(
        self,
        key: object = DoFn.KeyParam,
        values: BagState = DoFn.StateParam(_Batches.VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(_Batches.COUNT),
        wait: UserTimer = DoFn.TimerParam(WAIT),
    ) -> Iterable[Batch]:
        """Emit the values that are left at the end of the window."""
        wait.clear()
        return _flushed(key, values, count)

    @on_timer(WAIT)
    def on_wait(
        self,
        key: object = DoFn.KeyParam,
        values: BagState = DoFn.StateParam(_Batches.VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(_Batches.COUNT),
    ) -> Iterable[Batch]:
        """Emit the values when the first one has waited for the maximum time."""
        return _flushed(key, values, count)


def _flushed(key: object, values: BagState, count: ReadModifyWriteState) -> list[Batch]:
    """A list with the batch of the stored values, empty if there are none; the state is cleared."""
    batch = values.read()
    values.clear()
    count.clear()
    return [(key, batch)] if batch else []
