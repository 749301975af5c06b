"""RELIABILITY row 3: drivers on one checkpoint, stopped and continued at any store operation.

Each driver keeps a trail in what it commits: which generation committed which epoch. However the drivers' operations
fall among each other, every epoch has one committer, the trail tells all of it, and all state is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from headrace.lowlevel.checkpoint import Checkpoint, Manifest
from headrace.lowlevel.errors import CheckpointError, FencedError
from headrace.lowlevel.storage.object_store import ObjectStorage
from tests.checkpoints import TOPOLOGY, check, step, take_snapshot
from tests.stores import DictStore, ScheduledStore, Scheduler

pytestmark = pytest.mark.faults

DRIVERS = 4


@dataclass
class Game:
    """What the drivers of one interleaving did."""

    seed: int
    inner: ObjectStorage = field(default_factory=DictStore)
    commits: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, generation) of each commit that a driver was told has happened."""
    fenced: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def play(self) -> None:
        scheduler = Scheduler(self.seed)
        stores = {f"driver{i}": ScheduledStore(self.inner, scheduler, f"driver{i}") for i in range(DRIVERS)}
        scheduler.run({name: lambda name=name, store=store: self._drive(name, store) for name, store in stores.items()})

    def _drive(self, name: str, store: ObjectStorage) -> None:
        try:
            for _ in range(2):
                self._once(name, store)
        except BaseException as failure:
            self.failures.append(failure)

    def _once(self, name: str, store: ObjectStorage) -> None:
        try:
            checkpoint = Checkpoint.open(store, name, TOPOLOGY, 1)
            for number in range(5):
                self._epoch(checkpoint, number)
        except FencedError as error:
            assert f"({name})" in str(error)
            self.fenced.append(str(error))

    def _epoch(self, checkpoint: Checkpoint, number: int) -> None:
        try:
            self._commit(checkpoint)
            if number % 2:
                checkpoint.collect_garbage()
        except CheckpointError:
            # Whoever reads state after having been replaced may miss what the successor has collected.
            checkpoint.ensure_driving()
            raise

    def _commit(self, checkpoint: Checkpoint) -> None:
        snapshots = [take_snapshot(checkpoint, checkpoint.store, (1, 0))] if checkpoint.next_epoch % 3 == 0 else []
        trail = {} if checkpoint.manifest is None else dict(checkpoint.manifest.counters["trail"])
        trail[str(checkpoint.next_epoch)] = checkpoint.generation
        written = step(_WithTrail(checkpoint, trail), checkpoint.store, snapshots, carries=True)
        self.commits.append((written.epoch, written.generation))


class _WithTrail:
    """A checkpoint that adds the trail to what is committed."""

    def __init__(self, checkpoint: Checkpoint, trail: dict[str, int]) -> None:
        self._checkpoint, self._trail = checkpoint, trail
        self.next_epoch, self.generation = checkpoint.next_epoch, checkpoint.generation

    def commit(self, manifest: Manifest, snapshots: object) -> Manifest:
        counters = {**manifest.counters, "trail": self._trail}
        return self._checkpoint.commit(replace(manifest, counters=counters), snapshots)


def judge(game: Game) -> None:
    assert not game.failures, f"seed {game.seed}: {game.failures}"
    view = Checkpoint.read(game.inner)
    assert view.manifest is not None
    epochs = [epoch for epoch, _ in game.commits]
    assert sorted(epochs) == list(range(1, len(epochs) + 1)), f"seed {game.seed}: {game.commits}"
    trail = {int(epoch): generation for epoch, generation in view.manifest.counters["trail"].items()}
    assert trail == dict(game.commits), f"seed {game.seed}"
    generations = [generation for _, generation in sorted(game.commits)]
    assert generations == sorted(generations), f"seed {game.seed}"
    view.manifest.counters.pop("trail")
    check(view, len(epochs))


@pytest.mark.parametrize("block", range(10))
def test_any_interleaving_gives_one_history(block: int) -> None:
    games = [Game(seed) for seed in range(block * 20, block * 20 + 20)]
    for game in games:
        game.play()
        judge(game)
    # The drivers did get into each other's way.
    assert any(game.fenced for game in games)
    assert any(len({generation for _, generation in game.commits}) > 1 for game in games)


def test_the_judge_sees_a_commit_that_was_lost() -> None:
    game = Game(0)
    store = game.inner
    game._once("a", store)
    game.commits.append((6, 1))
    with pytest.raises(AssertionError):
        judge(game)
