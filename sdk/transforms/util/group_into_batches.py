"""What: elements of a key gathered into batches (`apache_beam.GroupIntoBatches`)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable

from headrace.lowlevel.time import Duration, DurationTypes
from headrace.sdk.ptransform import PTransform
from headrace.sdk.pvalue import PCollection
from headrace.sdk.shardedkey import ShardedKey
from headrace.sdk.stateful.bag import BagState, BagStateSpec
from headrace.sdk.stateful.timer import UserTimer
from headrace.sdk.stateful.timerspec import TimerSpec, on_timer
from headrace.sdk.stateful.value import ReadModifyWriteState, ReadModifyWriteStateSpec
from headrace.sdk.timedomain import TimeDomain
from headrace.sdk.transforms.element import DoFn, ParDo
from headrace.sdk.transforms.numbers import is_whole
from headrace.sdk.windows import IntervalWindow

Pair = tuple[object, object]
Batch = tuple[object, list[object]]
Clock = Callable[[], float]


class GroupIntoBatches(PTransform[PCollection[object], PCollection[object]]):
    """Pairs (key, value) become pairs (key, list of values), each of a key and window, `batch_size` values long.

    A shorter batch is put out at the end of its window, and when its first value has waited long enough.

    Args:
        batch_size: Values in a batch.
        max_buffering_duration_secs: How long, in seconds of real time, a value waits at most; None or 0 for ever.
        clock: Gives the real time in seconds since 1970; another clock than the runner's is for tests.

    Raises:
        ValueError: `batch_size` is below 1, or the duration below 0.
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
        """A step with state."""
        return inputs | "Batch" >> ParDo(self._fn)

    class WithShardedKey(PTransform[PCollection[object], PCollection[object]]):
        """The same with each key cut into shards, so that a key with many values is worked on in parallel.

        What comes out are pairs (`ShardedKey`, list of values). The arguments are those of `GroupIntoBatches`.
        """

        def __init__(
            self, batch_size: int, max_buffering_duration_secs: DurationTypes | None = None, clock: Clock = time.time
        ) -> None:
            super().__init__()
            self._batches = GroupIntoBatches(batch_size, max_buffering_duration_secs, clock)

        def expand(self, inputs: PCollection[object]) -> PCollection[object]:
            """A shard for each process, then batches."""
            return inputs | "Shard" >> ParDo(_Shard()) | self._batches


class _Shard(DoFn):
    """Every process has a shard of its own of each key."""

    def setup(self) -> None:
        """Choose the shard."""
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
        """Keep the value; put the batch out if it is complete."""
        number = self._keep(pair, values, count)
        if number == 1:
            end.set(window.end)
        return _flushed(pair[0], values, count) if number >= self._size else None

    @staticmethod
    def _keep(pair: Pair, values: BagState, count: ReadModifyWriteState) -> int:
        """Add a value; how many there are now."""
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
        """The window ends: put out what there is."""
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
        """Keep the value; put the batch out if it is complete."""
        number = self._keep(pair, values, count)
        if number == 1:
            end.set(window.end)
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

    @on_timer(WAIT)
    def on_wait(
        self,
        key: object = DoFn.KeyParam,
        values: BagState = DoFn.StateParam(_Batches.VALUES),
        count: ReadModifyWriteState = DoFn.StateParam(_Batches.COUNT),
    ) -> Iterable[Batch]:
        """The first value has waited long enough: put out what there is."""
        return _flushed(key, values, count)


def _flushed(key: object, values: BagState, count: ReadModifyWriteState) -> list[Batch]:
    """The batch of what there is, if there is anything; it is kept no longer."""
    batch = values.read()
    values.clear()
    count.clear()
    return [(key, batch)] if batch else []
