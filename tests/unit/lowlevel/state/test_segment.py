"""Segments by themselves, in snapshots, and as a listing shows them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import CheckpointError, CheckpointView, StoredLine
from headrace.lowlevel.checkpoint import (
    Checkpoint,
    DeltaHeader,
    FileChain,
    Manifest,
    SnapshotOrder,
    write_deltas,
    write_snapshot,
)
from headrace.lowlevel.checkpoint.files.file_chain import Origin
from headrace.lowlevel.coders.coder import STANDARD_KEYS, key_hash_of
from headrace.lowlevel.intervals.interval_map import SPACE, key_position
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.segment import ENCODED, decode, encode, restricted
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.storage.signed_store import signed
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from tests.checkpoints import INTERVALS, TOPOLOGY
from tests.stores import DictStore

ROW = pa.binary(16)
edges = st.sampled_from([0, 1, 1 << 63, SPACE - 1, SPACE]) | st.integers(0, SPACE)
rows = st.binary(min_size=16, max_size=16) | edges.map(lambda place: min(place, SPACE - 1).to_bytes(8, "big") * 2)


def batch_of(its: list[bytes], **columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"row": pa.array(its, ROW), **columns})


def test_any_types_and_all_metadata_are_kept() -> None:
    columns = [
        pa.array([bytes(16), b"r" * 16], ROW),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([[1, 2], None]),
        pa.array([{"x": 1.5}, {"x": None}]),
        pa.array([b"", b"large"], pa.large_binary()),
    ]
    names = ["row", *"abcd"]
    fields = [pa.field(name, column.type, metadata={"n": name}) for name, column in zip(names, columns, strict=True)]
    batch = pa.record_batch(columns, pa.schema(fields, {"what": "all"}))
    found = decode(memoryview(encode(batch)))
    assert found.equals(batch, check_metadata=True)
    assert decode(encode(batch.slice(1))).equals(batch.slice(1))
    part = restricted(encode(batch), 1, SPACE)
    assert part is not None and decode(part).equals(batch.slice(1), check_metadata=True)


@pytest.mark.parametrize(
    "batch",
    [
        pa.RecordBatch.from_pydict({}),
        pa.RecordBatch.from_pydict({"key": [1], "row": pa.array([bytes(16)], ROW)}),
        pa.RecordBatch.from_pydict({"row": [b"r" * 16]}),
        batch_of([bytes(16), None]),
    ],
    ids=["nothing", "elsewhere", "of any length", "a null"],
)
def test_a_batch_that_does_not_say_whose_its_lines_are(batch: pa.RecordBatch) -> None:
    refused = pytest.raises(ValueError, match=r"first column must be 'row' of type fixed_size_binary\[16\] without")
    with refused:
        encode(batch)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    with refused:
        decode(sink.getvalue().to_pybytes())


@given(st.lists(rows, max_size=20), edges, edges)
def test_lines_of_an_interval(its: list[bytes], one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    if start == stop:
        return
    batch = batch_of(its, n=pa.array(range(len(its)), pa.int64()))
    inside = [n for n, row in enumerate(its) if start <= key_position(row) < stop]
    part = restricted(encode(batch), start, stop)
    assert (part is None) == (not inside)
    assert part is None or decode(part).equals(batch.take(pa.array(inside, pa.int64())))


def test_a_segment_that_is_whole_is_not_made_again() -> None:
    contents = encode(batch_of([bytes(16), b"\xff" * 16]))
    assert restricted(contents, 0, SPACE) is contents


@pytest.mark.parametrize("kind", ["memory", "LMDB"])
def test_a_snapshot_holds_them_in_parts_of_bounded_size(tmp_path: Path, kind: str) -> None:
    """Also where every object is signed."""
    copy: StateStore = MemoryStateStore() if kind == "memory" else LmdbStateStore(tmp_path)
    big = {b"%d" % n * (1 + 600 * (n == 3)): encode(batch_of([b"r" * 16], n=[bytes(5 << 20)])) for n in range(5)}
    copy.apply(Delta(cells={(b"r" * 16, b""): b"1"}, keys={b"r" * 16: b"key"}, segments=dict(big)))
    objects = DictStore()
    store = signed(objects, "a secret of more than sixteen bytes")
    Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    snapshot = write_snapshot(store, SnapshotOrder(1, 0, 1, "", 1, "s"), {"sums": copy})
    assert max(map(len, objects.objects.values())) < 11 << 20
    found = FileChain(1, 0, snapshot=snapshot).load(store)["sums"]
    assert {name: found.segment(name) for name in found.segment_names()} == big
    assert found.count() == copy.count() == {"keys": 1, "cells": 1, "marks": 0, "ids": 0, "segments": 5}


def test_what_is_no_segment_is_told_with_its_file() -> None:
    store = DictStore()
    file = write_deltas(store, DeltaHeader(1, 1, 0, "t"), {"sums": Delta(segments={b"1": b"nonsense"})})
    origin = Origin(FileChain(1, 0).with_delta(file))
    with pytest.raises(CheckpointError, match=r"0/1-t-\d+ in dict:// is whole but says what this release does not"):
        FileChain(1, 1, 0, 1 << 63, origins=(origin,)).load(store)


def committed(store: DictStore, deltas: dict[int, Delta]) -> CheckpointView:
    """A view of a checkpoint with one epoch, of deltas by interval of the computation `count`."""
    checkpoint = Checkpoint.open(store, "host", TOPOLOGY, now_us=0)
    files = {(1, n): write_deltas(store, DeltaHeader(1, 1, n, "t"), {"count": delta}) for n, delta in deltas.items()}
    checkpoint.commit(Manifest(epoch=1, wall_clock=0, intervals=INTERVALS, deltas=files))
    return CheckpointView.of(store)


def test_a_listing_says_what_segments_hold_by_key() -> None:
    keys: list[object] = [*(("t", n) for n in range(4)), *"abcd"]
    encoded = [STANDARD_KEYS.encode(key) for key in keys]
    by_interval: dict[int, list[int]] = {0: [], 1: []}
    for n, key in enumerate(encoded):
        by_interval[INTERVALS[1].of(key_hash_of(key)).number].append(n)
    deltas = {interval: Delta() for interval in by_interval}
    for interval, its in by_interval.items():
        for known in (False, True):
            mine = [n for n in its if isinstance(keys[n], str) == known]
            field = pa.field("key", pa.string()) if known else pa.field("key", pa.large_binary(), metadata=ENCODED)
            schema = pa.schema([("row", ROW), field, ("end", pa.int64())])
            columns = [[key_hash_of(encoded[n]) for n in mine], [(keys if known else encoded)[n] for n in mine], mine]
            arrays = [pa.array(values, of.type) for values, of in zip(columns, schema, strict=True)]
            deltas[interval].segments[b"%d" % known] = encode(pa.record_batch(arrays, schema))
    view = committed(DictStore(), deltas)
    expected = [StoredLine("count", key, {"end": n}) for n, key in enumerate(keys)]
    assert sorted(view.lines("count"), key=lambda line: str(line.columns)) == expected
    assert view.count_lines("count") == 8
    for line in expected:
        assert view.lines_of("count", line.key) == [line]
    assert view.lines_of("count", "nobody") == []
    assert view.load("count").count()["segments"] == 4, "names are those of their intervals"


def test_lines_without_keys_are_listed_by_row() -> None:
    view = committed(DictStore(), {0: Delta(segments={b"1": encode(batch_of([bytes(16)], n=[7])), b"2": None})})
    assert list(view.lines("count")) == [StoredLine("count", bytes(16), {"n": 7})]


def test_nonsense_in_a_segment_is_named_when_it_is_listed() -> None:
    view = committed(DictStore(), {0: Delta(segments={b"1": b"nonsense"})})
    with pytest.raises(CheckpointError, match=r"segment b'1' of 'count' in dict:// is whole but says"):
        list(view.lines("count"))
