"""Sequencers and attempt tokens: which ownership and which attempt a write comes from (MillWheel paper §6.2, §7.1).

Every ownership of a key interval has a sequencer, and every attempt at a task has a unique token. Only the tokens that
a commit names count, so files of other attempts are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Sequencer(NamedTuple):
    """An identifier of one ownership of an interval; a greater one makes smaller ones stale (MillWheel paper §6.2).

    >>> Sequencer(2, 0) > Sequencer(1, 9)
    True
    """

    generation: int
    """Generation of the driver that assigned it."""
    epoch: int
    """The first epoch in which the interval has this owner and these bounds."""


NO_SEQUENCER = Sequencer(0, 0)
"""A sequencer that is smaller than all that a driver assigns."""


def attempt_token(randomness: bytes) -> str:
    """The token of one attempt at a task, in hexadecimal digits, from 8 or more random bytes.

    Raises ValueError for fewer bytes.

    >>> attempt_token(bytes(range(8)))
    '0001020304050607'
    """
    if len(randomness) < 8:
        raise ValueError(f"a token of {len(randomness)} random bytes could be given twice; give 8 or more")
    return randomness.hex()


class Mismatch(NamedTuple):
    """A task of which consumers used productions of an attempt that is not the one to be committed.

    >>> print(Mismatch(1, 0, "b", ("a", "b")))
    level 1, task 0: attempt b is to be committed, but productions of a, b were used
    """

    level: int
    task: int
    committed: str | None
    """Token of the attempt to be committed; None if there is none."""
    consumed: tuple[str, ...]
    """Tokens of the attempts whose productions were used."""

    def __str__(self) -> str:
        attempt = f"attempt {self.committed}" if self.committed else "no attempt"
        used = f"productions of {', '.join(self.consumed)} were used"
        return f"level {self.level}, task {self.task}: {attempt} is to be committed, but {used}"


def mismatched(
    consumed: Mapping[tuple[int, int], Collection[str]], committed: Mapping[tuple[int, int], str]
) -> tuple[Mismatch, ...]:
    """The tasks whose used and committed attempts differ: the check for strong productions (MillWheel paper §6.1.2).

    An epoch may be committed only if the result is empty.

    Args:
        consumed: (level, task) of a producer -> tokens of the attempts whose productions were used.
        committed: (level, task) of a producer -> token of the attempt to be committed.

    >>> mismatched({(0, 0): {"a"}, (0, 1): {"b", "c"}}, {(0, 0): "a", (0, 1): "c"})
    (Mismatch(level=0, task=1, committed='c', consumed=('b', 'c')),)
    """
    return tuple(
        Mismatch(*producer, committed.get(producer), tuple(sorted(tokens)))
        for producer, tokens in sorted(consumed.items())
        if tokens and set(tokens) != {committed.get(producer)}
    )
