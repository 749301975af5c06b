"""The state store on LMDB equals the one in memory: same answers, whoever applies what, whoever dies meanwhile."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import FEW_BYTES, FEW_CELLS, Delta, StateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.spark.statestore import store_cache
from headrace.runners.spark.statestore.disk_full import StateDiskError, naming_full_disk
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.runners.spark.statestore.store_cache import StoreCache, advance, sweep

KEYS = [encode_key(f"key {i}") for i in range(4)]
ROWS = [key_hash_of(key) for key in KEYS]
# Around LMDB's limit of 511 bytes, where names that agree in their first 495 bytes are told apart by a hash.
CELLS = [b"", b"a", b"ab", b"b\xff"]
CELLS += [b"n" * size + end for size in (400, 478, 479, 494, 495, 600) for end in (b"", b"x", b"\xff")]
TAGS = [
    "",
    "t",
    "tt",
    "é",
    "\ud800",
    *("m" * size + end for size in (470, 485, 486, 493, 494, 495, 700) for end in ("", "y")),
]
TIMES = [MIN_TIMESTAMP, -1, 0, 1, 10**15, MAX_TIMESTAMP]
IDS = [b"id", b"id2", b"i" * 502, b"i" * 503, b"i" * 504, b"i" * 511, b"i" * 900]
SEGMENTS = [b"s", b"s1", *(b"s" * size + end for size in (494, 495, 510, 511, 700) for end in (b"", b"\0", b"t"))]
DOMAINS = (0, 1, 2)

times = st.sampled_from(TIMES) | st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP)
deltas = st.builds(
    Delta,
    keys=st.dictionaries(st.sampled_from(ROWS), st.just(b"")).map(lambda rows: {r: KEYS[ROWS.index(r)] for r in rows}),
    cells=st.dictionaries(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(CELLS)), st.none() | st.binary(max_size=20), max_size=12
    ),
    marks=st.dictionaries(
        st.tuples(st.sampled_from(ROWS), st.sampled_from(DOMAINS), st.sampled_from(TAGS)),
        st.none() | times,
        max_size=12,
    ),
    ids=st.dictionaries(st.sampled_from(IDS), times),
    forget_ids_before=st.none() | times,
    segments=st.dictionaries(st.sampled_from(SEGMENTS), st.none() | st.binary(max_size=20), max_size=6),
)


def picture(store: StateStore) -> dict[str, object]:
    """Everything that a store answers."""
    return {
        "keys": [store.key(row) for row in ROWS],
        "keys of": store.keys_of(ROWS),
        "states of": store.states_of(ROWS),
        "cells": [store.get(row, cell) for row in ROWS for cell in CELLS],
        "scans": [list(store.scan(row, prefix)) for row in ROWS for prefix in (*CELLS, b"nn")],
        "mark": [store.mark(row, domain, tag) for row in ROWS for domain in DOMAINS for tag in TAGS],
        "marks": [sorted(store.marks(row)) for row in ROWS],
        "until": [list(store.until(domain, limit)) for domain in DOMAINS for limit in TIMES],
        "due": [list(store.due(domain, limit).marks()) for domain in DOMAINS for limit in TIMES],
        "ids": [store.knows_id(record_id) for record_id in IDS],
        "segment names": store.segment_names(),
        "segments": [store.segment(name) for name in SEGMENTS],
        "count": store.count(),
    }


def store_of(pieces: Iterator[Delta]) -> MemoryStateStore:
    store = MemoryStateStore()
    for piece in pieces:
        store.apply(piece)
    return store


class AgainstMemory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store"
        self.store = LmdbStateStore(self.path)
        self.model = MemoryStateStore()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(delta=deltas)
    def apply(self, delta: Delta) -> None:
        self.store.apply(delta)
        self.model.apply(delta)

    @rule(delta=deltas)
    def extend(self, delta: Delta) -> None:
        assert not self.store.extend("elsewhere", "x", lambda: [delta])
        here = self.store.position
        assert self.store.extend(here, here + "x", lambda: [delta])
        self.model.apply(delta)

    @rule(delta=deltas)
    def start_anew(self, delta: Delta) -> None:
        self.store.extend(self.store.position, "anew", lambda: [delta], clear=True)
        self.model = store_of(iter([delta]))

    @invariant()
    def size(self) -> None:
        pieces = list(self.model.dump())
        named = [(cell, data) for piece in pieces for (_, cell), data in piece.cells.items()]
        named += [entry for piece in pieces for entry in piece.segments.items()]
        assert self.model.size() == sum(len(name) + len(data or b"") for name, data in named)

    @precondition(lambda self: self.model.count()["cells"])
    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = LmdbStateStore(self.path)

    @invariant()
    def same_answers(self) -> None:
        assert picture(self.store) == picture(self.model)

    @invariant()
    def cells_read_together_are_those_of_a_scan(self) -> None:
        for store in (self.store, self.model):
            together = store.cells_of(ROWS)
            for row, cells in together.items():
                assert sorted(cells.items()) == list(store.scan(row, b""))
            for row in ROWS:
                plain = all(len(cell) <= 400 for cell, _ in store.scan(row, b""))
                assert row in together or not plain, "few cells with short names are never left out"

    @invariant()
    def dump_is_everything(self) -> None:
        assert picture(store_of(self.store.dump())) == picture(self.model)


AgainstMemory.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestAgainstMemory = AgainstMemory.TestCase


def load(step: int, keys: int = 50) -> Delta:
    """What step `step` of a chain changes: every second row is emptied again later."""
    delta = Delta()
    for i in range(keys):
        row = key_hash_of(b"%d" % i)
        delta.keys[row] = b"%d" % i
        gone = i % 2 == 0 and step % 3 == 2
        delta.cells[row, b""] = None if gone else b"%d " % step * 20
        delta.marks[row, 0, "t"] = None if gone else step * 1000 + i
    delta.ids = {b"%d-%d" % (step, i): step for i in range(keys)}
    delta.forget_ids_before = step - 2
    return delta


def read(name: str) -> list[Delta]:
    return [load(int(name))]


def expected(steps: int) -> dict[str, object]:
    return contents(store_of(load(step) for step in range(steps)))


def contents(store: StateStore) -> dict[str, object]:
    rows = [key_hash_of(b"%d" % i) for i in range(50)]
    cells = [(store.key(row), store.get(row, b""), store.mark(row, 0, "t")) for row in rows]
    return {"cells": cells, "due": list(store.until(0, MAX_TIMESTAMP)), "count": store.count()}


def chain(steps: int) -> list[str]:
    return [str(step) for step in range(steps)]


def test_a_copy_holds_more_than_its_map(tmp_path: Path) -> None:
    store, model = LmdbStateStore(tmp_path, map_size=1 << 16), MemoryStateStore()
    for step in range(3):
        store.apply(load(step, 3000))
        model.apply(load(step, 3000))
    assert contents(store) == contents(model)


def grow(path: str, steps: int) -> None:
    store = LmdbStateStore(Path(path), map_size=1 << 16)
    for step in range(steps):
        store.extend(str(step), str(step + 1), lambda step=step: [load(step, 300)])


def test_copies_that_other_processes_extend(tmp_path: Path) -> None:
    """Three processes with small maps extend a store and read it; each sees what the others have added."""
    store = LmdbStateStore(tmp_path, map_size=1 << 16)
    store.extend("", "0", tuple)
    growing = [multiprocessing.get_context("spawn").Process(target=grow, args=(str(tmp_path), 12)) for _ in range(2)]
    for process in growing:
        process.start()
    seen = 0
    while any(process.is_alive() for process in growing):
        seen = max(seen, int(store.refresh()))
        assert store.count()["keys"] >= (150 if seen else 0)
    assert [process.exitcode for process in growing] == [0, 0] and store.refresh() == "12"
    model = MemoryStateStore()
    for step in range(12):
        model.apply(load(step, 300))
    assert contents(store) == contents(model)


def rebuild(path: str, name: str, rounds: int) -> None:
    """Bring a store to the end of a chain, again and again; reading a file takes a while."""

    def read(file: str) -> list[Delta]:
        time.sleep(0.002)
        return [load(int(file[1:]), 20)]

    store, names = LmdbStateStore(Path(path)), [f"{name}{step}" for step in range(20)]
    for _ in range(rounds):
        advance(store, names, read)
        assert store.position == names[-1] and store.count()["keys"] > 0
        store.release()


def test_attempts_with_different_chains_do_not_clear_a_store_in_turns_without_end(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    attempts = [spawn.Process(target=rebuild, args=(str(tmp_path), name, 5)) for name in "ab"]
    for attempt in attempts:
        attempt.start()
    for attempt in attempts:
        attempt.join(timeout=60)
    hanging = [attempt for attempt in attempts if attempt.is_alive()]
    for attempt in hanging:
        attempt.kill()
    assert not hanging and [attempt.exitcode for attempt in attempts] == [0, 0]


LIMITED = """
import resource, sys
from pathlib import Path
from headrace.lowlevel.coders.coder import key_hash_of
from headrace.lowlevel.state.state_store import Delta
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore

