"""What the splits of an epoch in one task are: as they were given, but for a limit."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from headrace.lowlevel.injectors.injector import MemorySplit, TellingSplit
from headrace.lowlevel.records.record import Batch
from headrace.runners.spark.jobs.stage_function import limited
from headrace.runners.spark.worker.process import PROCESS, TooMuchError


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
    PROCESS.records_read.begin()
    assert [batch.values for batch in telling.read()] == [[0], [1], [2]]
    assert telling.told() == 3


def test_splits_together_have_as_many_records_as_one_task_reads() -> None:
    splits = [split for _, split in limited([("a", Telling()), ("b", Telling())], 5)]
    PROCESS.records_read.begin()
    assert len(list(splits[0].read())) == 3
    with pytest.raises(TooMuchError):
        list(splits[1].read())
    PROCESS.records_read.begin()
    assert len(list(splits[1].read())) == 3
