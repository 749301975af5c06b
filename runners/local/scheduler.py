"""The seam through which a test chooses the order of tasks and rows, the size of bundles, and where a run crashes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from headrace.runners.engine.epoch import Row


class Crash(BaseException):
    """A crash that a scheduler chose: the driver stops at once, as if its process had been killed."""


class Scheduler:
    """Everything in order, bundles as large as the options allow, no crashes. Subclass it to choose otherwise."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        """How many records an injector may contribute to this epoch; at most `limit`."""
        return limit

    def task_order(self, epoch: int, level: int, tasks: Sequence[int]) -> Sequence[int]:
        """The order in which the tasks of a level run."""
        return tasks

    def arrival_order(self, epoch: int, level: int, rows: list[Row]) -> list[Row]:
        """The order in which rows reach a task."""
        return rows

    def step(self, name: str, epoch: int) -> None:
        """Called before and after every step of the protocol; raise `Crash` to stop the run there.

        Steps: `plan`, `run level K task I`, `saved level K task I`, `released` (by a task, or stragglers by the
        driver), `commit`, `committed`, `deliver`, `delivered`.
        """


class RandomScheduler(Scheduler):
    """Orders and sizes drawn from a seed, which repeats a failing run.

    >>> RandomScheduler(7).bundle_size(1, 100) == RandomScheduler(7).bundle_size(1, 100)
    True
    """

    def __init__(self, seed: int, crash_at: int | None = None) -> None:
        self.seed = seed
        self.steps = 0
        """Steps so far."""
        self._random = Random(seed)
        self._crash_at = crash_at

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Anything from one record to the limit, small sizes as likely as large ones."""
        return min(limit, 1 << self._random.randrange(max(limit, 1).bit_length()))

    def task_order(self, epoch: int, level: int, tasks: Sequence[int]) -> Sequence[int]:
        """Any order."""
        return self._random.sample(tasks, len(tasks))

    def arrival_order(self, epoch: int, level: int, rows: list[Row]) -> list[Row]:
        """Any order."""
        return self._random.sample(rows, len(rows))

    def step(self, name: str, epoch: int) -> None:
        """Crash at the step chosen."""
        self.steps += 1
        if self.steps == self._crash_at:
            raise Crash(f"step {self.steps}: {name} of epoch {epoch} (seed {self.seed})")
