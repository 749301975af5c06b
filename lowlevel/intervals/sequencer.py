"""Which ownership and which attempt something is from: sequencers and attempt tokens (MillWheel paper §6.2, §7.1).

Every ownership of a key interval has a sequencer, and every attempt at a task a token of its own. Only the tokens that
a commit names count, so whatever another attempt wrote never happened.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Sequencer(NamedTuple):
    """Names one ownership of an interval; a greater one makes every smaller one stale (paper §6.2).

    >>> Sequencer(2, 0) > Sequencer(1, 9)
    True
    """

    generation: int
    """Of the driver that gave it."""
    epoch: int
    """The first in which the interval has this owner and these bounds."""


NO_SEQUENCER = Sequencer(0, 0)
"""Older than any that a driver gives."""


def attempt_token(randomness: bytes) -> str:
    """The token of one attempt at a task, out of at least 8 random bytes. It can stand in an object's name.

    >>> attempt_token(bytes(range(8)))
    '0001020304050607'
    """
    if len(randomness) < 8:
        raise ValueError(f"a token of {len(randomness)} random bytes could be given twice; give 8 or more")
    return randomness.hex()


class Mismatch(NamedTuple):
    """A task whose productions were used from attempts other than the one to be committed.

    >>> print(Mismatch(1, 0, "b", ("a", "b")))
    level 1, task 0: attempt b is to be committed, but productions of a, b were used
    """

    level: int
    task: int
    made: str | None
    """Token of the attempt to be committed; None if there is none."""
    consumed: tuple[str, ...]
    """Tokens of the attempts whose productions were used."""

    def __str__(self) -> str:
        made = f"attempt {self.made}" if self.made else "no attempt"
        used = f"productions of {', '.join(self.consumed)} were used"
        return f"level {self.level}, task {self.task}: {made} is to be committed, but {used}"


def mismatched(
    consumed: Mapping[tuple[int, int], Collection[str]], made: Mapping[tuple[int, int], str]
) -> tuple[Mismatch, ...]:
    """Tasks whose used and committed attempts differ: the check behind strong productions (paper §6.1.2).

    Both mappings are by (level, task) of the producer. An epoch may be committed only if nothing is returned.

    >>> mismatched({(0, 0): {"a"}, (0, 1): {"b", "c"}}, {(0, 0): "a", (0, 1): "c"})
    (Mismatch(level=0, task=1, made='c', consumed=('b', 'c')),)
    """
    return tuple(
        Mismatch(*producer, made.get(producer), tuple(sorted(tokens)))
        for producer, tokens in sorted(consumed.items())
        if tokens and set(tokens) != {made.get(producer)}
    )
