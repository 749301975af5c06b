"""Injectors read external data and provide the first low watermark (MillWheel paper §5.2, figure 10).

An injector runs on the driver. For each epoch the driver asks the injector for a `Delivery`: what to read next, from a
given position. The position is committed with the epoch, so a restarted run continues exactly there. The tasks read the
data, split by split. The watermark follows from the injector (`Delivery.watermark`) and, with `Injector.max_delay`,
from the timestamps that the tasks have read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Protocol, Self, TypeVar, cast, runtime_checkable

from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.stored_names import named, public_name
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.uncalled_hooks import hooks_of

T = TypeVar("T")


class Split(Protocol):
    """A part of a delivery that one task reads. It is pickled and sent to the task, so it should be small.

    >>> class Numbers:
    ...     def __init__(self, start, stop):
    ...         self.start, self.stop = start, stop
    ...     def read(self):
    ...         numbers = list(range(self.start, self.stop))
    ...         yield Batch(numbers, [number * 1_000_000 for number in numbers])
    >>> [list(batch.rows()) for batch in Numbers(3, 5).read()]
    [[(3, 3000000), (4, 4000000)]]
    """

    def read(self) -> Iterable[Batch]:
        """Read the records, in batches; timestamps are microseconds UTC."""


@runtime_checkable
class SizedSplit(Split, Protocol):
    """A split that knows its number of records before it is read."""

    def count_records(self) -> int:
        """Number of records in the split."""


@runtime_checkable
class TellingSplit(Split, Protocol):
    """A split that reports to its injector what was found while the split was read.

    >>> class Numbers(MemorySplit):
    ...     def told(self):
    ...         return max(self.batch.timestamps)
    >>> isinstance(Numbers(Batch([7], [5])), TellingSplit), Numbers(Batch([7], [5])).told()
    (True, 5)
    """

    def told(self) -> object:
        """The report, a value that can be pickled. It is called in the task, after the last batch."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """A split that contains its records.

    >>> [list(batch.rows()) for batch in MemorySplit(Batch(["a"], [1])).read()]
    [[('a', 1)]]
    """

    batch: Batch

    def read(self) -> Iterable[Batch]:
        """See `Split`; there is one batch."""
        return [self.batch]

    def count_records(self) -> int:
        """See `SizedSplit`."""
        return len(self.batch)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What an injector contributes to one epoch.

    >>> delivery = Delivery([MemorySplit(Batch(["a", "b"], [1, 2]))], position=2, watermark=3)
    >>> delivery.done, delivery.idle, delivery.position
    (False, False, 2)
    """

    splits: Sequence[Split]
    position: object
    """Where the next delivery starts, committed with the epoch: plain data (`lowlevel.coders.coder`)."""
    watermark: int = MIN_TIMESTAMP
    """The injector's low watermark after this delivery, as known before the splits are read; microseconds UTC."""
    done: bool = False
    """Whether the input has ended; the watermark is then `MAX_TIMESTAMP`."""
    clock: int | None = None
    """The wall-clock time of this epoch, microseconds UTC; None for the runner's clock. Tests set it."""
    latest: int = MAX_TIMESTAMP
    """The latest timestamp that moves a heuristic watermark, microseconds UTC; later ones are counted and named."""
    idle: bool = False
    """Whether there is nothing to read and nothing has changed; an epoch is then needed only if a timer is due."""
    quiet_seconds: float | None = None
    """Seconds for which an idle injector need not be asked again, unless it wakes the driver (`BaseInjector.wake_by`).
    With None it is asked again after `RunOptions.poll_seconds`."""
    backlog: int | None = None
    """About how many records wait in the source behind this delivery, and could be read now; None if not known."""


class Injector(Protocol):
    """A source of records with a low watermark. An injector holds configuration only; its state is the position.

    >>> class Numbers(BaseInjector):
    ...     def plan(self, position, limit, splits):
    ...         numbers = list(range(position, min(position + limit, 5)))
    ...         end = position + len(numbers)
    ...         return Delivery([MemorySplit(Batch(numbers, numbers))], end, watermark=end, done=end == 5)
    >>> from headrace.lowlevel import CallSink, Topology
    >>> from headrace.runners import RunOptions
    >>> from headrace.runners.local import LocalRunner
    >>> topology = Topology()
    >>> topology.injector("numbers", Numbers())
    >>> topology.sink("print", "numbers", CallSink(lambda epoch, rows: print(epoch, rows)))
    >>> result = LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=3))
    1 [(0, 0), (1, 1), (2, 2)]
    2 [(3, 3), (4, 4)]
    """

    max_delay: int | None
    """Bound on out-of-orderness, microseconds: the watermark also follows the greatest timestamp, at this distance.
    With None only `Delivery.watermark` counts."""
    record_ids: bool
    """Whether batches have record ids because the source may deliver a record again."""
    id_slack: int
    """How long a record's id is kept after the watermark has passed the record, microseconds of event time."""

    def start(self) -> object:
        """The position of a run without a checkpoint to continue from."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Plan the delivery that starts at `position`.

        The same position must give the same records, because an abandoned epoch is planned again.

        Args:
            position: The position committed last, or `start()`.
            limit: About the greatest number of records.
            splits: About the number of splits.
        """


