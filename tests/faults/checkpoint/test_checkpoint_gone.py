"""A checkpoint that is removed, swapped or emptied under a run: the run stops and says so, and makes nothing anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.lowlevel import CheckpointError
from headrace.lowlevel.checkpoint.log.marker import ensure_marker
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage, ObjectStore, StoreError
from headrace.lowlevel.storage.signed_store import KEY_VARIABLE, SignedStore
from tests.faults.crashes.test_crash_at_every_step import FixedSize, Outside, attempt, reference

pytestmark = pytest.mark.faults

KEY = "a key that nobody can guess"


class At(FixedSize):
    """Something happens at a step of epoch 3."""

    def __init__(self, name: str, happens: Callable[[], object]) -> None:
        super().__init__(0)
        self._name, self._happens = name, happens
        self.epochs: list[int] = []

    def step(self, name: str, epoch: int) -> None:
        if name == "committed":
            self.epochs.append(epoch)
        if (name, epoch) == (self._name, 3):
            self._happens()


def removed(place: Path) -> None:
    shutil.rmtree(place)


def emptied(place: Path) -> None:
    """As when what was mounted there is mounted no longer."""
    shutil.rmtree(place)
    place.mkdir()


def without_marker(place: Path) -> None:
    (place / object_names.MARKER).unlink()


def another(place: Path) -> None:
    shutil.rmtree(place)
    ensure_marker(ObjectStore(place), "somebody else", 0)


@pytest.mark.parametrize(
    "step", ["plan", "run level 0 task 0", "saved level 1 task 1", "commit", "committed", "delivered"]
)
@pytest.mark.parametrize("gone", [removed, emptied, without_marker, another])
def test_a_run_whose_checkpoint_goes_stops_at_the_next_commit(
    tmp_path: Path, gone: Callable[[Path], None], step: str
) -> None:
    place = tmp_path / "checkpoint"
    scheduler = At(step, lambda: gone(place))
    with pytest.raises((CheckpointError, StoreError)) as told:
        attempt(Outside(), place, scheduler)
    last = 3 if step in ("committed", "delivered") else 2
    assert scheduler.epochs == list(range(1, last + 1))
    what = "was replaced by another one" if gone is another else "was removed"
    assert str(told.value).startswith(
        f"the checkpoint {place} {what} while the run was going on; nothing after epoch {last} is committed. Put it "
        "back as it was and start again; "
    )
    assert isinstance(told.value, CheckpointError)
    if gone is removed:
        assert not place.exists(), "it was made again"


@pytest.mark.parametrize("key", [None, KEY])
def test_an_empty_newest_entry_says_what_to_delete_and_the_run_goes_on_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    if key is not None:
        monkeypatch.setenv(KEY_VARIABLE, key)
    expected, _, steps = reference(tmp_path)
    behind = set()
    for step in range(2, steps, 5):
        outside, place = Outside(), tmp_path / f"at-{step}"
        attempt(outside, place, FixedSize(step, crash_at=step))
        store: ObjectStorage = ObjectStore(place) if key is None else SignedStore(ObjectStore(place), KEY)
        names = store.list(object_names.LOG)
        # As a file system leaves it that brings a name to the disk before the bytes.
        entry = place / object_names.log_entry(len(names) + 1)
        entry.parent.mkdir(exist_ok=True)
        entry.write_bytes(b"")
        with pytest.raises(CheckpointError) as told:
            attempt(outside, place, FixedSize(0))
        text = str(told.value)
        assert text.startswith(f"log/{entry.name} in {place} is damaged (it is empty); power was lost before")
        assert "no driver runs on the checkpoint, delete this file and start again: the run goes on " in text
        assert text.endswith("and nothing that was committed is lost")
        behind.add(text.partition("goes on ")[2].partition(",")[0])
        entry.unlink()
        attempt(outside, place, FixedSize(0))
        for sink in ("minutes", "highest"):
            assert outside.values(sink) == expected.values(sink)
    assert behind >= {"at the beginning", "behind epoch 1", "behind epoch 3"}


def test_a_torn_newest_entry_says_what_its_deletion_means(tmp_path: Path) -> None:
    outside, place = Outside(), tmp_path / "checkpoint"
    attempt(outside, place, FixedSize(0))
    newest = place / ObjectStore(place).list(object_names.LOG)[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    epoch = int(newest.name) - 1
    with pytest.raises(
        CheckpointError, match=rf"delete this newest entry .* behind epoch {epoch}, and repeats what was delivered"
    ):
        attempt(outside, place, FixedSize(0))


def test_an_empty_marker_of_a_checkpoint_that_never_began_may_be_deleted(tmp_path: Path) -> None:
    (tmp_path / object_names.MARKER).write_bytes(b"")
    with pytest.raises(CheckpointError, match="before any epoch was committed; delete the file and start again"):
        attempt(Outside(), tmp_path, FixedSize(0))
    (tmp_path / object_names.MARKER).unlink()
    attempt(Outside(), tmp_path, FixedSize(0))
    (tmp_path / object_names.MARKER).write_bytes(b"")
    with pytest.raises(CheckpointError, match="put an intact copy of the file there"):
        attempt(Outside(), tmp_path, FixedSize(0))
