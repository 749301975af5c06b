"""Signed checkpoints: what is not signed with the key, under its own name, is refused before it is loaded."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.lowlevel import BoundedInjector, CallSink, Computation, Topology
from headrace.lowlevel.checkpoint import Checkpoint, CheckpointView
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore
from headrace.lowlevel.storage.signed_store import KEY_VARIABLE, SignedStore, carried, signed
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.checkpoints import TOPOLOGY, check, step, take_snapshot
from tests.stores import DictStore

KEY = "a key for the tests only"
OTHER = "some other key, as long"


def checkpoint_with(store: ObjectStorage) -> None:
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    step(checkpoint, store)
    step(checkpoint, store, [take_snapshot(checkpoint, store, (1, 0))])


def reopened(store: ObjectStorage) -> None:
    """Whatever reads a checkpoint: somebody who looks at all of it, and the next driver."""
    check(Checkpoint.read(store), 2)
    step(Checkpoint.open(store, "b", TOPOLOGY, 2), store)


def test_a_signed_checkpoint_is_used_like_any_other(store: ObjectStorage) -> None:
    with_key = SignedStore(store, KEY)
    checkpoint_with(with_key)
    reopened(with_key)
    check(Checkpoint.read(SignedStore(store, KEY.encode())), 3)


def test_the_key_is_nowhere_in_the_checkpoint_nor_in_what_is_shown() -> None:
    inner = DictStore()
    store = SignedStore(inner, KEY)
    checkpoint_with(store)
    place = store._key("x")
    for data in [*inner.objects.values(), repr(store).encode(), pickle.dumps(store)]:
        assert KEY.encode() not in data
        assert store._root not in data and place not in data
    assert KEY not in repr(RunOptions(checkpoint_key=KEY))


WRONG = {
    "no key for a signed checkpoint": (KEY, None, "headrace in dict:// is signed, and no key was given; give the one"),
    "a key for one without": (None, KEY, "headrace in dict:// is not signed, but a checkpoint key was given"),
    "another key": (KEY, OTHER, f"headrace in dict:// is signed with another key; give the one .* in {KEY_VARIABLE}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_key_is_refused_by_name_and_changes_nothing(case: str) -> None:
    made, given, message = WRONG[case]
    inner = DictStore()
    checkpoint_with(signed(inner, made))
    before = dict(inner.objects)
    for use in (Checkpoint.read, lambda store: Checkpoint.open(store, "b", TOPOLOGY, 2)):
        with pytest.raises(CheckpointError, match=rf"{message}.*Nothing of it was loaded"):
            use(signed(inner, given))
    assert inner.objects == before


@pytest.mark.parametrize("secret", ["", "too short", b"fifteen bytes.."])
def test_a_key_that_is_easily_guessed_is_refused(secret: str | bytes) -> None:
    with pytest.raises(CheckpointError, match=r"has \d+ bytes, and fewer than 16 are easily guessed; make one with"):
        SignedStore(DictStore(), secret)


class Exploit:
    """What a pickle can do to who loads it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.putenv, ("HEADRACE_TEST_EXPLOITED", "1")


def test_every_object_that_somebody_else_wrote_is_refused() -> None:
    inner = DictStore()
    store = SignedStore(inner, KEY)
    checkpoint_with(store)
    plans = Checkpoint.read(store).manifest.chains.values()
    needed = [object_names.MARKER, object_names.log_entry(2), *(path for plan in plans for path in plan.objects())]
    strangers = DictStore()
    checkpoint_with(SignedStore(strangers, KEY))
    refused = 0
    for path in needed:
        others = [other for other in inner.objects if other != path]
        forged = {
            "unsigned": inner.objects[path][48:],
            "by another key": SignedStore(DictStore(), OTHER)._signed(object_names.MARKER, inner.objects[path][48:]),
            "a pickle": pickle.dumps(Exploit()),
            "of another name": inner.objects[next(other for other in reversed(others) if other != object_names.MARKER)],
            "of another checkpoint with this key": strangers.objects.get(path, b""),
        }
        for what, data in forged.items():
            damaged = SignedStore(DictStore(inner.objects | {path: data}), KEY)
            try:
                check(Checkpoint.read(damaged), 2)
                # The markers of the two are the same: they were made by the same driver at the same time.
                assert what.startswith("of another checkpoint"), (path, what)
            except CheckpointError as error:
                assert f"{path} in dict://" in str(error), (path, what)
                assert "Nothing of it was loaded" in str(error), (path, what)
                refused += 1
    assert refused >= 4 * len(needed) > 16
    assert "HEADRACE_TEST_EXPLOITED" not in os.environ


