"""The authority against a model that keeps a value for each place: owners, zombies, splits, merges, restarts."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from headrace.lowlevel.intervals.interval_map import SPACE
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Authority
from tests.depth import examples

PLACES = 64
"""The model's key space."""


class Piece(NamedTuple):
    """An interval between two places of the model."""

    number: int
    begin: int
    end: int

    @property
    def start(self) -> int:
        return self.begin * SPACE // PLACES

    @property
    def stop(self) -> int:
        return self.end * SPACE // PLACES


class Model:
    """What the paper says, place by place: a value and the greatest sequencer that was seen for it."""

    def __init__(self) -> None:
        self.values = [MIN_TIMESTAMP] * PLACES
        self.owners = [Sequencer(0, 0)] * PLACES
        self.pieces: dict[int, Piece] = {}

    def assign(self, pieces: list[Piece], sequencer: Sequencer) -> bool:
        if sequencer < max(self.owners):
            return False
        # An interval has one value: the least of what its keys had.
        self.values = [min(self.values[one.begin : one.end]) for one in pieces for _ in range(one.begin, one.end)]
        self.owners = [sequencer] * PLACES
        self.pieces = {one.number: one for one in pieces}
        return True

    def report(self, number: int, sequencer: Sequencer, value: int) -> bool:
        one = self.pieces.get(number)
        if one is None or sequencer < self.owners[one.begin]:
            return False
        for place in range(one.begin, one.end):
            self.values[place] = max(self.values[place], value)
            self.owners[place] = sequencer
        return True

    def by_number(self) -> dict[int, int]:
        return {number: self.values[one.begin] for number, one in self.pieces.items()}


class World:
    """Drives the authority and the model alike; owners that were replaced go on reporting."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.authority, self.model = Authority(), Model()
        self.now = Sequencer(1, 1)
        self.numbers = 0
        self.reported: list[tuple[int, Sequencer]] = []
        """Who ever owned something: they may come back as zombies."""
        self.zombies = self.refused = 0
        self.assign()

    def assign(self) -> None:
        """Split, merge or move: any other division of the key space, by the driver or by one that was replaced."""
        stale = bool(self.model.pieces) and self.dice.random() < 0.2
        if not stale:
            self.now = Sequencer(self.now.generation, self.now.epoch + 1)
        sequencer = self.earlier() if stale else self.now
        cuts = sorted(self.dice.sample(range(1, PLACES), self.dice.randrange(12)))
        pieces = []
        for begin, end in zip([0, *cuts], [*cuts, PLACES], strict=True):
            pieces.append(Piece(self.numbers, begin, end))
            self.numbers += 1
        before = self.authority.low_watermark("a")
        expected = self.model.assign(pieces, sequencer)
        self.refused += not expected
        assert self.authority.assign("a", pieces, sequencer) == expected
        assert self.authority.low_watermark("a") == before

    def earlier(self) -> Sequencer:
        """The sequencer of a driver or an epoch that is over."""
        return Sequencer(self.dice.randint(0, self.now.generation), self.dice.randint(0, self.now.epoch - 1))

    def report(self) -> None:
        number = self.dice.choice(list(self.model.pieces))
        self.reported.append((number, self.now))
        self.check_report(number, self.now)

    def zombie(self) -> None:
        """An owner that was replaced reports a watermark that is far ahead."""
        if not self.reported:
            return
        number, sequencer = self.dice.choice(self.reported)
        self.zombies += not self.check_report(number, sequencer, ahead=10**9)

    def check_report(self, number: int, sequencer: Sequencer, ahead: int = 0) -> bool:
        value = self.dice.randrange(10_000) + (ahead if self.is_stale(number, sequencer) else 0)
        expected = self.model.report(number, sequencer, value)
        self.refused += not expected
        if self.dice.random() < 0.5:
            assert self.authority.report("a", number, sequencer, value) == expected
        else:
            assert self.authority.report_all("a", [number], sequencer, [value]) == (not expected)
        return expected

    def is_stale(self, number: int, sequencer: Sequencer) -> bool:
        one = self.model.pieces.get(number)
        return one is None or sequencer < self.model.owners[one.begin]

    def epoch(self) -> None:
        """All intervals report in one go, in any order, some not at all."""
        self.now = Sequencer(self.now.generation, self.now.epoch + 1)
        numbers = [number for number in self.model.pieces if self.dice.random() < 0.9]
        self.dice.shuffle(numbers)
        values = [self.dice.randrange(10_000) for _ in numbers]
        for number, value in zip(numbers, values, strict=True):
            assert self.model.report(number, self.now, value)
            self.reported.append((number, self.now))
        assert self.authority.report_all("a", numbers, self.now, values) == 0

    def restart(self) -> None:
        """A new driver takes over from the journal; the old one's tasks become zombies."""
        self.now = Sequencer(self.now.generation + 1, self.now.epoch)
        self.model.owners = [self.now] * PLACES
        journal, refused = self.authority.journal(), self.authority.refused
        self.authority = Authority()
        self.authority.refused = refused
        self.authority.restore(journal, {"a": list(self.model.pieces.values())}, self.now)


@pytest.mark.parametrize("seed", range(examples(150, 3000)))
def test_authority_and_model_agree_whatever_zombies_report(seed):
    world = World(seed)
    reached = MIN_TIMESTAMP
    for _ in range(200):
        move = world.dice.choices(
            [World.report, World.zombie, World.epoch, World.assign, World.restart], [50, 25, 15, 8, 2]
        )[0]
        move(world)
        assert world.authority.values("a") == world.model.by_number(), f"seed {seed}"
        least = world.authority.low_watermark("a")
        assert least == min(world.model.values) >= reached, f"seed {seed}"
        assert least < 10**9, f"seed {seed}: a zombie moved the watermark"
        reached = least
    assert world.zombies > 5, f"seed {seed}: too few zombies were refused"
    assert world.authority.refused == world.refused
