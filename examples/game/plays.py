"""The input: who scored how many points when, and when that became known. The same each time.

Twelve people in three teams play for two hours. Most plays are known within seconds; those of one who sits in an
aeroplane only when it has landed. Two robots score far more often than people can.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from headrace.testing.test_stream import TestStream
from headrace.transforms.window import TimestampedValue

MINUTE = 60
HOURS = 2
TEAMS = ("amber", "birch", "coral")
ROBOTS = ("robot-1", "robot-2")
_TRAVELLER = "coral-3"
_LANDS = 75 * MINUTE


class Play(NamedTuple):
    """Points that somebody scored."""

    user: str
    team: str
    points: int
    at: int
    """Event time, seconds."""
    known: int
    """Processing time, seconds."""


def plays(seed: int = 1) -> list[Play]:
    """All plays in the order in which they become known."""
    return sorted(_played(Random(seed)), key=lambda play: play.known)


def _played(random: Random) -> Iterator[Play]:
    for team in TEAMS:
        for number in range(1, 5):
            user = f"{team}-{number}"
            for _ in range(40):
                at = random.randrange(HOURS * 60 * MINUTE)
                aloft = user == _TRAVELLER and at < _LANDS
                yield Play(user, team, random.randrange(1, 20), at, _LANDS if aloft else at + random.randrange(1, 20))
    for robot, team in zip(ROBOTS, TEAMS, strict=False):
        for at in range(0, HOURS * 60 * MINUTE, 20):
            yield Play(robot, team, 19, at, at + 1)


def bounded() -> list[Play]:
    """As from a log of yesterday: everything is there."""
    return plays()


def stream(behind: int = 30) -> TestStream:
    """As they come, minute by minute, with a watermark that stays so many seconds behind the clock."""
    found, made = plays(), TestStream().advance_watermark_to(0)
    for minute in range(1, HOURS * 60 + 2):
        its = [play for play in found if play.known // MINUTE == minute - 1]
        if its:
            made = made.add_elements([TimestampedValue(play, play.at) for play in its])
        made = made.advance_processing_time(MINUTE).advance_watermark_to(max(0, minute * MINUTE - behind))
    return made.advance_watermark_to_infinity()
