"""What a checkpoint may hold besides its state: garbage is collected by its bytes, and at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lowlevel import BoundedInjector, CheckpointView, Computation, Topology
from headrace.lowlevel.checkpoint.files import snapshot
from headrace.lowlevel.checkpoint.log.commit_log import read_entry
from headrace.lowlevel.checkpoint.log.fence import Seal
from headrace.lowlevel.storage import object_names
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.runners import RunOptions
from headrace.runners.engine.driver import checkpoint_journal
from headrace.runners.local import LocalRunner

SMALL = 256 << 10
KEYS = 100


class Keep(Computation):
    """Keeps a kilobyte a key, or passes it to nobody."""

    def process_record(self, record, context):
        context.state = record.value[1]


def topology(epochs: int) -> Topology:
    made = Topology()
    rows = [((f"key {number % KEYS}", f"{number:01024}"), number) for number in range(KEYS * epochs)]
    made.injector("in", BoundedInjector(rows))
    made.computation("keep", Keep(), {"in": lambda value: value[0]})
    return made


def stored(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with states and changes of many megabytes."""
    monkeypatch.setattr(snapshot, "_SMALL_BYTES", SMALL)
    monkeypatch.setattr(checkpoint_journal, "_GARBAGE_BYTES", SMALL)


def test_garbage_is_at_most_as_large_as_the_state(small: None, tmp_path: Path) -> None:
    sizes: list[tuple[int, int]] = []

    def note(progress: object) -> None:
        needed = sum(file.size for file in CheckpointView.of(tmp_path).files())
        sizes.append((stored(tmp_path), needed))

    options = RunOptions(str(tmp_path), max_records_per_epoch=KEYS, progress=note, intervals=2)
    LocalRunner().run_topology(topology(60), options)
    epoch = KEYS * 1100
    # Of the state, the same as garbage, and as much again until it is deleted; besides, an epoch's changes and log.
    for total, needed in sizes:
        assert total <= needed + 2 * max(SMALL, needed) + 5 * epoch
    assert max(total for total, _ in sizes) < 60 * epoch / 4


def named(store: ObjectStorage) -> set[str]:
    """Objects that the last two commits need, and seals."""
    found: set[str] = set()
    places = [place for place in map(object_names.number_of, store.list(object_names.LOG)) if place]
    entries = {place: read_entry(store, place) for place in places}
    commits = [place for place in places if not isinstance(entries[place], Seal)]
    for place, entry in entries.items():
        if isinstance(entry, Seal) or place in commits[-2:]:
            found.add(object_names.log_entry(place))
        if place in commits[-2:] and entry is not None and not isinstance(entry, Seal):
            found |= {path for chain in entry.chains.values() for path in chain.objects()}
    return found


def test_a_finished_run_leaves_what_its_last_two_commits_need(small: None, tmp_path: Path) -> None:
    LocalRunner().run_topology(topology(19), RunOptions(str(tmp_path), max_records_per_epoch=KEYS, intervals=2))
    view = CheckpointView.of(tmp_path)
    assert view.manifest is not None and view.manifest.finished
    folders = (object_names.LOG, object_names.DELTAS, object_names.SNAPSHOTS, object_names.BLOBS)
    assert {path for folder in folders for path in view.store.list(folder)} == named(view.store)


def test_large_positions_are_garbage_two_epochs_later(small: None, tmp_path: Path) -> None:
    """A commit with small changes of state carries them, and has a bulk object: each is garbage soon."""

    class Large(BoundedInjector):
        def start(self) -> object:
            return (0, "x" * 70_000)

        def plan(self, position, limit, splits):
            number, text = position
            delivery = super().plan(number, limit, splits)
            return type(delivery)(delivery.splits, (delivery.position, text), done=delivery.done)

    made = Topology()
    made.injector("in", Large([(("a", str(number)), number) for number in range(90)]))
    made.computation("keep", Keep(), {"in": lambda value: value[0]})
    most = 0

    def note(progress: object) -> None:
        nonlocal most
        most = max(most, len(list((tmp_path / "blobs").iterdir())))

    LocalRunner().run_topology(made, RunOptions(str(tmp_path), max_records_per_epoch=1, progress=note))
    assert most <= 2 * SMALL // 70_000 + 4
    assert len(list((tmp_path / "blobs").iterdir())) == 2
