"""What a worker process keeps between tasks, and what it gives back."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from headrace.lowlevel.checkpoint import FileChain
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.intervals.interval_map import Interval
from headrace.lowlevel.records.block import Block
from headrace.lowlevel.state.state_store import Delta
from headrace.runners.engine.messages import MessageKind, Sender, pack, unpack
from headrace.runners.engine.task.exchange import Inbox, OutgoingBlocks
from headrace.runners.spark.jobs import stage_function as level_module
from headrace.runners.spark.jobs.stage_function import batches_of
from headrace.runners.spark.memory import Trim, own_bytes
from headrace.runners.spark.statestore import lmdb_store
from headrace.runners.spark.statestore.lmdb_store import LmdbStateStore
from headrace.runners.spark.statestore.store_cache import ROOT_VARIABLE
from headrace.runners.spark.worker import host as host_module
from headrace.runners.spark.worker.host import SparkHost
from tests.stores import DictStore

KEY = encode_key("key")
ROW = key_hash_of(KEY)


class Counted(DictStore):
    """Notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, path: str) -> bytes | None:
        self.read.append(path)
        return super().get(path)


class Levels:
    """A host that runs two levels, of one interval each, in turn."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
        self.store = Counted()
        self.host = SparkHost(self.store, "run")
        self.chains = {level: FileChain(level, 0) for level in (1, 2)}

    def task(self, level: int, epoch: int) -> bytes | None:
        """The state that a task sees; it writes the number of its epoch."""
        self.host.begin(0)
        stores = {
            name: self.host.state_store(name, level, 0, epoch, self.chains[level])
            for name in (f"a{level}", f"b{level}")
        }
        found = stores[f"a{level}"].get(ROW, b"")
        assert stores[f"b{level}"].get(ROW, b"") is None
        delta = Delta(keys={ROW: KEY}, cells={(ROW, b""): b"%d" % epoch})
        file = self.host.save(epoch, Sender(level, 0, self.host.token()), 0, {f"a{level}": delta})
        list(self.host.finish([]))
        assert file is not None
        self.chains[level] = self.chains[level].with_delta(file)
        return found


def test_a_delta_is_kept_until_its_store_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next task needs no file, on either level; what it has taken in is no longer in memory."""
    levels = Levels(tmp_path, monkeypatch)
    found = [[levels.task(level, epoch) for level in (1, 2)] for epoch in (1, 2, 3)]
    assert found == [[None, None], [b"1", b"1"], [b"2", b"2"]]
    assert levels.store.read == []
    levels.host.begin(0)
    levels.host.state_store("a1", 1, 0, 4, levels.chains[1])
    list(levels.host.finish([]))
    kept = {place: list(saved.deltas.values()) for place, saved in levels.host._last_deltas.items()}
    assert kept[1, 0] == [None]
    assert kept[2, 0] != [None]


def test_a_large_delta_is_kept_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores of both computations of the level get their own deltas, and no file is read."""
    monkeypatch.setattr(host_module, "_FEW_BYTES", 1)
    levels = Levels(tmp_path, monkeypatch)
    assert levels.task(1, 1) is None
    [kept] = levels.host._last_deltas[1, 0].deltas.values()
    assert isinstance(kept, bytes)
    assert [levels.task(1, epoch) for epoch in (2, 3)] == [b"1", b"2"]
    assert levels.store.read == []


def test_a_delta_that_is_gone_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may be lost after the delta was applied to it."""
    levels = Levels(tmp_path, monkeypatch)
    for epoch in (1, 2):
        levels.task(1, epoch)
    for again in range(2):
        levels.host.begin(again and 2)
        assert levels.host.state_store("a1", 1, 0, 3, levels.chains[1]).get(ROW, b"") == b"2"
        list(levels.host.finish([]))
    assert len(levels.store.read) == 2, "both, as the store was made again"


def test_parcels_leave_the_inbox_one_by_one() -> None:
    """Each as it is decoded, in order of senders and numbers, and only those of the interval."""
    inbox = Inbox()
    for number, interval in ((1, 0), (0, 1), (2, 0), (0, 0)):
        parcel = Block("step", f"{interval}.{number}")
        inbox.take((0, 1, MessageKind.BLOCK, pack((Sender(0, 0, "t"), number, interval, parcel.encode()))))
    taken = inbox.take_blocks(0)
    assert [next(taken).stream for _ in range(3)] == ["0.0", "0.1", "0.2"]
    assert next(taken, None) is None
    assert [parcel.stream for parcel in inbox.take_blocks(1)] == ["1.0"]
    assert list(inbox.take_blocks(0)) == []


def test_parcels_leave_a_task_one_by_one() -> None:
    """Each is let go as it leaves, in the order in which they were sent."""
    outgoing, sender = object.__new__(OutgoingBlocks), Sender(0, 0, "token")
    outgoing._sent = [(Interval(7, 0, 1), 1, b"parcel %d" % number) for number in range(4)]
    rows = outgoing.messages(sender)
    assert unpack(next(rows)[3]) == (sender, 0, 7, b"parcel 0")
    assert [parcel for *_, parcel in outgoing._sent] == [b"parcel 3", b"parcel 2", b"parcel 1"]
    assert [unpack(blob)[1] for *_, blob in rows] == [1, 2, 3]


def test_batches_are_as_large_as_they_need_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch leaves as soon as it has its bytes, before the next row is made."""
    monkeypatch.setattr(level_module, "_BATCH_BYTES", 8)
    made: list[int] = []
    rows = ((made.append(number) or number, 1, 2, bytes(5)) for number in range(6))
    batches = batches_of(rows)
    assert [(next(batches).num_rows, len(made)) for _ in range(3)] == [(2, 2), (2, 4), (2, 6)]


def test_a_store_lets_go_of_the_pages_that_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By opening its environment anew after many changes; what it shows stays."""
    monkeypatch.setattr(lmdb_store, "_MANY_CHANGES", 3)
    store = LmdbStateStore(tmp_path)
    opened = store._env
    store.apply(Delta(keys={ROW: KEY}, cells={(ROW, b"%d" % n): b"few" for n in range(3)}))
    assert store._env is opened
    store.apply(Delta(cells={(ROW, b"%d" % n): b"many" for n in range(4)}))
    assert store._env is not opened
    assert [cell for _, cell in store.scan(ROW, b"")] == [b"many"] * 4
    store.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other C libraries have no malloc_trim")
def test_freed_memory_goes_back() -> None:
    """Blocks below one that stays are what the C library would keep."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("not glibc")
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    trim = Trim()
    trim.task_ends()
    blocks = []
    for _ in range(12_000):
        blocks.append(libc.malloc(10_000))
        ctypes.memset(ctypes.c_void_p(blocks[-1]), 1, 10_000)
    for block in blocks[:-1]:
        libc.free(block)
    grown = own_bytes()
    trim.task_ends()
    assert own_bytes() < grown - (80 << 20)
    libc.free(blocks[-1])
