"""What the splits of an epoch in one stage are: as they were given, but for a limit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.injectors.injector import MemorySplit, TellingSplit
from headrace.lowlevel.records.column_batch import ColumnBatch
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.records.value_schema import Single
from headrace.runners.engine.messages import DRIVER, Message, pack
from headrace.runners.spark.jobs.single_stage import limited, was_unlike
from headrace.runners.spark.jobs.stage_function import WORKED
from headrace.runners.spark.worker.process import PROCESS
from headrace.runners.spark.worker.records_read import TooMuchError, UnlikeError


@dataclass
class Telling:
    """Tells how many batches were read of it."""

    read_batches: int = 0

    def read(self) -> Iterator[Batch]:
        for number in range(3):
            self.read_batches += 1
            yield Batch([number], [number])

    def told(self) -> object:
        return self.read_batches


def test_a_split_that_has_something_to_tell_still_tells_it() -> None:
    [(_, telling), (_, other)] = limited([("a", Telling()), ("b", MemorySplit(Batch([1], [1])))], 10)
    assert not isinstance(other, TellingSplit)
    telling = pickle.loads(pickle.dumps(telling))
    assert isinstance(telling, TellingSplit)
    PROCESS.records_read.begin(is_shared=False)
    assert [batch.values for batch in telling.read()] == [[0], [1], [2]]
    assert telling.told() == 3


def test_splits_together_have_as_many_records_as_one_task_reads() -> None:
    splits = [split for _, split in limited([("a", Telling()), ("b", Telling())], 5)]
    PROCESS.records_read.begin(is_shared=False)
    assert len(list(splits[0].read())) == 3
    with pytest.raises(TooMuchError):
        list(splits[1].read())
    PROCESS.records_read.begin(is_shared=False)
    assert len(list(splits[1].read())) == 3


def seen(*batches: Batch) -> bytes:
    """What a reader beside others tells of these."""
    PROCESS.records_read.begin(is_shared=True)
    for batch in batches:
        PROCESS.records_read.add(batch, 100)
    return PROCESS.records_read.digest()


def numbers(*values: int, times: tuple[int, ...] = (5, 6)) -> ColumnBatch:
    return ColumnBatch(pa.record_batch({"number": list(values)}), np.array(times, np.int64), Single(0))


def test_readers_tell_apart_what_differs_in_a_value_a_time_or_its_order() -> None:
    told = [
        seen(numbers(1, 2)),
        seen(numbers(1, 3)),
        seen(numbers(2, 1)),
        seen(numbers(1, 2, times=(5, 7))),
        seen(numbers(1, 2), numbers(1, 2)),
    ]
    assert len(set(told)) == len(told)
    assert seen(numbers(1, 2)) == told[0]
    assert was_unlike([worked(told[0]), worked(told[1])])
    assert not was_unlike([worked(told[0]), worked(told[0])])


def test_of_python_values_nobody_can_tell() -> None:
    with pytest.raises(UnlikeError):
        seen(Batch([1], [1]))


def test_who_reads_alone_tells_nothing() -> None:
    PROCESS.records_read.begin(is_shared=False)
    PROCESS.records_read.add(Batch([1], [1]), 100)
    assert PROCESS.records_read.digest() == b""


def worked(told: bytes) -> Message:
    return 0, DRIVER, WORKED, pack((0.1, told))
