"""Injectors bring external data in and seed the low watermark (MillWheel paper §5.2, figure 10).

An injector runs on the driver. For each epoch it is asked for a `Delivery`: what to read next, from a position that is
committed with the epoch, so that a restart goes on exactly there. Reading happens in the tasks, split by split.
The watermark comes from the injector (`Delivery.watermark`) and from what the tasks saw while reading (`Lag`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, Self, runtime_checkable

from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP


class Split(Protocol):
    """A part of a delivery that one task reads. It is shipped to the task: keep it small, or hold the data itself."""

    def read(self) -> Iterable[Batch]:
        """The records, in batches; values as they enter the topology, timestamps in microseconds UTC."""


@runtime_checkable
class SizedSplit(Split, Protocol):
    """A split of which it is known how large it is before it is read."""

    def count_records(self) -> int:
        """How many records there are."""


@runtime_checkable
class TellingSplit(Split, Protocol):
    """A split that finds out something by being read that its injector must know."""

    def told(self) -> object:
        """In the task, after the last batch: a value that can be pickled."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """A split that carries its records.

    >>> [list(batch.rows()) for batch in MemorySplit(Batch(["a"], [1])).read()]
    [[('a', 1)]]
    """

    batch: Batch

    def read(self) -> Iterable[Batch]:
        """The one batch."""
        return [self.batch]

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return len(self.batch)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What an injector contributes to one epoch."""

    splits: Sequence[Split]
    position: object
    """Where the next delivery starts, committed with the epoch: a plain value (`headrace.lowlevel.plaindata`)."""
    watermark: int = MIN_TIMESTAMP
    """The injector's low watermark after this delivery, as far as it is known before reading; microseconds UTC."""
    done: bool = False
    """Whether the input has ended: the watermark becomes `MAX_TIMESTAMP`."""
    clock: int | None = None
    """The wall clock to use for this epoch, microseconds UTC; None for the runner's own (tests set it)."""
    idle: bool = False
    """Nothing to read and nothing that changed: an epoch is only needed if a timer is due."""


class Injector(Protocol):
    """A source of records with a low watermark. Subclasses are constructed with configuration only."""

    max_delay: int | None
    """Bounded out-of-orderness: the watermark also follows the greatest timestamp read, this many microseconds behind
    it. None: only `Delivery.watermark` counts."""
    record_ids: bool
    """Whether batches carry ids because records may be delivered again."""
    id_slack: int
    """How long ids are kept after the watermark has passed their record, microseconds of event time."""

    def start(self) -> object:
        """The position of a run that starts from nothing."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """What to read from `position`: about `limit` records at most, in about `splits` parts.

        Must give the same records for the same position: an abandoned epoch is planned again.
        """


@runtime_checkable
class LearningInjector(Injector, Protocol):
    """An injector whose position depends on what is read, for instance on how far each of its parts reaches."""

    def learned(self, position: object, told: Sequence[object]) -> object:
        """The position to commit with an epoch: that of its delivery, and what its `TellingSplit`s told."""


class BaseInjector:
    """Defaults for injectors: no watermark of its own beyond `Delivery.watermark`, no redelivery."""

    max_delay: int | None = None
    record_ids: bool = False
    id_slack: int = 3_600_000_000

    @property
    def position_kind(self) -> str:
        """What positions mean, in a reader's words: by default the name of the class.

        A changed program goes on from the committed position if this is as it was.
        """
        return type(self).__qualname__

    def start(self) -> object:
        """Position 0."""
        return 0


class BoundedInjector(BaseInjector):
    """Records held in memory, with a perfect watermark: nothing is late, the watermark goes to its end with the input.

    With `max_delay` (microseconds) the watermark is heuristic instead: that much behind the greatest timestamp so far.

    >>> injector = BoundedInjector([("a", 1), ("b", 2)])
    >>> delivery = injector.plan(injector.start(), limit=1, splits=1)
    >>> delivery.position, delivery.done
    (1, False)
    """

    def __init__(self, rows: Iterable[tuple[object, int]], max_delay: int | None = None) -> None:
        self._rows = list(rows)
        _check_rows(self._rows)
        self.max_delay = max_delay

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next `limit` records."""
        assert isinstance(position, int)
        rows = self._rows[position : position + limit]
        end = position + len(rows)
        size = max(1, -(-len(rows) // splits))
        parts = [rows[i : i + size] for i in range(0, len(rows), size)]
        batches = [Batch([value for value, _ in part], [timestamp for _, timestamp in part]) for part in parts]
        return Delivery([MemorySplit(batch) for batch in batches], end, done=end >= len(self._rows))


class ManualInjector(BaseInjector):
    """Delivers exactly what it is told, a step an epoch: for tests and simulations.

    >>> injector = ManualInjector().records(("a", 1), ("b", 2)).watermark(10).clock(60_000_000)
    >>> [len(injector.plan(step, 100, 1).splits) for step in range(3)], injector.plan(3, 100, 1).done
    ([1, 0, 0], True)
    """

    def __init__(self, record_ids: bool = False, id_slack: int = 3_600_000_000) -> None:
        self._steps: list[tuple[Batch | None, int, int | None]] = []
        self._watermark = MIN_TIMESTAMP
        self.record_ids = record_ids
        self.id_slack = id_slack

    def records(self, *rows: tuple[object, int], ids: Sequence[bytes] | None = None) -> Self:
        """Next, deliver records (value, timestamp in microseconds UTC), with their ids if records can come again."""
        batch = Batch([value for value, _ in rows], [timestamp for _, timestamp in rows], ids)
        self._steps.append((batch, self._watermark, None))
        return self

    def watermark(self, timestamp: int) -> Self:
        """Next, move the low watermark to a timestamp, microseconds UTC."""
        self._watermark = timestamp
        self._steps.append((None, timestamp, None))
        return self

    def clock(self, timestamp: int) -> Self:
        """Next, move the wall clock to a timestamp, microseconds UTC."""
        self._steps.append((None, self._watermark, timestamp))
        return self

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next step; after the last one the input has ended."""
        assert isinstance(position, int)
        if position >= len(self._steps):
            return Delivery([], position, done=True)
        batch, watermark, clock = self._steps[position]
        return Delivery([] if batch is None else [MemorySplit(batch)], position + 1, watermark, clock=clock)


def heuristic_watermark(greatest: int, max_delay: int | None) -> int:
    """Low watermark that bounded out-of-orderness gives after seeing the timestamp `greatest`.

    >>> heuristic_watermark(100, 30), heuristic_watermark(100, None) == MIN_TIMESTAMP
    (70, True)
    """
    if max_delay is None or greatest == MIN_TIMESTAMP:
        return MIN_TIMESTAMP
    return min(max(greatest - max_delay, MIN_TIMESTAMP), MAX_TIMESTAMP)


def _check_rows(rows: Sequence[object]) -> None:
    for row in rows:
        if not isinstance(row, (tuple, list)) or len(row) != 2 or not isinstance(row[1], Integral):
            raise TypeError(f"{row!r:.200} is no pair (value, timestamp in microseconds)")
