"""Taking an interval over: pending timers and productions are scanned from what is committed, none lost, in order.

The paper's soft state (§6.2, figure 12) is a heap of timers and a queue of productions in memory. Ours are ordered
tables of a host's state store and a part of the commit, so a new owner without a store must come to the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.lowlevel import BoundedInjector, Computation, Context, Timer, Topology
from headrace.lowlevel.checkpoint import DeltaHeader, FileChain, SnapshotOrder, write_deltas, write_snapshot
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.timer import HOLD, TimeDomain
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.driver.checkpoint_journal import open_checkpoint
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal, JournalState
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash
from headrace.runners.local.executor import LocalExecutor
from headrace.runners.spark.statestore.store_cache import ROOT_VARIABLE
from headrace.runners.spark.worker.host import SparkHost
from tests.stores import DictStore
from tests.unit.lowlevel.checkpoint.inspection.test_checkpoint_view import Round, StopAfter, Visits, key_of

KEYS = [encode_key(f"key {number}") for number in range(6)]


class Fired(Computation):
    """Puts out what fires, in order."""

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("fired", (context.key, timer.tag, int(timer.domain)))


def timers(dice: Random, epoch: int) -> Delta:
    """Timers and holds set, moved and taken away; several at the same instant."""
    delta = Delta()
    for _ in range(dice.randrange(8)):
        key = dice.choice(KEYS)
        delta.keys[key_hash_of(key)] = key
        mark = (key_hash_of(key), dice.choice([*map(int, TimeDomain), HOLD]), dice.choice("xyz"))
        delta.marks[mark] = dice.choice([None, epoch * 10 + dice.randrange(30), 500])
    return delta


def pending(store: StateStore) -> list[object]:
    """Timers and holds as a new owner scans them, and what fires when everything is due."""
    fired: list[object] = []

    def emit(stream: str, batch: Batch) -> None:
        fired.extend(batch.rows())

    node = Keyed("step", Fired(), {"in": str}, frozenset({"fired"}))
    commit = Worker(node, store, emit).run(Bundle(watermark=1000, wall_time=1000))
    scans = [list(store.until(domain, MAX_TIMESTAMP)) for domain in (*map(int, TimeDomain), HOLD)]
    return [scans, fired, commit]


@given(st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_host_without_a_store_has_the_same_timers_in_order(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice, store, chain = Random(seed), DictStore(), FileChain(1, 0)
    folder = tmp_path_factory.mktemp("hosts")

    def host(name: str) -> SparkHost:
        monkeypatch.setenv(ROOT_VARIABLE, str(folder / name))
        return SparkHost(store, "run")

    def look(at: SparkHost, epoch: int) -> list[object]:
        at.begin(0)
        seen = pending(at.state_store("step", 1, 0, epoch, chain))
        list(at.finish([]))
        return seen

    owner, reference = host("owner"), MemoryStateStore()
    for epoch in range(1, 12):
        delta = timers(dice, epoch)
        reference.apply(delta)
        chain = chain.with_delta(write_deltas(store, DeltaHeader(epoch, 1, 0, "t"), {"step": delta}))
        if dice.random() < 0.2:
            order = SnapshotOrder(1, 0, epoch, chain.last, 1, f"s{epoch}")
            chain = chain.on(write_snapshot(store, order, chain.load(store)))
        seen = look(owner, epoch + 1)
        assert seen == pending(reference), "the owner"
    assert look(host("new"), 12) == seen, "a host that never had it"
    shutil.rmtree(folder / "owner")
    assert not (folder / "owner").exists()
    assert look(host("owner"), 12) == seen, "a host whose store was deleted"


class Noting:
    """A journal that notes what its driver commits."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.committed: JournalState | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)

    def commit(self, state: JournalState, *rest: object) -> None:
        self._journal.commit(state, *rest)
        self.committed = state


def test_a_new_driver_has_the_same_productions_on_their_way(tmp_path: Path) -> None:
    """In the same order, with the same bytes."""
    made = Topology()
    made.injector("in", BoundedInjector([(f"page {number}", number) for number in range(12)], max_delay=5))
    made.computation("visits", Visits(), {"in": key_of}, ["round"])
    made.computation("round", Round(), {"round": key_of, "again": key_of}, ["again"])
    clock, scheduler = ManualClock(), StopAfter(4)
    journal, store = open_checkpoint(str(tmp_path), made, clock, "the owner")
    noting = Noting(journal)
    executor = LocalExecutor(made, 1, scheduler, store, journal.generation, clock)
    with pytest.raises(Crash):
        Driver(made, executor, noting, clock, RunOptions(intervals=3), scheduler).run()
    journal, _ = open_checkpoint(str(tmp_path), made, ManualClock(), "a new owner")
    recovered = journal.recover()
    assert recovered is not None and noting.committed is not None
    assert recovered.pending == noting.committed.pending
    assert len(recovered.pending) > 1, "something was on its way"