def test_an_older_entry_under_a_newer_name_is_refused() -> None:
    inner = DictStore()
    checkpoint_with(SignedStore(inner, KEY))
    inner.objects[object_names.log_entry(2)] = inner.objects[object_names.log_entry(1)]
    with pytest.raises(CheckpointError, match=f"{object_names.log_entry(2)} in dict:// is damaged or forged"):
        Checkpoint.read(SignedStore(inner, KEY))


def test_objects_of_another_checkpoint_with_the_same_key_do_not_fit() -> None:
    one, other = DictStore(), DictStore()
    checkpoint_with(SignedStore(one, KEY))
    step(Checkpoint.open(SignedStore(other, KEY), "somebody else", TOPOLOGY, 99), SignedStore(other, KEY))
    last = one.list(object_names.LOG)[-1]
    one.objects[last] = other.objects[other.list(object_names.LOG)[-1]]
    with pytest.raises(CheckpointError, match=f"{last} in dict:// is signed with another key"):
        Checkpoint.read(SignedStore(one, KEY))


def test_the_key_travels_only_where_it_is_sent(tmp_path: Path) -> None:
    store = SignedStore(ObjectStore(tmp_path), KEY)
    checkpoint_with(store)
    without, with_key = pickle.dumps(store), pickle.dumps(carried(store))
    code = """
import pickle, sys
from headrace.lowlevel import CheckpointError
without, with_key = sys.stdin.buffer.read().split(b"<and>")
try:
    pickle.loads(without)
except CheckpointError as error:
    print(error)
print(pickle.loads(with_key).get("log/" + "1".zfill(20))[:8])
print(pickle.loads(without).get("log/" + "1".zfill(20))[:8])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=without + b"<and>" + with_key, capture_output=True, check=True
    )
    first, *rest = done.stdout.decode().splitlines()
    assert first.startswith("this process has not got the key of the signed checkpoint")
    assert rest == ["b'HEADRACE'"] * 2


def topology(rows: list[object]) -> Topology:
    class Count(Computation):
        def process_record(self, record: object, context: object) -> None:
            context.state = (context.state or 0) + 1
            context.produce("counts", context.state)

    made = Topology()
    made.injector("in", BoundedInjector([("a", n) for n in range(9)]))
    made.computation("count", Count(), {"in": lambda value: value}, ["counts"])
    made.sink("out", "counts", CallSink(lambda epoch, more: rows.extend(more)))
    return made


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_run_is_signed_by_option_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    rows: list[object] = []
    if way == "environment":
        monkeypatch.setenv(KEY_VARIABLE, KEY)
    options = RunOptions(str(tmp_path), checkpoint_key=KEY if way == "option" else None, max_records_per_epoch=2)
    LocalRunner().run_topology(topology(rows), options)
    assert len(rows) == 9
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(CheckpointError, match="is signed, and no key was given"):
        LocalRunner().run_topology(topology(rows), RunOptions(str(tmp_path)))
    with pytest.raises(CheckpointError, match="is signed, and no key was given"):
        CheckpointView.of(tmp_path)
    assert CheckpointView.of(tmp_path, checkpoint_key=KEY).manifest is not None
