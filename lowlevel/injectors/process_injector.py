"""An injector distributed over processes; its low watermark is the least of theirs (MillWheel paper §5.2).

The set of processes is fixed, so a silent process holds the watermark back. Processes hand records and watermarks over
through a directory or an object store, each by an `InjectorProcess`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, cast

from headrace.lowlevel.coders.coder import Coder, PickleCoder
from headrace.lowlevel.injectors.handover_log import (
    Handover,
    HandoverEntry,
    HandoverError,
    NotificationPipe,
    check_name,
    notify,
)
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, divided
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.storage.object_store import Location
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_MISSED_SECONDS = 1.0
"""Seconds after which hand-overs are looked for without a notification, while every process is known to send them."""


@dataclass(frozen=True, slots=True)
class HandoverSplit:
    """A split that reads the records of some hand-overs."""

    handover: Handover
    paths: tuple[str, ...]
    with_ids: bool = False
    """Whether every record must have an id."""

    def read(self) -> Iterable[Batch]:
        """See `Split`; each hand-over is one batch.

        Raises:
            ValueError: `with_ids` is set, and records have no ids.
            HandoverError: Records are missing.
            CheckpointError: Records are damaged.
        """
        for path in self.paths:
            batch = self.handover.load(path)
            if self.with_ids and batch.ids is None:
                raise ValueError(
                    f"process {path.split('/')[1]!r} handed {len(batch)} records over without ids, as its hand-over "
                    f"{int(path.split('/')[2].partition('-')[0])}, and this ProcessInjector has record_ids=True: what "
                    "comes twice would count twice; give InjectorProcess.write(..., ids=...) one id a record, or leave "
                    "record_ids out"
                )
            yield batch


@dataclass(frozen=True, slots=True)
class HandoverPosition:
    """How far the hand-overs of one process have been read. Persisted, as a tuple in the position: every field."""

    taken: int = 0
    """Number of the newest hand-over that was read."""
    watermark: int = MIN_TIMESTAMP
    closed: bool = False

    def with_next(self, entry: HandoverEntry) -> HandoverPosition:
        """The position after the next hand-over."""
        watermark = MAX_TIMESTAMP if entry.closed else max(self.watermark, entry.watermark)
        return HandoverPosition(self.taken + 1, watermark, entry.closed)


def _reached(position: object) -> dict[str, HandoverPosition]:
    """Name of each process -> how far its hand-overs have been read, from the injector's position."""
    return {
        name: HandoverPosition(*fields) for name, fields in cast(Mapping[str, tuple[int, int, bool]], position).items()
    }


