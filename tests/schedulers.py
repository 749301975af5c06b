"""Schedulers of the local runner that choose at random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from headrace.runners.engine.messages import Message
from headrace.runners.local.executor import Crash, Scheduler


class RandomScheduler(Scheduler):
    """Draws orders and sizes from a seed; the same seed repeats a failing run.

    >>> RandomScheduler(7).bundle_size(1, 100) == RandomScheduler(7).bundle_size(1, 100)
    True
    """

    def __init__(self, seed: int, crash_at: int | None = None) -> None:
        self.seed = seed
        self.steps = 0
        """Number of steps so far."""
        self._random = Random(seed)
        self._crash_at = crash_at

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Return a random power of two, or the limit if that is less; small sizes are as likely as large ones."""
        return min(limit, 1 << self._random.randrange(max(limit, 1).bit_length()))

    def task_order(self, epoch: int, level: int, tasks: Sequence[int]) -> Sequence[int]:
        """Return a random order."""
        return self._random.sample(tasks, len(tasks))

    def arrival_order(self, epoch: int, level: int, messages: list[Message]) -> list[Message]:
        """Return a random order."""
        return self._random.sample(messages, len(messages))

    def step(self, name: str, epoch: int) -> None:
        """Count the step, and raise `Crash` at the chosen one."""
        self.steps += 1
        if self.steps == self._crash_at:
            raise Crash(f"step {self.steps}: {name} of epoch {epoch} (seed {self.seed})")