class BaseInjector:
    """The base of injectors: a subclass defines `plan`, and of the other methods those that it needs.

    By default there is no `max_delay`, records have no ids, positions begin with 0, and the methods that the driver
    calls besides `start` and `plan` do nothing.

    >>> class Numbers(BaseInjector):
    ...     max_delay = 5_000_000
    >>> Numbers().start(), Numbers().max_delay, Numbers().record_ids
    (0, 5000000, False)
    """

    max_delay: int | None = None
    record_ids: bool = False
    id_slack: int = 3_600_000_000
    is_bounded: bool = False
    """Whether the input ends, and has no watermark before, so that results come at its end."""

    @property
    def position_kind(self) -> str:
        """A name for the meaning of positions, by default the name of the class.

        A changed program continues from the committed position only if this name is unchanged.
        """
        return public_name(type(self))

    record_format: str = ""
    """A name for the form of what is read, such as "CSV"; a changed program continues only with an equal one.

    Empty if there is only one, or if it is not to be compared.
    """

    def start(self) -> object:
        """See `Injector`; the first position is 0."""
        return 0

    # What the driver calls of an injector, in this order; a class without this base may have some of them.

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Take the function that lets the driver ask for a delivery at once, so that it need not keep asking.

        Any thread may call it, any number of times. The driver gives it before it asks for the first delivery, and
        again if the topology of the run changes. See `run_ended` for the end of threads.
        """

    def store_in(self, objects: SourceObjects) -> None:
        """Take the objects of this injector in the checkpoint, for parts of positions that would be too large.

        It is called before the first delivery of a run.
        """

    def learned(self, position: object, told: Sequence[object]) -> object:
        """The position to commit with an epoch, given what the tasks have found while they read.

        Args:
            position: `Delivery.position` of the epoch.
            told: What `TellingSplit.told` of the delivery's splits has returned; it is not empty.
        """
        return position

    def committed(self, position: object) -> None:
        """Take note of a commit with this position, for example to delete what will not be read again.

        An error fails the run.
        """

    def holder(self, position: object) -> str | None:
        """A description of what holds the watermark at a committed position, for `explain` and the page of a run.

        None if nothing holds it, or if that is not known.
        """
        return None

    def unread(self, position: object) -> str | None:
        """What a changed program has given the injector that is never read, as its input has ended at this position.

        A sentence for the user, without a full stop; None if there is nothing, or if that is not known. It is asked
        when a run begins on a checkpoint with a source that has ended, and when the topology of a run changes.
        """
        return None

    def run_ended(self) -> None:
        """End threads and connections: the run is over, maybe because it has failed.

        It is called once. An error is logged as a warning.
        """


INJECTOR_HOOKS = hooks_of(Injector, BaseInjector)
"""The names of all methods of an injector that the driver calls."""


@runtime_checkable
class LearningInjector(Injector, Protocol):
    """An injector with `BaseInjector.learned`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), LearningInjector)
    True
    """

    def learned(self, position: object, told: Sequence[object]) -> object:
        """See `BaseInjector.learned`."""


@runtime_checkable
class WakingInjector(Injector, Protocol):
    """An injector with `BaseInjector.wake_by`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), WakingInjector)
    True
    """

    def wake_by(self, wake: Callable[[], None]) -> None:
        """See `BaseInjector.wake_by`."""


@runtime_checkable
class StoringInjector(Injector, Protocol):
    """An injector with `BaseInjector.store_in`, which every class with that base has."""

    def store_in(self, objects: SourceObjects) -> None:
        """See `BaseInjector.store_in`."""


@runtime_checkable
class CommittedInjector(Injector, Protocol):
    """An injector with `BaseInjector.committed`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), CommittedInjector)
    True
    """

    def committed(self, position: object) -> None:
        """See `BaseInjector.committed`."""


@runtime_checkable
class EndingInjector(Injector, Protocol):
    """An injector with `BaseInjector.run_ended`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), EndingInjector)
    True
    """

    def run_ended(self) -> None:
        """See `BaseInjector.run_ended`."""


@runtime_checkable
class HeldInjector(Injector, Protocol):
    """An injector with `BaseInjector.holder`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), HeldInjector)
    True
    """

    def holder(self, position: object) -> str | None:
        """See `BaseInjector.holder`."""


@runtime_checkable
class UnreadInjector(Injector, Protocol):
    """An injector with `BaseInjector.unread`, which every class with that base has.

    >>> isinstance(BoundedInjector([]), UnreadInjector)
    True
    """

    def unread(self, position: object) -> str | None:
        """See `BaseInjector.unread`."""


@named("BoundedInjector")
class BoundedInjector(BaseInjector):
    """An injector of records in memory. Its watermark is perfect: no record is late.

    The watermark stays at `MIN_TIMESTAMP` until the input ends. With `max_delay` (microseconds) it is heuristic:
    it follows the greatest timestamp so far at this distance.

    >>> injector = BoundedInjector([("a", 1), ("b", 2)])
    >>> delivery = injector.plan(injector.start(), limit=1, splits=1)
    >>> delivery.position, delivery.done
    (1, False)
    """

    def __init__(self, rows: Iterable[tuple[object, int]], max_delay: int | None = None) -> None:
        self.rows: list[tuple[object, int]] = list(rows)
        """The records: (value, timestamp in microseconds UTC)."""
        _check_rows(self.rows)
        self.max_delay = max_delay

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`; the delivery has the next `limit` records."""
        assert isinstance(position, int)
        rows = self.rows[position : position + limit]
        end = position + len(rows)
        parts = divided(rows, splits)
        batches = [Batch([value for value, _ in part], [timestamp for _, timestamp in part]) for part in parts]
        return Delivery([MemorySplit(batch) for batch in batches], end, done=end >= len(self.rows))

    def unread(self, position: object) -> str | None:
        """See `BaseInjector`; rows are compared by their number only."""
        now = len(self.rows)
        if not isinstance(position, int) or position == now:
            return None
        return f"the number of its elements was {position:,} when its input ended and is {now:,} now"


