"""An injector that is distributed over processes: its low watermark is the least of theirs (MillWheel paper §5.2).

The set of processes is given, so that one that is silent holds the watermark back instead of being forgotten. They hand
their records over through a directory or an object store, see `InjectorProcess`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from headrace.lowlevel.coder import Coder, PickleCoder
from headrace.lowlevel.handover import Entry, Handover, HandoverError, Place, check_name
from headrace.lowlevel.injector import BaseInjector, Delivery
from headrace.lowlevel.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP


@dataclass(frozen=True, slots=True)
class HandoverSplit:
    """Hand-overs for one task."""

    handover: Handover
    paths: tuple[str, ...]
    with_ids: bool = False
    """Whether every record must have an id."""

    def read(self) -> Iterable[Batch]:
        """One after the other. Raises `ValueError` for records without the ids that they must have."""
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
class Reached:
    """How far a process is. Persisted as part of a position: every field, as a tuple."""

    taken: int = 0
    """Number of its newest hand-over that was taken."""
    watermark: int = MIN_TIMESTAMP
    closed: bool = False

    def after(self, entry: Entry) -> Reached:
        """When another hand-over was taken."""
        watermark = MAX_TIMESTAMP if entry.closed else max(self.watermark, entry.watermark)
        return Reached(self.taken + 1, watermark, entry.closed)


def _reached(position: object) -> dict[str, Reached]:
    """Back from a position."""
    return {name: Reached(*fields) for name, fields in cast(Mapping[str, tuple[int, int, bool]], position).items()}


class ProcessInjector(BaseInjector):
    """Records of several processes that live on their own, wherever they are.

    Its watermark is the least of all expected processes: one that has never reported, or has stopped, holds it, and
    `explain` names it. The input has ended when all have closed.

    Args:
        place: A directory or URL that processes, driver and workers reach, for this injector alone. Values are
            pickles unless there is another coder: whoever may write there can run code here.
        expected: Names of the processes. They can be others after a restart; one that has not closed must stay.
        coder: How lists of values become bytes.
        record_ids: Whether processes give each record an id, so that what they hand over twice counts once. Records
            without one stop the run then.
        id_slack: How long ids are kept after the watermark has passed their record, microseconds of event time.
        discard: Whether to delete what is committed; otherwise it is kept.
    """

    def __init__(
        self,
        place: Place,
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

    def start(self) -> object:
        """Nothing taken yet."""
        return {}

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """What processes have handed over since; those that are behind go first. Raises `HandoverError`."""
        before = _reached(position)
        self._declare(before)
        reached = {name: before.get(name, Reached()) for name in self._expected}
        entries = self._take(reached, limit)
        after = {name: (one.taken, one.watermark, one.closed) for name, one in {**before, **reached}.items()}
        done = all(each.closed for each in reached.values())
        watermark = min(each.watermark for each in reached.values())
        parts = _shared([entry.records for entry in entries if entry.count], splits)
        work = [HandoverSplit(self._handover, tuple(paths), self.record_ids) for paths in parts]
        return Delivery(work, after, watermark, done=done, idle=not entries and not done)

    def committed(self, position: object) -> None:
        """What was taken up to this position is safe."""
        if self._discard:
            for name, reached in _reached(position).items():
                self._handover.discard(name, reached.taken + 1)

    def holder(self, position: object) -> str | None:
        """The process that the watermark waits for, in words."""
        before = _reached(position)
        behind = min(self._expected, key=lambda name: before.get(name, Reached()).watermark)
        reached = before.get(behind, Reached())
        if reached.closed:
            return None
        if not reached.taken:
            return f"process {behind!r}, which has never reported"
        if reached.watermark == MIN_TIMESTAMP:
            return f"process {behind!r}, which has not stated a watermark yet"
        return f"process {behind!r}, whose last watermark is {reached.watermark}"

    def _take(self, reached: dict[str, Reached], limit: int) -> list[Entry]:
        """Hand-overs of about `limit` records; `reached` moves on."""
        waiting = {name: self._next(name, at) for name, at in reached.items()}
        taken: list[Entry] = []
        total = 0
        while total < limit and any(waiting.values()):
            name = min((name for name in waiting if waiting[name]), key=lambda name: (reached[name].watermark, name))
            entry = cast(Entry, waiting[name])
            reached[name] = reached[name].after(entry)
            waiting[name] = self._next(name, reached[name])
            taken.append(entry)
            total += entry.count
        return taken

    def _next(self, name: str, reached: Reached) -> Entry | None:
        return None if reached.closed else self._handover.entry(name, reached.taken + 1)

    def _declare(self, before: Mapping[str, Reached]) -> None:
        """Once a run: say whom we wait for, and refuse those for whom we do not."""
        if not self._declared:
            self._refuse_strangers(before)
            self._handover.expect(self._expected)
            # One may have come between the first look and the list of names, which refuses those that come later.
            self._refuse_strangers(before)
            self._declared = True

    def _refuse_strangers(self, before: Mapping[str, Reached]) -> None:
        closed = {name for name, reached in before.items() if reached.closed}
        if strangers := sorted(set(self._handover.registered()) - set(self._expected) - closed):
            raise HandoverError(
                f"process {strangers[0]!r} hands records over to {self._handover.store.describe()} but is not expected "
                f"(expected: {', '.join(self._expected)}), so they would be lost; expect it, or delete "
                f"processes/{strangers[0]} there; nothing is committed"
            )


def _shared(paths: list[str], splits: int) -> list[list[str]]:
    """The paths in order, in about as many parts."""
    size = max(1, -(-len(paths) // max(1, splits)))
    return [paths[at : at + size] for at in range(0, len(paths), size)]
