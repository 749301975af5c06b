"""The checkpoint on an S3 server over HTTP: races, servers that fail, answers that are lost, crashes at every step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStore, StoreError
from tests.checkpoints import TOPOLOGY, check, step
from tests.depth import faults
from tests.faults.checkpoint.test_checkpoint_crash import CRASHES, Run, recovered
from tests.faults.checkpoint.test_checkpoint_drivers import Game, judge
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside, attempt, exact, reference
from tests.faults.tally import Tally
from tests.s3 import S3
from tests.stores import CrashError, DictStore, FaultyStore

pytestmark = pytest.mark.faults

Begin = Callable[[int], Tally]
WRITERS = 50
COMMIT_2 = object_names.log_entry(2)


def test_of_fifty_racing_writers_exactly_one_gets_each_name(s3: S3) -> None:
    place = s3.new_place()
    stores = [ObjectStore(place) for _ in range(WRITERS)]
    for name in [f"log/{number}" for number in range(faults(quick=5, full=100))]:
        start = threading.Barrier(WRITERS)
        won: list[int] = []

        def write(writer: int, name: str = name, start: threading.Barrier = start, won: list[int] = won) -> None:
            start.wait()
            if stores[writer].put_if_absent(name, b"%d " % writer * 500):
                won.append(writer)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert stores[0].get(name) == b"%d " % won[0] * 500


# A server that fails


def test_an_unreachable_server_is_named(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        store = ObjectStore("s3://bucket/place", patience=0.2)
        for use in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: store.list("a"), store.is_empty):
            with pytest.raises(StoreError, match=rf"s3://bucket/place.*{url}/bucket"):
                use()


def test_plain_http_only_if_asked_for(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreError, match=rf"{s3.url}.*set AWS_ALLOW_HTTP=true"):
        ObjectStore(s3.new_place()).get("a")


def test_a_bucket_that_is_not_there_is_named(s3: S3) -> None:
    with pytest.raises(StoreError, match=r"(?s)s3://nobodys/place/a.*NoSuchBucket"):
        ObjectStore("s3://nobodys/place").put("a", b"")


@pytest.mark.parametrize("mode", ["error", "error-after"])
def test_passing_errors_are_tried_again(s3: S3, tally: Begin, mode: str) -> None:
    run = tally(1)
    run.plan(3)
    store = ObjectStore(s3.new_place())
    s3.fail({"method": "PUT", "path": "/log/", "mode": mode, "times": 3})
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    step(checkpoint, store)
    run.fire(*s3.fired())
    check(Checkpoint.read(store), 1)
    assert store.list(object_names.LOG) == [object_names.log_entry(1)]


ALWAYS = 10**6


@pytest.mark.parametrize("times", [1, ALWAYS])
def test_a_commit_whose_answer_is_lost_has_happened(s3: S3, tally: Begin, times: int) -> None:
    run = tally(1)
    checkpoint, store = begun(s3, 0.5)
    run.plan()
    s3.fail({"method": "PUT", "path": COMMIT_2, "mode": "lost", "times": times})
    step(checkpoint, store)
    run.fire(s3.fired()[0] > 0)
    check(Checkpoint.read(store), 2)
    step(checkpoint, store)
    check(Checkpoint.read(store), 3)


def test_a_commit_of_which_nothing_is_heard_may_have_happened(s3: S3, tally: Begin) -> None:
    run = tally(1)
    checkpoint, store = begun(s3, 0.5)
    run.plan(2)
    lost = [{"method": method, "path": COMMIT_2, "mode": "lost", "times": ALWAYS} for method in ("PUT", "GET")]
    s3.fail(*lost)
    step_in_doubt(checkpoint, store)
    run.fire(sum(fired > 0 for fired in s3.fired()))
    s3.fail()
    check(Checkpoint.read(store), 2)
    again = Checkpoint.open(store, "b", TOPOLOGY, 2)
    step(again, store)
    check(Checkpoint.read(store), 3)


def begun(s3: S3, patience: float) -> tuple[Checkpoint, ObjectStore]:
    """A checkpoint with one epoch, on a store that waits so many seconds."""
    store = ObjectStore(s3.new_place(), patience=patience)
    checkpoint = Checkpoint.open(store, "a", TOPOLOGY, 1)
    step(checkpoint, store)
    return checkpoint, store


def step_in_doubt(checkpoint: Checkpoint, store: ObjectStore) -> None:
    with pytest.raises(StoreError, match=r"whether epoch 2 is committed is not known: run again to find out"):
        step(checkpoint, store)
    with pytest.raises(StoreError, match="an earlier commit failed and may or may not be in the log"):
        step(checkpoint, store)


def test_a_commit_that_never_arrives_has_not_happened(s3: S3, tally: Begin) -> None:
    run = tally(1)
    checkpoint, store = begun(s3, 0.5)
    s3.fail({"method": "PUT", "path": COMMIT_2, "mode": "error", "times": ALWAYS})
    run.plan()
    step_in_doubt(checkpoint, store)
    run.fire(s3.fired()[0] >= 2)
    s3.fail()
    check(Checkpoint.read(store), 1)
    again = Checkpoint.open(store, "b", TOPOLOGY, 2)
    step(again, store)
    check(Checkpoint.read(store), 2)


def test_a_slow_answer_to_a_commit_is_not_waited_for_for_ever(s3: S3, tally: Begin) -> None:
    run = tally(1)
    checkpoint, store = begun(s3, 0.6)
    run.plan()
    s3.fail({"method": "PUT", "path": COMMIT_2, "mode": "slow", "seconds": 2.0, "times": 1})
    step(checkpoint, store)
    run.fire(*s3.fired())
    # It was tried again while the first attempt was still on its way, which later finds the name taken.
    check(Checkpoint.read(store), 2)
    step(checkpoint, store)
    check(Checkpoint.read(store), 3)


def test_a_store_without_conditional_writes_is_refused() -> None:
    class Forgetful(DictStore):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            self.put(path, data)
            return True

    with pytest.raises(CheckpointError, match=r"dict:// does not know conditional writes .*give .* another store"):
        Checkpoint.open(Forgetful(), "a", TOPOLOGY, 1)


# Crashes


def test_a_crash_at_any_operation_leaves_the_epoch_before_or_the_one_after(s3: S3, tally: Begin) -> None:
    run = tally(1)
    some = CRASHES[:: -(-len(CRASHES) // faults(quick=12, full=len(CRASHES)))]
    for at, after in some:
        store = ObjectStore(s3.new_place())
        life = Run(FaultyStore(store, at, after))
        run.plan()
        with pytest.raises(CrashError):
            life()
        run.fire()
        assert recovered(store) in (life.committed, life.committed + 1)
        Run(store)()
        assert recovered(store) == 5


def test_any_interleaving_of_drivers_gives_one_history(s3: S3, tally: Begin) -> None:
    run = tally(3)
    for seed in run.seeds(quick=3, full=50):
        game = Game(seed, ObjectStore(s3.new_place()))
        run.plan()
        game.play()
        judge(game)
        # A driver was told that another one has taken over.
        run.fire(bool(game.fenced))


def test_a_run_that_crashes_at_every_step(s3: S3, tally: Begin, tmp_path) -> None:
    run = tally(1)
    expected, result, steps = reference(tmp_path)
    for step_ in range(1, steps + 1, -(-steps // faults(quick=6, full=steps))):
        outside, place = Outside(), s3.new_place()
        run.plan()
        assert attempt(outside, place, FixedSize(step_, crash_at=step_)) is None
        run.fire()
        again = attempt(outside, place, FixedSize(step_ + 1))
        for sink in ("minutes", "highest"):
            run.compare(expected.values(sink), outside.values(sink), f"{sink} after a crash at step {step_}")
        assert exact(again) == exact(result), f"crash at step {step_}"
