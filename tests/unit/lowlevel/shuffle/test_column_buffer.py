"""Column buffers sort records by interval and key, with numbers of 16 bits if keys are few."""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, pair
from headrace.lowlevel.records.record import Batch, Keys
from headrace.lowlevel.shuffle.partition_buffer import ColumnBuffer, KeyHashCache, PartitionBuffer
from headrace.lowlevel.topology.computation import Computation
from headrace.lowlevel.topology.nodes import Keyed


@pytest.mark.parametrize("number_of_keys", [3, (1 << 16) + 2])
def test_records_of_a_key_stay_in_order_of_arrival(number_of_keys: int) -> None:
    numbers = np.arange(2 * number_of_keys)
    table = pa.RecordBatch.from_pydict({"key": pa.array(numbers % number_of_keys), "value": pa.array(numbers)})
    buffer = ColumnBuffer("step", "in", itemgetter(0), encode_key)
    buffer.add(ColumnBatch(table, numbers, pair(Single(0), Single(1))))
    intervals, keys = IntervalMap.evenly(2), Keys()
    for interval, block in buffer.take_blocks(intervals, KeyHashCache()):
        assert all(intervals.intervals[intervals.index_of(hashed)] == interval for hashed in block.key_hashes)
        block.unpack(keys)
    found = {encoded: [(of.values, list(of.timestamps)) for of in records] for encoded, records in keys.values()}
    assert found == {
        encode_key(key): [([(key, key), (key, key + number_of_keys)], [key, key + number_of_keys])]
        for key in range(number_of_keys)
    }


@pytest.mark.parametrize("entries", [["unused", "a", "b"], ["a", "b", "a"]])
def test_keys_with_a_dictionary_are_those_of_the_records(entries: list[str]) -> None:
    indices = pa.array([2, 1, None, 1, 2], pa.int32())
    keys = pa.DictionaryArray.from_arrays(indices, pa.array(entries))
    table = pa.record_batch([keys, pa.array([1, 2, 3, 4, 5])], ["key", "value"])
    node = Keyed("step", Computation(), {"in": itemgetter(0)}, frozenset())
    buffer, expected = (PartitionBuffer(node, "in", lambda _: None, lambda *_: None) for _ in range(2))
    batch = ColumnBatch(table, np.arange(5), pair(Single(0), Single(1)))
    buffer.add(batch)
    expected.add(Batch(batch.values, batch.timestamps))
    [block], [other] = (each.take_blocks(IntervalMap.evenly(1), KeyHashCache()).values() for each in (buffer, expected))
    assert (block.keys, list(block.counts), list(block.values)) == (other.keys, list(other.counts), list(other.values))
