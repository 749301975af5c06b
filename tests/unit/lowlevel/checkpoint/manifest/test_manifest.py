from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.checkpoint import (
    Archived,
    DeltaFile,
    FileChain,
    Fingerprint,
    Manifest,
    PendingProduction,
    SnapshotOrder,
    SnapshotParts,
)
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.checkpoint.manifest.fingerprint import Member
from headrace.lowlevel.checkpoint.manifest.manifest import BLOBS_KIND, FORMAT_VERSION, KIND, encode_manifest
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.injectors.injector import BoundedInjector
from headrace.lowlevel.intervals.interval_map import IntervalMap
from headrace.lowlevel.sinks.sink import CallSink
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.envelope import unwrap, wrap
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.computation import Computation, InlineComputation
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.authority import Holder
from tests.stores import DictStore

PATH = "log/00000000000000000007"
names = st.text(max_size=6)
times = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 5)
tokens = st.text("abc012", min_size=1, max_size=4)
by_name = st.dictionaries(names, times, max_size=3)
by_interval = st.dictionaries(names, st.dictionaries(small, times, max_size=3), max_size=3)
files = st.builds(DeltaFile, small, tokens, small, st.binary(max_size=9))


@st.composite
def plans(draw: st.DrawFn) -> dict[tuple[int, int], FileChain]:
    made = {}
    for place in draw(st.sets(st.tuples(small, small), max_size=3)):
        plan = FileChain(*place)
        for file in draw(st.lists(files, max_size=4)):
            plan = plan.with_delta(file)
        if plan.last and draw(st.booleans()):
            order = SnapshotOrder(*place, 3, draw(st.sampled_from(plan.names)), 1, draw(tokens))
            plan = plan.on(
                SnapshotParts(order, tuple(draw(st.lists(st.tuples(names, small), max_size=2))), draw(small))
            )
        made[place] = plan
    return made


signatures = st.lists(st.tuples(names, names), max_size=2).map(tuple)
members = st.builds(Member, names, names, names, st.tuples(names), st.tuples(names, names), signatures)
archived = st.builds(
    Archived,
    member=members,
    epoch=small,
    watermark=times,
    chains=plans().map(lambda found: tuple(found.values())),
    hold=st.none() | st.tuples(times, st.binary(), names),
    wall_timer=st.none() | times,
    position=st.binary(),
    greatest=times,
    ended=st.booleans(),
)
manifests = st.builds(
    Manifest,
    epoch=st.integers(1, 2**40),
    wall_clock=times,
    intervals=st.dictionaries(small, st.integers(1, 5).map(IntervalMap.evenly), max_size=2),
    positions=st.dictionaries(names, st.binary(), max_size=3),
    ended=st.frozensets(names, max_size=3),
    injector_watermarks=by_name,
    greatest_timestamps=by_name,
    lateness=by_interval,
    skew_limit=st.none() | st.floats(0, 1e9),
    input_watermarks=by_name,
    output_watermarks=st.dictionaries(names, st.binary(max_size=20), max_size=3),
    holds=by_interval,
    holders=st.dictionaries(names, st.builds(Holder, times, st.binary(), names), max_size=3),
    wall_timers=by_interval,
    deltas=st.dictionaries(st.tuples(small, small), st.none() | files, max_size=3),
    pending=st.lists(
        st.builds(PendingProduction, small, small, names, times, st.binary() | st.just(bytes(70_000))), max_size=3
    ).map(tuple),
    receipts=st.dictionaries(names, st.lists(st.binary(), max_size=3).map(tuple), max_size=3),
    counters=st.dictionaries(names, by_name, max_size=3),
    metrics=st.binary(),
    finished=st.booleans(),
    generation=small,
    owner=names,
    previous=small,
    topology=st.builds(Fingerprint, st.lists(members, max_size=3).map(tuple), st.tuples(st.tuples(names))),
    chains=plans(),
    archive=st.lists(archived, max_size=2).map(tuple),
    left=st.dictionaries(small, st.frozensets(names, max_size=2), max_size=2),
)


def written(manifest: Manifest) -> DictStore:
    encoded = encode_manifest(manifest, object_names.blobs(7, 1))
    return DictStore(
        {PATH: encoded.entry} | ({} if encoded.blobs is None else {object_names.blobs(7, 1): encoded.blobs})
    )


@given(manifests)
def test_every_field_comes_back(manifest: Manifest) -> None:
    assert read_entry(written(manifest), 7) == manifest


def test_every_field_is_tried() -> None:
    # So that a field that is added cannot be forgotten above.
    assert set(manifests.wrapped_strategy.kwargs) == {field.name for field in fields(Manifest)}


MANIFEST = Manifest(epoch=7, wall_clock=5, intervals={1: IntervalMap.evenly(2)}, counters={"count": {"late": 3}})


