"""From streams to subscribers and intervals: nothing lost, order kept per key, equal keys together."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import Batch, Computation, KeyEncodingError, ManualInjector, StepError, Topology
from headrace.lowlevel.coders.coder import decode_key, encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache
from headrace.lowlevel.shuffle.router import Router

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.tuples(inner), max_leaves=4)


@given(keys)
def test_keys_come_back(key):
    back = decode_key(encode_key(key))
    assert (back, type(back)) == (key, type(key))


@given(keys, keys)
def test_different_keys_have_different_bytes(one, other):
    assert (encode_key(one) == encode_key(other)) == (
        repr(one + 0.0 if type(one) is float else one) == repr(other + 0.0 if type(other) is float else other)
    ) or _zeros(one, other)


def _zeros(one, other):
    """-0.0 and 0.0 are one key, wherever they stand in a tuple."""
    return repr(one).replace("-0.0", "0.0") == repr(other).replace("-0.0", "0.0")


@pytest.mark.parametrize("key", [1j, object, object(), (1, [2j]), {"a": 1j}, bytearray(b"a")])
def test_keys_without_a_deterministic_encoding_are_refused(key):
    with pytest.raises(KeyEncodingError, match="cannot be encoded deterministically; use None, bool"):
        encode_key(key)


def route(batches, intervals):
    """What arrives at each interval of one computation, by key."""
    topology = Topology()
    topology.injector("in", ManualInjector())
    topology.computation("step", Computation(), {"in": lambda value: value[0]})
    arrived = []
    spread = {"step": IntervalMap.evenly(intervals)}
    router = Router(topology, spread, lambda interval, parcel: arrived.append((interval.number, parcel.encode())))
    for batch in batches:
        router.emit("in", batch)
    router.close()
    bundles = [Bundle() for _ in range(intervals)]
    for interval, data in arrived:
        decode_block(data).unpack(bundles[interval].keys)
    return bundles


@given(st.lists(st.lists(st.tuples(keys, st.integers(0, 99)), max_size=20), max_size=5), st.integers(1, 5))
def test_every_record_arrives_once_in_order_at_the_interval_of_its_key(batches, intervals):
    rows = [[((key, number), timestamp) for number, (key, timestamp) in enumerate(batch)] for batch in batches]
    bundles = route([Batch([value for value, _ in batch], [t for _, t in batch]) for batch in rows], intervals)
    expected = {}
    for batch in rows:
        for value, timestamp in batch:
            expected.setdefault(encode_key(value[0]), []).append((value, timestamp))
    found = {}
    for interval, bundle in enumerate(bundles):
        for row, (encoded, parts) in bundle.keys.items():
            assert row == key_hash_of(encoded)
            assert IntervalMap.evenly(intervals).of(row).number == interval
            found[encoded] = [pair for part in parts for pair in zip(part.values, part.timestamps, strict=True)]
    assert found == expected


def test_a_key_that_cannot_be_encoded_names_the_step_and_the_value():
    with pytest.raises(StepError, match=r"step 'step' raised at \(1j, 2\)(.|\n)*key 1j of type complex"):
        route([Batch([("a", 1), (1j, 2)], [0, 0])], 2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=60)), min_size=1, max_size=40), st.booleans())
def test_a_parcel_travels_in_pieces_that_are_together_the_same(records, with_ids):
    parcel = Block("to", "by", ids=[] if with_ids else None)
    for key in "abc":
        of = [(value, index) for index, (its, value) in enumerate(records) if its == key]
        if of:
            values, times = map(list, zip(*of, strict=True))
            parcel.add(encode_key(key), key_hash_of(encode_key(key)), values, times, [b"%d" % time for time in times])
    pieces = list(parcel.pieces(limit=400))
    assert all(len(data) <= 400 or len(piece) == 1 for piece, data in pieces)
    assert all(piece.encode() == data for piece, data in pieces)
    whole, together = Bundle(), Bundle()
    parcel.unpack(whole.keys)
    for _, data in pieces:
        decode_block(data).unpack(together.keys)
    assert _records(together) == _records(whole)


def _records(bundle):
    return {
        row: (
            key,
            [
                (value, time, part.ids and part.ids[at])
                for part in parts
                for at, (value, time) in enumerate(zip(part.values, part.timestamps, strict=True))
            ],
        )
        for row, (key, parts) in bundle.keys.items()
    }


plain = st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.booleans() | st.none() | st.just(2**63)


@given(st.data(), st.sampled_from(["a", 7, (1, "a")]), st.booleans())
def test_values_arrive_as_they_were_whatever_they_are(data, key, width_varies):
    tuples = st.tuples(st.just(key), plain, plain)
    nearly_one_type = [st.integers(0, 1) | st.booleans(), st.floats() | st.integers(), st.integers(), st.floats()]
    kinds = [tuples, *(st.tuples(st.just(key), second) for second in nearly_one_type)]
    values = data.draw(st.lists(st.one_of(kinds) if width_varies else data.draw(st.sampled_from(kinds)), min_size=1))
    (bundle,) = route([Batch(values, list(range(len(values))))], 1)
    found = [value for _, parts in bundle.keys.values() for part in parts for value in part.values]
    assert list(map(_exactly, found)) == list(map(_exactly, values))


def _exactly(value):
    return [(type(part), repr(part)) for part in value], type(value)


class Pair(NamedTuple):
    key: str
    number: int


def test_tuples_of_a_class_stay_what_they_are():
    (bundle,) = route([Batch([Pair("a", 1), Pair("a", 2)], [0, 1])], 1)
    [(_, [part])] = bundle.keys.values()
    assert list(map(_exactly, part.values)) == list(map(_exactly, [Pair("a", 1), Pair("a", 2)]))


def test_a_column_that_is_the_key_is_not_sent_again():
    sent = []
    topology = Topology()
    topology.injector("in", ManualInjector())
    topology.computation("step", Computation(), {"in": lambda value: value[0]})
    router = Router(topology, {"step": IntervalMap.evenly(1)}, lambda interval, parcel: sent.append(parcel.encode()))
    router.emit("in", Batch([("a long key", number) for number in range(3)], [0, 1, 2]))
    router.close()
    assert sent[0].count(b"a long key") == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(), st.binary(max_size=60)), min_size=1, max_size=40))
def test_turned_values_travel_in_pieces_and_by_other_intervals(values):
    parcels = []
    topology = Topology()
    topology.injector("in", ManualInjector())
    topology.computation("step", Computation(), {"in": lambda value: value[0]})
    router = Router(topology, {"step": IntervalMap.evenly(1)}, lambda interval, parcel: parcels.append(parcel))
    router.emit("in", Batch(values, list(range(len(values)))))
    router.close()
    whole, in_pieces, divided = Bundle(), Bundle(), Bundle()
    parcels[0].unpack(whole.keys)
    for _, data in parcels[0].pieces(limit=400):
        decode_block(data).unpack(in_pieces.keys)
    for parcel in decode_block(parcels[0].encode()).divided(IntervalMap.evenly(3)).values():
        parcel.unpack(divided.keys)
    assert _records(whole) == _records(in_pieces) == _records(divided)
    assert sorted(value for _, records in _records(whole).values() for value, *_ in records) == sorted(values)


@pytest.mark.parametrize("time", [10**30, -(10**30)])
def test_a_record_beyond_the_end_of_time_is_named_where_it_is_sent(time):
    says = (
        r"^step 'step' raised for key 'b' at \('b', 2\); .*\n.* on stream 'in' at -?1e\+24 seconds since 1970, beyond"
    )
    with pytest.raises(StepError, match=says):
        route([Batch([("a", 1), ("b", 2)], [0, time])], 1)


def test_records_with_ids_and_without_do_not_mix():
    (bundle,) = route([Batch([("a", 1)], [0], [b"one"]), Batch([("a", 2)], [1]), Batch([("a", 3)], [2], [b"two"])], 1)
    [(_, parts)] = bundle.keys.values()
    assert [(part.values, part.ids) for part in parts] == [
        ([("a", 1)], [b"one"]),
        ([("a", 2)], None),
        ([("a", 3)], [b"two"]),
    ]


def test_a_record_that_is_too_large_is_named():
    parcel = Block("to", "by")
    parcel.add(encode_key("key"), key_hash_of(encode_key("key")), [bytes(3000)], [1], None)
    says = r"^step 'to' raised for key 'key'; .*\n.* type bytes that arrived on stream 'by' has 3,\d+ .* of 2,000 "
    with pytest.raises(StepError, match=says) as told:
        list(parcel.pieces(1000, 2000))
    assert told.value.value is None
    assert len(list(parcel.pieces(1000))) == 1


def test_long_keys_are_not_remembered():
    topology = Topology()
    topology.injector("in", ManualInjector())
    topology.computation("to", Computation(), {"in": lambda value: value})
    places, shipped = KeyHashCache(), []
    router = Router(
        topology, {"to": IntervalMap.evenly(1)}, lambda interval, parcel: shipped.append(parcel), key_hashes=places
    )
    router.emit("in", Batch(["short", "long" * 1000], [1, 2]))
    router.close()
    assert sum(map(len, shipped)) == 2
    assert len(places) == 1


def test_what_is_remembered_of_keys_is_right_and_bounded_whatever_comes_in_between():
    places = KeyHashCache(most=10)
    for number in range(100):
        keys = ["often", number, f"{number}", encode_key((number % 7,))]
        encoded = [key if isinstance(key, bytes) else encode_key(key) for key in keys]
        assert places.of(keys) == [(data, key_hash_of(data)) for data in encoded]
        assert len(places) <= 10


@pytest.mark.parametrize("time", [10**30, -(10**30)])
def test_a_record_beyond_the_end_of_time_is_named(time):
    parcel = Block("to", "by")
    says = r"^step 'to' raised for key 'key' at 'late'; .*\n.* on stream 'by' at -?1e\+24 seconds since 1970, beyond"
    with pytest.raises(StepError, match=says):
        parcel.add(encode_key("key"), key_hash_of(encode_key("key")), ["fine", "late"], [1, time], None)
