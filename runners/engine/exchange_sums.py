"""Whether attempts of many tasks fit together, by sums: no report names each attempt that its task has heard of.

A sender and a consumer of its blocks are a pair. Every task adds up a hash of each pair that it is the sender of, and
one of each pair that it is the consumer of. If the attempts to be committed consumed all that they sent, and nothing
else, then both sums over all tasks are equal. An attempt that was consumed but is not to be committed, or whose output
did not reach a consumer, changes one of the sums alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from headrace.runners.engine.messages import COMMITTED, Exchange, Sender

_MODULUS = 1 << 64
NEVER = -1
"""The sum of a task whose epoch must not be committed; no sum is equal to it."""
LevelTask = tuple[int, int]
"""Level and index of a task."""


def sent_sums(sender: Sender, consumers: Iterable[LevelTask]) -> dict[int, int]:
    """Level -> sum over the consumers of that level.

    >>> sender = Sender(0, 3, "token")
    >>> sent_sums(sender, [(1, 7)]) == {1: consumed_sum([sender], (1, 7))}
    True
    """
    sums: dict[int, int] = {}
    for consumer in consumers:
        sums[consumer[0]] = (sums.get(consumer[0], 0) + _pair(sender, consumer)) % _MODULUS
    return sums


def consumed_sum(senders: Iterable[Sender], consumer: LevelTask) -> int:
    """The sum over the attempts whose blocks a task has consumed; earlier epochs do not count."""
    return sum(_pair(sender, consumer) for sender in senders if sender != COMMITTED) % _MODULUS


def mismatches(reports: Iterable[Exchange], levels: int, tasks: int) -> str:
    """Describe levels of which some consumed what is not to be committed, or did not report; empty if there are none.

    Args:
        reports: Those of all tasks that reported.
        levels: Number of keyed levels.
        tasks: Number of tasks of each of them.
    """
    sent, consumed = dict.fromkeys(range(1, levels + 1), 0), dict.fromkeys(range(1, levels + 1), 0)
    reported: dict[int, set[int]] = {level: set() for level in consumed}
    refused = set[int]()
    for report in reports:
        level = report.sender.level
        for target, amount in report.sent_sums.items():
            sent[target] += amount
        if level:
            consumed[level] += report.consumed_sum
            reported[level].add(report.sender.index)
            refused |= {level} if report.consumed_sum == NEVER else set()
    wrong = {level for level in consumed if (sent[level] - consumed[level]) % _MODULUS} | refused
    found = [
        f"level {level}: productions of attempts were used that are not to be committed" for level in sorted(wrong)
    ]
    found += [
        f"level {level}: {tasks - len(indices)} of {tasks} tasks did not report"
        for level, indices in reported.items()
        if len(indices) < tasks
    ]
    return "; ".join(found)


def _pair(sender: Sender, consumer: LevelTask) -> int:
    pair = f"{sender.level} {sender.index} {sender.name} {consumer[0]} {consumer[1]}"
    return int.from_bytes(blake2b(pair.encode(), digest_size=8).digest(), "big")
