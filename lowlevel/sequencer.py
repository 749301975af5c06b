"""Who owns which keys, and which attempt made what: key intervals and attempt tokens (MillWheel paper §6.2, §7.1).

A key's row (16 bytes of hash) has its place in a 64-bit space by its first 8 bytes. An interval is a contiguous,
half-open range of that space, and one task at a time works on it. Every attempt at such a task has a token of its own:
its sequencer. Only the tokens that a commit names count, so whatever another attempt wrote never happened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SPACE = 1 << 64
"""Number of places that a key's row can have."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open range of the 64-bit key space, and its number among its level's intervals."""

    index: int
    start: int
    stop: int

    @property
    def number(self) -> int:
        """The same as `index`."""
        return self.index


class Sequencer(NamedTuple):
    """Names one ownership of an interval; a greater one makes every smaller one stale (paper §6.2).

    >>> Sequencer(2, 0) > Sequencer(1, 9)
    True
    """

    generation: int
    """Of the driver that gave it."""
    epoch: int
    """The first in which the interval has this owner and these bounds."""


def split_evenly(count: int) -> tuple[Interval, ...]:
    """The whole space as `count` intervals of equal size (to within one place).

    >>> [interval.stop - interval.start == 2**62 for interval in split_evenly(4)]
    [True, True, True, True]
    """
    if count < 1:
        raise ValueError(f"the key space cannot be split into {count} intervals; give 1 or more")
    # Rounded up, so that `interval_of` needs one multiplication and no table.
    bounds = [-(-index * SPACE // count) for index in range(count + 1)]
    return tuple(Interval(index, bounds[index], bounds[index + 1]) for index in range(count))


def interval_of(row: bytes, count: int) -> int:
    """Number of the interval that a row lies in, out of `split_evenly(count)`.

    >>> interval_of(bytes.fromhex("80" + 15 * "00"), 4)
    2
    """
    return (int.from_bytes(row[:8], "big") * count) >> 64


def intervals_of(rows: Iterable[bytes], count: int) -> list[int]:
    """`interval_of` for many rows at once, several times as quick.

    >>> intervals_of([bytes(16), bytes.fromhex("ff" * 16)], 3)
    [0, 2]
    """
    places = np.frombuffer(b"".join(rows), dtype=">u8")[::2].astype(np.uint64)
    # place * count does not fit into 64 bits: multiply the halves, carry once.
    n = np.uint64(count)
    carried = (places >> _HALF) * n + ((places & _LOW) * n >> _HALF)
    found: list[int] = (carried >> _HALF).astype(np.int64).tolist()
    return found


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
    level 1, interval 0: attempt b is to be committed, but productions of a, b were used
    """

    level: int
    interval: int
    made: str | None
    """Token of the attempt to be committed; None if there is none."""
    consumed: tuple[str, ...]
    """Tokens of the attempts whose productions were used."""

    def __str__(self) -> str:
        made = f"attempt {self.made}" if self.made else "no attempt"
        used = f"productions of {', '.join(self.consumed)} were used"
        return f"level {self.level}, interval {self.interval}: {made} is to be committed, but {used}"


def mismatched(
    consumed: Mapping[tuple[int, int], Collection[str]], made: Mapping[tuple[int, int], str]
) -> tuple[Mismatch, ...]:
    """Tasks whose used and committed attempts differ: the check behind strong productions (paper §6.1.2).

    Both mappings are by (level, interval) of the producer. An epoch may be committed only if nothing is returned.

    >>> mismatched({(0, 0): {"a"}, (0, 1): {"b", "c"}}, {(0, 0): "a", (0, 1): "c"})
    (Mismatch(level=0, interval=1, made='c', consumed=('b', 'c')),)
    """
    return tuple(
        Mismatch(*producer, made.get(producer), tuple(sorted(tokens)))
        for producer, tokens in sorted(consumed.items())
        if tokens and set(tokens) != {made.get(producer)}
    )
