"""Schedulers, by which a test chooses the order of tasks and messages, the size of bundles, and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from headrace.runners.engine.messages import Message


class Crash(BaseException):
    """A crash that a scheduler has chosen: the driver stops at once, as if its process had been killed.

    >>> class DiesAtCommit(Scheduler):
    ...     def step(self, name, epoch):
    ...         if name == "commit":
    ...             raise Crash
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10)]))
    >>> LocalRunner(scheduler=DiesAtCommit()).run_topology(topology)
    Traceback (most recent call last):
      ...
    headrace.runners.local.scheduler.Crash
    """


class Scheduler:
    """Keeps tasks and messages in order, allows the largest bundles, and never crashes; subclasses choose otherwise.

    >>> class OneByOne(Scheduler):
    ...     def bundle_size(self, epoch, limit):
    ...         return 1
    >>> from headrace.lowlevel import BoundedInjector, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([(1, 10), (2, 20), (3, 30)]))
    >>> LocalRunner(scheduler=OneByOne()).run_topology(topology).epochs
    3
    """

    def bundle_size(self, epoch: int, limit: int) -> int:
        """Return how many records an injector may contribute to this epoch, at most `limit`."""
        return limit

    def task_order(self, epoch: int, level: int, tasks: Sequence[int]) -> Sequence[int]:
        """Return the order in which the tasks of a level run."""
        return tasks

    def arrival_order(self, epoch: int, level: int, messages: list[Message]) -> list[Message]:
        """Return the order in which messages reach a task."""
        return messages

    def step(self, name: str, epoch: int) -> None:
        """Called before and after every step of the protocol; an override may raise `Crash` to stop the run there.

        The steps are `plan`, `run level K task I`, `saved level K task I`, `released` (by a task, or stragglers by the
        driver), `commit`, `committed`, `deliver` and `delivered`.
        """


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