@named("ProcessInjector")
class ProcessInjector(BaseInjector):
    """An injector of the records that several independent processes hand over.

    Its watermark is the least watermark of all expected processes. A process that has never reported, or has stopped,
    holds the watermark, and `explain` names the process. The input has ended when all processes have closed.

    >>> from tempfile import TemporaryDirectory
    >>> from headrace.lowlevel import CallSink, InjectorProcess, Topology
    >>> from headrace.runners.local import LocalRunner
    >>> with TemporaryDirectory() as place:
    ...     for name, row in {"left": ("red", 5), "right": ("blue", 3)}.items():
    ...         InjectorProcess.open(place, name).write([row]).close()
    ...     topology = Topology()
    ...     topology.injector("visits", ProcessInjector(place, ["left", "right"]))
    ...     topology.sink("print", "visits", CallSink(lambda epoch, rows: print(sorted(rows))))
    ...     result = LocalRunner().run_topology(topology)
    [('blue', 3), ('red', 5)]

    Args:
        place: A directory, URL or store that processes, driver and workers can reach, used by this injector alone.
            Values are pickles by default, so anyone who can write there can run code in driver and tasks.
        expected: Names of the processes. The set may change between runs, but processes that have registered and not
            closed must stay in it.
        coder: Coder for lists of values.
        record_ids: Whether each record must have an id, so that a record handed over twice counts once. A record
            without an id then fails the run.
        id_slack: How long a record's id is kept after the watermark has passed the record, microseconds of event time.
        discard: Whether to delete hand-overs that are committed.

    Raises:
        HandoverError: A name is invalid, or no process is expected.
    """

    def __init__(
        self,
        place: Location,
        expected: Collection[str],
        coder: Coder | None = None,
        record_ids: bool = False,
        id_slack: int = 3_600_000_000,
        discard: bool = False,
    ) -> None:
        self._handover = Handover(place, coder or PickleCoder())
        self._expected = sorted(set(map(check_name, expected)))
        if not self._expected:
            raise HandoverError("no process is expected, so the watermark could never move; name at least one")
        self.record_ids, self.id_slack = record_ids, id_slack
        self._discard = discard
        self._declared = False
        self._wake: Callable[[], None] | None = None
        self._pipe: NotificationPipe | None = None
        self._had_all = False
        """Whether the last plan found nothing new, so that each later hand-over was to be announced."""
        self._silent: set[str] = set()
        """Processes whose newest hand-over was found without a notification: those of other hosts."""

    def start(self) -> object:
        """See `Injector`; nothing has been read yet."""
        return {}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """See `Injector`; the hand-overs of processes with the least watermark are read first.

        Raises `HandoverError` if a process has registered that is not expected.
        """
        before = _reached(position)
        self._declare(before)
        heard = set() if self._pipe is None else self._pipe.heard()
        reached = {name: before.get(name, HandoverPosition()) for name in self._expected}
        entries = self._take(reached, limit)
        after = {name: (one.taken, one.watermark, one.closed) for name, one in {**before, **reached}.items()}
        done = all(each.closed for each in reached.values())
        watermark = min(each.watermark for each in reached.values())
        parts = divided([entry.records for entry in entries if entry.count], splits)
        work = [HandoverSplit(self._handover, tuple(paths), self.record_ids) for paths in parts]
        self._check_announced(before, reached, heard)
        quiet = None if self._pipe is None or self._silent else _MISSED_SECONDS
        return Delivery(work, after, watermark, done=done, idle=not entries and not done, quiet_seconds=quiet)

    def wake_by(self, wake: Callable[[], None]) -> None:
        """See `BaseInjector`: processes on the host of the driver wake it if they share a local directory."""
        self._wake = wake

    def run_ended(self) -> None:
        """No longer listen to processes."""
        if self._pipe is not None:
            self._pipe.close()
        self._pipe, self._declared = None, False

    def committed(self, position: object) -> None:
        """Delete the hand-overs up to a committed position, if `discard` is set."""
        if self._discard:
            for name, reached in _reached(position).items():
                self._handover.discard(name, reached.taken + 1)

    def holder(self, position: object) -> str | None:
        """A description of the process that holds the watermark; None if all processes have closed."""
        before = _reached(position)
        behind = min(self._expected, key=lambda name: before.get(name, HandoverPosition()).watermark)
        reached = before.get(behind, HandoverPosition())
        if reached.closed:
            return None
        if not reached.taken:
            return f"process {behind!r}, which has never reported"
        if reached.watermark == MIN_TIMESTAMP:
            return f"process {behind!r}, which has not stated a watermark yet"
        return f"process {behind!r}, whose last watermark is {reached.watermark}"

    def _check_announced(
        self, before: Mapping[str, HandoverPosition], reached: Mapping[str, HandoverPosition], heard: set[str]
    ) -> None:
        """Note which processes have handed over without a notification since a plan that found nothing new."""
        found = {name for name, now in reached.items() if now != before.get(name, HandoverPosition())}
        if self._had_all:
            self._silent |= found
        self._silent -= heard | {name for name, now in reached.items() if now.closed}
        self._had_all = not found

    def _take(self, reached: dict[str, HandoverPosition], limit: int) -> list[HandoverEntry]:
        """Take hand-overs of about `limit` records, and advance `reached` in place."""
        waiting = {name: self._next(name, at) for name, at in reached.items()}
        taken: list[HandoverEntry] = []
        total = 0
        while total < limit and any(waiting.values()):
            name = min((name for name in waiting if waiting[name]), key=lambda name: (reached[name].watermark, name))
            entry = cast(HandoverEntry, waiting[name])
            reached[name] = reached[name].with_next(entry)
            waiting[name] = self._next(name, reached[name])
            taken.append(entry)
            total += entry.count
        return taken

    def _next(self, name: str, reached: HandoverPosition) -> HandoverEntry | None:
        return None if reached.closed else self._handover.entry(name, reached.taken + 1)

    def _declare(self, before: Mapping[str, HandoverPosition]) -> None:
        """Write the names of the expected processes, and refuse others. This happens once in a run."""
        if not self._declared:
            self._refuse_strangers(before)
            self._handover.expect(self._expected)
            # A process may have registered between the check and the write; processes that start later check the names.
            self._refuse_strangers(before)
            self._declared = True
            self._listen()

    def _listen(self) -> None:
        path = self._handover.pipe
        if path is not None and self._wake is not None:
            # Without a pipe the injector is asked at intervals.
            with suppress(OSError):
                self._pipe = NotificationPipe(path, self._expected, self._wake)

    def _refuse_strangers(self, before: Mapping[str, HandoverPosition]) -> None:
        closed = {name for name, reached in before.items() if reached.closed}
        if strangers := sorted(set(self._handover.registered()) - set(self._expected) - closed):
            raise HandoverError(
                f"process {strangers[0]!r} hands records over to {self._handover.store.describe()} but is not expected "
                f"(expected: {', '.join(self._expected)}), so they would be lost; expect it, or delete "
                f"processes/{strangers[0]} there; nothing is committed"
            )