def test_an_entry_can_be_read_by_anything() -> None:
    head, topology, plans, archive, carried = unwrap(KIND, FORMAT_VERSION, encode_manifest(MANIFEST, "b").entry, "x")
    assert json.loads(bytes(head))["counters"] == {"count": {"late": 3}}
    assert json.loads(bytes(topology)) == [[], []]
    assert json.loads(bytes(plans)) == json.loads(bytes(archive)) == []
    assert unwrap("carried deltas", 1, bytes(carried), "x") == []


@pytest.mark.parametrize(("size", "apart"), [(64 * 1024, False), (64 * 1024 + 1, True)])
def test_much_bulk_lies_apart(size: int, apart: bool) -> None:
    manifest = replace(MANIFEST, receipts={"out": (bytes(size),)})
    store = written(manifest)
    assert (object_names.blobs(7, 1) in store.objects) == apart
    assert len(store.objects[PATH]) < 70_000
    assert read_entry(store, 7) == manifest


def test_bulk_that_is_missing_is_named() -> None:
    store = written(replace(MANIFEST, receipts={"out": (bytes(100_000),)}))
    store.delete(object_names.blobs(7, 1))
    with pytest.raises(
        CheckpointError, match=f"{object_names.blobs(7, 1)} in dict:// is missing, but the log names it"
    ):
        read_entry(store, 7)


def test_an_entry_of_a_later_release() -> None:
    store = DictStore({PATH: wrap(KIND, FORMAT_VERSION + 1, [b"who knows"])})
    with pytest.raises(
        CheckpointError,
        match=rf"{PATH} in dict:// has format version {FORMAT_VERSION + 1} of a commit.*reads version {FORMAT_VERSION}",
    ):
        read_entry(store, 7)


def test_another_kind_of_object() -> None:
    store = DictStore({PATH: wrap(BLOBS_KIND, FORMAT_VERSION, [])})
    with pytest.raises(CheckpointError, match=r"is a commit's bulk where a commit or seal belongs"):
        read_entry(store, 7)


class Count(Computation):
    pass


class Other(Computation):
    pass


def topology(
    computation: Computation | None = None, inputs: tuple[str, ...] = ("words",), sink: str = "out"
) -> Topology:
    made = Topology()
    made.injector("words", BoundedInjector([]))
    made.injector("more", BoundedInjector([]))
    made.computation("count", computation or Count(), dict.fromkeys(inputs, str), ["counts"])
    made.inline("split", InlineComputation(), ["counts"], ["parts"])
    made.sink(sink, "parts", CallSink(print))
    return made


def test_the_fingerprint_of_a_topology() -> None:
    fingerprint = Fingerprint.of(topology())
    signature = (
        ("class", "Count"),
        ("classes of keys", "by qualified name"),
        ("keys with coders", "none of the program's own"),
        ("state coder", "PickleCoder"),
    )
    assert Member("computation", "count", "Count", ("words",), ("counts",), signature) in fingerprint.members
    assert Member("inline computation", "split", "InlineComputation", ("counts",), ("parts",)) in fingerprint.members
    assert Member("sink", "out", "CallSink", ("parts",), ()) in fingerprint.members
    assert fingerprint.levels == (("count",),)
    assert fingerprint.differences(Fingerprint.of(topology())) == []


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        (
            topology(Other()),
            [
                "computation 'count' has class Other instead of Count",
                "computation 'count' is a Other instead of a Count",
            ],
        ),
        (topology(inputs=("more", "words")), ["computation 'count' has inputs more, words instead of words"]),
        (topology(sink="file"), ["sink 'file' is new", "sink 'out' is gone"]),
    ],
)
def test_what_changed_is_named(changed: Topology, differences: list[str]) -> None:
    assert Fingerprint.of(topology()).differences(Fingerprint.of(changed)) == differences


def test_levels_that_changed_although_no_member_did() -> None:
    before, after = Fingerprint((), (("a",), ("b",))), Fingerprint((), (("a", "b"),))
    assert before.differences(after) == ["computations by level are a, b instead of a | b"]


OVER = Manifest(
    epoch=2,
    wall_clock=5,
    intervals={1: IntervalMap.evenly(1)},
    positions={"in": b""},
    ended=frozenset(["in"]),
    input_watermarks={"count": MAX_TIMESTAMP},
    holds={"count": {0: 5}},
)


@pytest.mark.parametrize(
    "left",
    [
        {"ended": frozenset[str]()},
        {"pending": (PendingProduction(1, 0, "count", 5, b""),)},
        {"input_watermarks": {"count": 5}},
        # It holds for a timer that is to fire yet; alone, neither has anything to say any more.
        {"wall_timers": {"count": {0: 9}}},
    ],
)
def test_nothing_is_over_while_something_is_left(left: dict[str, Any]) -> None:
    assert OVER.is_over
    assert replace(OVER, holds={}, wall_timers={"count": {0: 9}}).is_over
    assert not replace(OVER, **left).is_over
