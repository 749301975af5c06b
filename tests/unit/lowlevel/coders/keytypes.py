"""Types of keys, at the top level of a module, where a worker finds them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

import headrace as beam
from headrace.coders import Coder


class Place(NamedTuple):
    city: str
    number: int


class Other(NamedTuple):
    city: str
    number: int


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Team:
    name: str
    founded: date | None = None
    rank: int = field(default=0, kw_only=True)
    members: frozenset[str] = frozenset()
    size: int = field(init=False, default=0)


@dataclass
class Loose:
    name: str


class Plain:
    """Nothing says how it is encoded."""


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    def __hash__(self) -> int:
        return hash((self.x, self.y))

    def __repr__(self) -> str:
        return f"Point({self.x}, {self.y})"


class PointCoder(Coder):
    def encode(self, value):
        return b"%d,%d" % (value.x, value.y)

    def decode(self, data):
        return Point(*map(int, data.split(b",")))

    def is_deterministic(self):
        return True


class VaguePointCoder(PointCoder):
    def is_deterministic(self):
        return False


class Stated:
    """Says what it is made of, as Beam asks it to."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def __getstate__(self):
        return {"words": self.words}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stated) and self.words == other.words

    def __hash__(self) -> int:
        return hash(tuple(self.words))


ROW = beam.Row(city="Rome", number=1)
