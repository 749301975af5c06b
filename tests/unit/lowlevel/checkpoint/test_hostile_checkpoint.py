"""Checkpoints in which somebody else wrote: names lead nowhere else, data is only data, and errors say which object."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, FileChain, Manifest, SnapshotOrder, SnapshotParts
from headrace.lowlevel.checkpoint.log.fence import SEAL_KIND
from headrace.lowlevel.checkpoint.manifest.manifest import FORMAT_VERSION, KIND, encode_manifest
from headrace.lowlevel.coders.coder import PLAIN, KeyCoder
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.envelope import unwrap, wrap
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore, StoreError
from headrace.lowlevel.storage.signed_store import signed
from headrace.runners.spark.dataframe.staged_rows import read_list
from headrace.runners.spark.statestore.store_cache import _folder_name, stores_root
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.text.text_writers import JsonWriter
from tests.checkpoints import TOPOLOGY, step
from tests.stores import DictStore

KEY = "a key for the tests only"
NOWHERE = ["..", ".", "a//b", "a/", "a\0b", "é", ""]
ELSEWHERE = ["../out", "a/../../out", "/etc/passwd", "C:\\out", "C:/out", "a\\..\\b", *NOWHERE]


@pytest.mark.parametrize("name", [name for name in ELSEWHERE if name])
def test_no_name_leads_out_of_a_store(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").write_bytes(b"secret")
    store = ObjectStore(tmp_path / "checkpoint")
    store.put("a/x", b"")
    uses: list[Callable[[], object]] = [
        lambda: store.get(name),
        lambda: store.put(name, b"mine"),
        lambda: store.put_if_absent(name, b"mine"),
        lambda: store.delete(name),
        lambda: store.list(name),
    ]
    for use in uses:
        with pytest.raises(StoreError, match="that is no name in a checkpoint"):
            use()
    assert (tmp_path / "out").read_bytes() == b"secret"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "checkpoint", "out", "x"]


@pytest.mark.parametrize("link", ["deltas", "deltas/1/x"])
def test_no_link_leads_out_of_a_store(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / "1").mkdir(parents=True)
    (outside / "1" / "x").write_bytes(b"secret")
    place = tmp_path / "checkpoint" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(outside if link == "deltas" else outside / "1" / "x")
    store = ObjectStore(tmp_path / "checkpoint")
    for use in (store.get, store.delete, lambda path: store.put(path, b"mine")):
        with pytest.raises(StoreError, match=rf"{place} is a symbolic link, and nothing in a checkpoint is"):
            use("deltas/1/x")
    assert (outside / "1" / "x").read_bytes() == b"secret"


def test_a_checkpoint_may_lie_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ObjectStore(tmp_path / "link").put("a", b"1")
    assert (tmp_path / "real" / "a").read_bytes() == b"1"


# Manifests


def committed(store: ObjectStorage) -> Manifest:
    """The last commit of a checkpoint of one epoch."""
    step(Checkpoint.open(store, "a", TOPOLOGY, 1), store)
    manifest = Checkpoint.read(store).manifest
    assert manifest is not None
    return manifest


def plan(delta: str) -> Callable[[Manifest], Manifest]:
    return lambda manifest: replace(
        manifest, chains={**manifest.chains, (1, 0): FileChain(1, 0, deltas=(delta,), replay_bytes=9)}
    )


def snapshot(token: str, level: object = 1) -> Callable[[Manifest], Manifest]:
    order = SnapshotOrder(level, 0, 1, "", 1, token)
    made = FileChain(level, 0, snapshot=SnapshotParts(order, (("count", 1),), 9))
    return lambda manifest: replace(manifest, chains={**manifest.chains, (1, 0): made})


def at_level(level: object) -> Callable[[Manifest], Manifest]:
    made = FileChain(level, 0, deltas=("1-t1-9",), replay_bytes=9)
    return lambda manifest: replace(manifest, chains={**manifest.chains, (1, 0): made})


NAMES: dict[str, Callable[[Manifest], Manifest]] = {
    **{f"delta's token {name!r}": plan(f"1-{name}-9") for name in ELSEWHERE},
    **{f"snapshot's token {name!r}": snapshot(name) for name in ELSEWHERE},
    **{f"level {name!r}": at_level(name) for name in ELSEWHERE},
    **{f"snapshot's level {name!r}": snapshot("t", name) for name in ELSEWHERE},
}


@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_commit_that_names_what_lies_elsewhere_is_refused(name: str, key: str | None) -> None:
    store = signed(DictStore(), key)
    hostile = NAMES[name](committed(store))
    path = object_names.log_entry(1)
    store.put(path, encode_manifest(hostile, object_names.blobs(1, 1)).entry)
    for use in (Checkpoint.read, lambda store: Checkpoint.open(store, "b", TOPOLOGY, 2)):
        with pytest.raises(
            CheckpointError, match=f"{path} in dict:// is whole but says what this release does not write"
        ):
            use(store)


@pytest.mark.parametrize("name", [*ELSEWHERE, "log/1", 7, ["blobs"]])
def test_a_commit_whose_bulk_lies_elsewhere_is_refused(name: object) -> None:
    store = DictStore()
    committed(store)
    path = object_names.log_entry(1)
    head, *rest = unwrap(KIND, FORMAT_VERSION, store.objects[path], path)
    content = json.loads(bytes(head)) | {"blobs": name}
    store.put(path, wrap(KIND, FORMAT_VERSION, [json.dumps(content).encode(), *rest]))
    with pytest.raises(CheckpointError, match=f"{path} in dict:// is whole but says what this release does not write"):
        Checkpoint.read(store)


NAMELESS = b'{"lease": [1, 2, 3], "base": "x"}'
HEADS = [b"", b"{}", b"[]", b"7", b"null", b"\xff", b'{"lease": 1}', NAMELESS, b"[" * 99_999]


@pytest.mark.parametrize("kind", [KIND, SEAL_KIND])
@pytest.mark.parametrize("head", HEADS, ids=[head[:20].hex() for head in HEADS])
def test_a_whole_entry_of_nonsense_is_refused(kind: str, head: bytes) -> None:
    store = DictStore()
    committed(store)
    path = object_names.log_entry(2)
    store.put(path, wrap(kind, FORMAT_VERSION if kind == KIND else 1, [head, b"[[], []]", b"[]"]))
    with pytest.raises(CheckpointError, match=f"{path} in dict://"):
        Checkpoint.read(store)


@pytest.mark.parametrize("line", [b"", b"{}\n", b"7\n", b'{"kind": "commit", "version": 2, "sizes": [-1, 1]}\n'])
def test_a_whole_envelope_of_nonsense_is_refused(line: bytes) -> None:
    from headrace.lowlevel.storage.envelope import MAGIC, _sum

    data = bytes(24) + line
    with pytest.raises(CheckpointError, match="note is whole but says what this release does not write"):
        unwrap("commit", 2, MAGIC + _sum(data) + line, "note")


# Values


class Trap:
    """Would be found by its name."""

    sprung: ClassVar[list[object]] = []

    def __init__(self, *values: object) -> None:
        self.sprung.append(values)


@pytest.mark.parametrize("kind", [b"C", b"D", b"E", b"G", b"K"])
@pytest.mark.parametrize("name", ["os:system", "builtins:exec", f"{__name__}:Trap"])
def test_a_key_calls_nothing_but_classes_of_keys(kind: bytes, name: str) -> None:
    keys = KeyCoder()
    body = keys.encode((name, f"touch {Path(__file__).parent}/sprung"))
    with pytest.raises(CheckpointError, match=f"{name} is named as the class of a key but is not one"):
        keys.decode(kind + body)
    assert not Trap.sprung


@pytest.mark.parametrize("kind", [b"C", b"D", b"E", b"G", b"K", b"N", b"o"])
def test_a_position_names_no_class_at_any_depth(kind: bytes) -> None:
    inner = kind + KeyCoder().encode(("os:system", "true"))
    nested = b"L" + b"t1:%d:%b" % (len(inner), inner)
    for data in (inner, nested):
        with pytest.raises(CheckpointError, match="names a class where only plain values belong"):
            PLAIN.decode(data)


def test_a_position_that_is_no_plain_value_is_refused_with_its_injector(tmp_path: Path) -> None:
    from headrace.lowlevel import BoundedInjector, Topology
    from headrace.runners.engine.options import RunOptions
    from headrace.runners.local import LocalRunner

    class Odd(BoundedInjector):
        def plan(self, position: object, limit: int, splits: int) -> object:
            return replace(super().plan(0, limit, splits), position=Trap)

    topology = Topology()
    topology.injector("odd", Odd([("a", 1)]))
    with pytest.raises(TypeError, match=r"position of source 'odd' cannot be committed: .* no plain value; use None"):
        LocalRunner().run_topology(topology, RunOptions(str(tmp_path)))


# Files outside of the checkpoint that its contents name


@pytest.mark.parametrize(
    "name", [*ELSEWHERE, "part-000001-0-t/../../../out", "part-000002-0-t.txt", "other-000001-0-t.txt", 7, None]
)
def test_a_receipt_moves_no_other_file(tmp_path: Path, name: object) -> None:
    (tmp_path / "out").write_text("secret")
    sink = EpochFileSink(tmp_path / "results" / "part", ".txt", JsonWriter("auto"))
    receipt = {"place": [f"{tmp_path}/results/part", ".txt"], "parts": [[name, 1, "", None]], "replaced": []}
    with pytest.raises(CheckpointError, match=r"has a receipt of .*begin with 'part-000001-'.*Nothing was moved"):
        sink.deliver(1, [json.dumps(receipt).encode()])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["out"]


@pytest.mark.parametrize("name", [*ELSEWHERE, "log/1"])
def test_a_list_of_rows_names_nothing_else(name: str) -> None:
    store = DictStore({"sources/x/list": json.dumps([[name, 1]]).encode()})
    with pytest.raises(
        CheckpointError, match="sources/x/list in dict:// is whole but says what this release does not write"
    ):
        read_list(store, "sources/x/list")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_copy_of_state_lies_in_its_folder(tmp_path: Path, name: str) -> None:
    folder = _folder_name(name)
    assert (tmp_path / folder).resolve().parent == tmp_path.resolve()
    assert folder not in (".", "..") and "\0" not in folder
    assert len({_folder_name(other) for other in ELSEWHERE}) == len(ELSEWHERE)


@pytest.mark.parametrize("mode", [0o707, 0o777])
def test_state_stores_go_to_no_folder_that_others_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    root = tmp_path / "state-stores"
    root.mkdir()
    root.chmod(mode)
    monkeypatch.setenv("HEADRACE_STATE_STORES", str(root))
    with pytest.raises(CheckpointError, match=f"would go to {root}, which another user owns or everybody can write to"):
        stores_root()
    root.chmod(0o755)
    assert stores_root().parent == root
    assert os.listdir(root) == []
