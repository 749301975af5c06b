"""Column buffers sort records by interval and key, with numbers of 16 bits if keys are few."""

from __future__ import annotations

from operator import itemgetter

import numpy as np
import pyarrow as pa
import pytest

from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.records.column_batch import ColumnBatch, Single, pair
from headrace.lowlevel.records.record import Keys
from headrace.lowlevel.shuffle.partition_buffer import ColumnBuffer
from headrace.lowlevel.shuffle.router import KeyHashCache


@pytest.mark.parametrize("number_of_keys", [3, (1 << 16) + 2])
def test_records_of_a_key_stay_in_order_of_arrival(number_of_keys: int) -> None:
    numbers = np.arange(2 * number_of_keys)
    table = pa.record_batch({"key": pa.array(numbers % number_of_keys), "value": pa.array(numbers)})
    buffer = ColumnBuffer("step", "in", itemgetter(0), encode_key)
    buffer.add(ColumnBatch(table, numbers, pair(Single(0), Single(1))))
    intervals, keys = IntervalMap.evenly(2), Keys()
    for interval, block in buffer.take_blocks(intervals, KeyHashCache().of):
        assert all(intervals.intervals[intervals.index_of(hashed)] == interval for hashed in block.key_hashes)
        block.unpack(keys)
    found = {encoded: [(of.values, list(of.timestamps)) for of in records] for encoded, records in keys.values()}
    assert found == {
        encode_key(key): [([(key, key), (key, key + number_of_keys)], [key, key + number_of_keys])]
        for key in range(number_of_keys)
    }