@named("ManualInjector")
class ManualInjector(BaseInjector):
    """An injector that delivers scripted steps, one in each epoch, for tests and simulations.

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
        """Add a step that delivers records.

        Args:
            *rows: (value, timestamp) of each record; the timestamp in microseconds UTC.
            ids: One for each record, if records can be delivered again.
        """
        batch = Batch([value for value, _ in rows], [timestamp for _, timestamp in rows], ids)
        self._steps.append((batch, self._watermark, None))
        return self

    def watermark(self, timestamp: int) -> Self:
        """Add a step that moves the low watermark to a timestamp, microseconds UTC."""
        self._watermark = timestamp
        self._steps.append((None, timestamp, None))
        return self

    def clock(self, timestamp: int) -> Self:
        """Add a step that moves the wall clock to a timestamp, microseconds UTC."""
        self._steps.append((None, self._watermark, timestamp))
        return self

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`; the delivery is the next step, and after the last step the input has ended."""
        assert isinstance(position, int)
        if position >= len(self._steps):
            return Delivery([], position, done=True)
        batch, watermark, clock = self._steps[position]
        return Delivery([] if batch is None else [MemorySplit(batch)], position + 1, watermark, clock=clock)


def divided(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """Items in order, in at most so many parts of about equal length, for as many splits.

    >>> divided("abcde", 2), divided(range(2), 3)
    (['abc', 'de'], [range(0, 1), range(1, 2)])
    """
    size = max(1, -(-len(items) // max(1, parts)))
    return [items[at : at + size] for at in range(0, len(items), size)]


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


class EndedInjector:
    """Another injector, of which nothing more is read: in all other respects it is that injector."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return cast(object, getattr(self._injector, name))

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`."""
        return Delivery([], position, done=True)

    # A check for a protocol may not see the methods that `__getattr__` finds.

    def committed(self, position: object) -> None:
        """See `CommittedInjector`."""
        if isinstance(self._injector, CommittedInjector):
            self._injector.committed(position)

    def run_ended(self) -> None:
        """See `EndingInjector`."""
        if isinstance(self._injector, EndingInjector):
            self._injector.run_ended()

    def holder(self, position: object) -> str | None:
        """See `HeldInjector`."""
        return self._injector.holder(position) if isinstance(self._injector, HeldInjector) else None

    def unread(self, position: object) -> str | None:
        """See `UnreadInjector`; what else it has is left out on purpose."""
        return None