def mapped():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

folder, room, count = Path(sys.argv[1]), int(sys.argv[2]) << 20, int(sys.argv[3])
limit = mapped() + room
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
stores = [LmdbStateStore(folder / str(number)) for number in range(count)]
for store in stores:
    store.apply(Delta(cells={(key_hash_of(b"%d" % number), b""): bytes(100) for number in range(100)}))
assert all(store.count()["cells"] == 100 for store in stores)
"""


def in_little_room(folder: Path, mib: int, stores: int) -> subprocess.CompletedProcess[str]:
    """Open and write stores in a process that may map so much more than it has mapped at its start."""
    arguments = [sys.executable, "-c", LIMITED, str(folder), str(mib), str(stores)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the size of the address space, and its limit")
def test_a_limit_of_the_address_space_leaves_room_for_many_stores(tmp_path: Path) -> None:
    done = in_little_room(tmp_path, 1024, 16)
    assert done.returncode == 0, done.stderr
    failed = in_little_room(tmp_path / "other", 100, 16)
    assert "MemoryError: no address space is left for the 32 MiB of the state store " in failed.stderr
    assert "raise spark.executor.pyspark.memory, or leave it unset, and start again" in failed.stderr


def test_snapshots_are_cut_into_pieces(tmp_path: Path) -> None:
    store = LmdbStateStore(tmp_path)
    store.apply(load(0, 25_000))
    pieces = list(store.dump())
    assert max(len(piece.cells) + len(piece.marks) + len(piece.ids) for piece in pieces) <= 20_000
    assert store_of(iter(pieces)).count() == store.count()


def test_big_values_cut_pieces_too(tmp_path: Path) -> None:
    store = LmdbStateStore(tmp_path)
    store.apply(Delta(cells={(key_hash_of(b"%d" % i), b""): bytes(3 << 20) for i in range(6)}))
    assert len(list(store.dump())) == 2


@pytest.mark.parametrize("kind", ["memory", "LMDB"])
def test_big_segments_come_in_several_pieces(tmp_path: Path, kind: str) -> None:
    store = MemoryStateStore() if kind == "memory" else LmdbStateStore(tmp_path)
    store.apply(Delta(segments={b"%d" % i: bytes(3 << 20) for i in range(6)}))
    pieces = [list(piece.segments) for piece in store.dump() if piece.segments]
    assert pieces == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    assert store.size() >= 18 << 20


def test_the_size_of_a_copy_needs_no_look_through_it(tmp_path: Path) -> None:
    store, model = LmdbStateStore(tmp_path), MemoryStateStore()
    assert (store.size(), model.size()) == (0, 0)
    cells = {(key_hash_of(b"%d" % i), b"cell"): bytes(5000) for i in range(1000)}
    for each in (store, model):
        each.apply(Delta(cells=dict(cells)))
    assert model.size() == 1000 * 5004
    assert model.size() < store.size() < 2 * model.size(), "whole pages"
    for each in (store, model):
        each.apply(Delta(cells=dict.fromkeys(cells)))
    assert (store.size(), model.size()) == (0, 0)


def test_rows_with_many_or_large_cells_are_not_read_whole(tmp_path: Path) -> None:
    many = {(ROWS[0], b"%d" % i): b"" for i in range(FEW_CELLS + 1)}
    large = {(ROWS[1], b"%d" % i): bytes(FEW_BYTES // 2 + 1) for i in range(2)}
    few = {(ROWS[2], b"%d" % i): bytes(FEW_BYTES // FEW_CELLS) for i in range(FEW_CELLS)}
    for store in (LmdbStateStore(tmp_path), MemoryStateStore()):
        store.apply(Delta(cells={**many, **large, **few}))
        assert sorted(store.cells_of(ROWS)) == sorted(ROWS[2:])
        assert len(store.cells_of(ROWS)[ROWS[2]]) == FEW_CELLS
        assert store.cells_of(ROWS)[ROWS[3]] == {}


def test_a_released_copy_is_not_read(tmp_path: Path) -> None:
    store = LmdbStateStore(tmp_path)
    store.release()
    with pytest.raises(RuntimeError, match="call refresh"):
        store.get(ROWS[0], b"")


@given(st.lists(st.integers(0, 8), min_size=1, max_size=8), st.integers(0, 8))
@settings(max_examples=25)
def test_advance_leads_from_anywhere_to_the_chains_end(stops: list[int], start: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LmdbStateStore(Path(folder))
        for stop in stops:
            advance(store, chain(stop), read)
            assert contents(store) == expected(stop), f"after {stops} at {stop}"
        # A chain that begins with a snapshot of the first steps, and goes on as before.
        snapshot = list(store_of(load(step) for step in range(start)).dump())
        advance(store, ["snapshot", "100"], lambda name: snapshot if name == "snapshot" else [load(start)])
        assert contents(store) == expected(start + 1)


def test_advance_reads_only_what_is_missing(tmp_path: Path) -> None:
    store, asked = LmdbStateStore(tmp_path), []

    def spy(name: str) -> list[Delta]:
        asked.append(name)
        return read(name)

    advance(store, chain(5), spy)
    advance(store, chain(7), spy)
    advance(store, chain(7), spy)
    assert asked == chain(7)


def test_an_unreadable_delta_changes_nothing(tmp_path: Path) -> None:
    store = LmdbStateStore(tmp_path)
    advance(store, chain(3), read)

    def broken(name: str) -> Iterator[Delta]:
        yield load(3)
        raise CheckpointError("gone")

    with pytest.raises(CheckpointError, match="gone"):
        advance(store, chain(4), broken)
    store.refresh()
    assert store.position == "2"
    assert contents(store) == expected(3)


def walk(folder: str, seed: int, failures: multiprocessing.Queue[str]) -> None:
    """One of several processes that bring the same store forward, some behind the others."""
    chance = random.Random(seed)
    stores = StoreCache("run", Path(folder))
    steps = 0
    while steps < 40:
        steps += chance.randrange(1, 4)
        with stores.lease("count", "0") as store:
            advance(store, chain(steps), read)
            time.sleep(chance.random() * 0.01)
            if contents(store) != expected(steps):
                failures.put(f"process {seed} saw something else at {steps}")
    failures.put("done")


def test_processes_share_a_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    outcome: multiprocessing.Queue[str] = context.Queue()
    walkers = [context.Process(target=walk, args=(str(tmp_path), seed, outcome)) for seed in range(3)]
    for walker in walkers:
        walker.start()
    assert [outcome.get(timeout=60) for _ in walkers] == ["done"] * 3
    for walker in walkers:
        walker.join()


def stop_in_the_middle(folder: str, reached: multiprocessing.Queue[int], reading: bool) -> None:
    store = LmdbStateStore(Path(folder))
    if reading:
        reached.put(os.getpid())
        time.sleep(60)

    def slowly() -> Iterator[Delta]:
        yield load(3, 5000)
        reached.put(os.getpid())
        time.sleep(60)

    store.extend("2", "3", slowly)


@pytest.mark.parametrize("reading", [False, True], ids=["writer", "reader"])
def test_a_process_killed_with_the_store_open_harms_nobody(tmp_path: Path, reading: bool) -> None:
    store = LmdbStateStore(tmp_path)
    advance(store, chain(3), read)
    context = multiprocessing.get_context("spawn")
    reached: multiprocessing.Queue[int] = context.Queue()
    victim = context.Process(target=stop_in_the_middle, args=(str(tmp_path), reached, reading))
    victim.start()
    os.kill(reached.get(timeout=60), signal.SIGKILL)
    victim.join()
    assert store.refresh() == "2"
    assert contents(store) == expected(3)
    for steps in range(4, 61):
        advance(store, chain(steps), read)
    assert contents(store) == expected(60)
    # The dead reader's view would keep the pages of all these steps from being used again.
    assert (tmp_path / "data.mdb").stat().st_size < 1 << 20


def test_a_damaged_store_is_made_again(tmp_path: Path) -> None:
    stores = StoreCache("run", tmp_path)
    with stores.lease("count", "0") as store:
        advance(store, chain(3), read)
        file = store.path / "data.mdb"
    stores.close()
    file.write_bytes(b"\x00garbage" * 2000)
    with stores.lease("count", "0") as store:
        assert store.position == ""
        advance(store, chain(3), read)
        assert contents(store) == expected(3)


def test_a_store_of_another_layout_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = StoreCache("run", tmp_path)
    with stores.lease("count", "0") as store:
        advance(store, chain(3), read)
    stores.close()
    monkeypatch.setattr("headrace.runners.spark.statestore.lmdb_store._LAYOUT", b"another")
    with stores.lease("count", "0") as store:
        assert store.position == ""


def test_few_stores_are_open_at_once(tmp_path: Path) -> None:
    stores = StoreCache("run", tmp_path, limit=3)
    for interval in [*range(6), *range(6)]:
        with stores.lease("count", str(interval)) as store:
            advance(store, chain(interval), read)
            assert contents(store) == expected(interval)
    assert len(stores._open) == 3
    stores.discard()
    assert not any(tmp_path.iterdir())


def test_runs_and_computations_do_not_meet(tmp_path: Path) -> None:
    names = ["a", "a/b", "a b", "A", "..", "", "x" * 300, "ä"]
    paths = set()
    for run in names:
        for computation in names:
            with StoreCache(run, tmp_path).lease(computation, "0") as store:
                assert store.position == ""
                store.extend("", "1", lambda: [load(1)])
                paths.add(store.path)
    assert len(paths) == len(names) ** 2
    assert all(tmp_path in path.parents for path in paths)


EARLIER_BOOT = "0123456789ab"


def test_sweep_takes_what_no_run_will_use(tmp_path: Path) -> None:
    root = tmp_path / "boot"
    with StoreCache("old", root).lease("c", "0") as old, StoreCache("new", root).lease("c", "0"):
        os.utime(old.path / "data.mdb", (0, 0))
        os.utime(root / next(p.name for p in root.iterdir() if p.name.startswith("old")), (0, 0))
    (tmp_path / EARLIER_BOOT / "run").mkdir(parents=True)
    sweep(root)
    assert [path.name for path in tmp_path.iterdir()] == ["boot"]
    assert [path.name[:3] for path in root.iterdir()] == ["new"]


def test_sweep_leaves_what_is_not_ours(tmp_path: Path) -> None:
    for name in ("photographs", f"{EARLIER_BOOT}.backup", "blockmgr-f3184c67-0ff4-4b84-8330-1107c791308c"):
        (tmp_path / name / "run").mkdir(parents=True)
    before = sorted(tmp_path.iterdir())
    sweep(tmp_path / "boot")
    assert sorted(tmp_path.iterdir()) == before


def test_where_starts_have_no_names_another_process_keeps_its_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_cache, "boot_id", lambda: "")
    root, old, other = tmp_path / "boot", tmp_path / EARLIER_BOOT, tmp_path / "0123456789ac"
    with StoreCache("old", old).lease("c", "0") as store, StoreCache("other", other).lease("c", "0"):
        for path in (store.path / "data.mdb", old):
            os.utime(path, (0, 0))
    sweep(root)
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


def test_sweep_passes_over_a_run_that_ends_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "boot"
    monkeypatch.setattr(store_cache, "_folders", lambda parent: [root / "ended"] if parent == root else [])
    sweep(root)


def test_a_root_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store_cache.ROOT_VARIABLE, str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CheckpointError, match="set HEADRACE_STATE_STORES"):
        store_cache.stores_root()


@pytest.mark.parametrize("at_once", [1, 7, 20_000])
def test_many_due_timers_are_those_of_the_reference(tmp_path: Path, at_once: int) -> None:
    """They are read part by part, and equal neighbours become one object: so many, a tag and a timestamp each."""
    rows = [key_hash_of(b"%d" % number) for number in range(50)]
    marks = {(rows[n % 50], 0, f"tag {n // 50}"): n // at_once - 9 for n in range(20_000)}
    store, reference = LmdbStateStore(tmp_path), MemoryStateStore()
    for each in (store, reference):
        each.apply(Delta(keys={row: row for row in rows}, marks=dict(marks)))
    for limit in (-10, 100, MAX_TIMESTAMP):
        assert list(store.due(0, limit).marks()) == list(reference.due(0, limit).marks())
    store.close()


def test_the_lock_file_has_its_blocks_on_a_system_that_cannot_reserve_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    store = LmdbStateStore(tmp_path / "store")
    lock = tmp_path / "store" / "lock.mdb"
    assert lock.stat().st_blocks * 512 >= lock.stat().st_size >= 64 << 10
    assert sorted(path.name for path in lock.parent.iterdir()) == ["data.mdb", "lock.mdb"]
    store.close()


def test_a_lock_file_without_its_blocks_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(before: object, after: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(
        StateDiskError, match=r"cannot write the state store .*/store: .*no space left on device.*; free"
    ):
        LmdbStateStore(tmp_path / "store")
    assert not list((tmp_path / "store").iterdir())


def test_a_write_that_the_disk_takes_only_in_part(tmp_path: Path) -> None:
    """As the last bytes of a disk do: LMDB then says no more than that output failed."""
    said = r"/gone/store: mdb_txn_commit: input/output error; free some space there \([1-9][0-9,]* bytes are free\)"
    with pytest.raises(StateDiskError, match=said), naming_full_disk(tmp_path / "gone" / "store"):
        raise lmdb.Error("mdb_txn_commit: Input/output error")