class InjectorProcess:
    """A process that hands records to a `ProcessInjector`. It needs only the storage that both share.

    A hand-over is atomic, and contains records together with their watermark. A process that was killed is opened again
    under its name. It continues from `progress`, or writes again, with ids, the records of which it is not certain. An
    older process with the same name can then hand over nothing more.

    >>> import tempfile
    >>> place = tempfile.mkdtemp()
    >>> process = InjectorProcess.open(place, "host-a").write([("britney", 1), ("carly", 2)], progress="line 2")
    >>> InjectorProcess.open(place, "host-a").progress
    'line 2'
    >>> process.advance(3)
    Traceback (most recent call last):
      ...
    headrace.lowlevel.injectors.handover_log.HandoverError: process 'host-a' was started again elsewhere; ...
    """

    def __init__(self, handover: Handover, name: str) -> None:
        """For `open`: a process that has handed nothing over yet."""
        self._handover = handover
        self._pipe = handover.pipe
        self._name = name
        self._number = handover.last(name)
        self._last = handover.entry(name, self._number) or HandoverEntry()

    @classmethod
    def open(cls, place: Location, name: str, coder: Coder | None = None) -> Self:
        """Register the process, and write an entry, so that older processes with the name can hand over nothing more.

        Args:
            place: The directory, URL or store of the injector.
            name: One of the names that the injector expects.
            coder: Coder for lists of values, the same as the injector's.

        Raises:
            HandoverError: The name is invalid or not expected, or the process has closed.
        """
        handover = Handover(place, coder or PickleCoder())
        expected = handover.expected()
        if expected is not None and check_name(name) not in expected:
            raise HandoverError(
                f"no process {name!r} is expected at {handover.store.describe()} (expected: {', '.join(expected)}); "
                "correct the name, or expect it in the ProcessInjector"
            )
        handover.register(check_name(name))
        process = cls(handover, name)
        process._enter(HandoverEntry(process.watermark, progress=process.progress))
        return process

    @property
    def watermark(self) -> int:
        """The low watermark handed over last, microseconds UTC."""
        return self._last.watermark

    @property
    def progress(self) -> str:
        """The newest progress note; empty if there is none."""
        return self._last.progress

    def write(
        self,
        records: Iterable[tuple[object, int]],
        ids: Sequence[bytes] | None = None,
        watermark: int | None = None,
        progress: str | None = None,
    ) -> Self:
        """Hand over records, a watermark and a progress note atomically.

        Args:
            records: (value, timestamp in microseconds UTC) of each record. The order of records with one key is kept.
            ids: One for each record, if the injector has `record_ids`.
            watermark: The low watermark after the records, microseconds UTC; None leaves it unchanged.
            progress: A note of how far the process has read, for a restart; None leaves it unchanged.

        Raises:
            HandoverError: The hand-over is refused; nothing of it counts.
            StoreError: The store failed; the records may or may not have been handed over.
        """
        rows = list(records)
        if ids is not None and len(ids) != len(rows):
            raise HandoverError(f"process {self._name!r} gives {len(ids)} ids for {len(rows)} records; give one each")
        watermark, progress = self._later(watermark), self.progress if progress is None else progress
        batch = Batch([value for value, _ in rows], [timestamp for _, timestamp in rows], ids)
        path = self._handover.save(self._name, self._number + 1, batch) if rows else ""
        self._enter(HandoverEntry(watermark, len(rows), path, progress=progress))
        return self

    def advance(self, watermark: int) -> Self:
        """Declare that no record before `watermark` (microseconds UTC) follows. See `write` for errors.

        Raises `HandoverError` for a watermark before the last one.
        """
        return self.write((), watermark=watermark)

    def close(self) -> None:
        """Declare that the input of this process has ended. The process then no longer holds the watermark."""
        self._enter(HandoverEntry(self.watermark, closed=True, progress=self.progress))

    def _later(self, watermark: int | None) -> int:
        if watermark is None:
            return self.watermark
        if watermark < self.watermark:
            raise HandoverError(
                f"the watermark of process {self._name!r} is {self.watermark} and cannot go back to {watermark}; "
                "records behind it may be written, as late ones"
            )
        return watermark

    def _enter(self, entry: HandoverEntry) -> None:
        if self._last.closed:
            raise HandoverError(f"process {self._name!r} has closed its input; nothing can be handed over after that")
        if not self._handover.enter(self._name, self._number + 1, entry):
            raise HandoverError(
                f"process {self._name!r} was started again elsewhere; this one was replaced and can hand nothing over"
            )
        self._number, self._last = self._number + 1, entry
        if self._pipe is not None:
            notify(self._pipe, self._name)
