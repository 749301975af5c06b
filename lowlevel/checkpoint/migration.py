"""The commit that makes a change of topology true: an epoch in which nothing runs (MillWheel paper §3).

State stays in the files that it is in. A level whose computations stay, go, or are new to it keeps its intervals and
their plans; one that gets a computation with state from elsewhere gets intervals of new numbers, whose plans begin with
what each of its computations had, wherever that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.lowlevel.authority import Authority
from headrace.lowlevel.checkpoint.archive import Archived
from headrace.lowlevel.checkpoint.change import Change, Name, Stored
from headrace.lowlevel.checkpoint.copy_plan import CopyPlan, Origin
from headrace.lowlevel.checkpoint.fingerprint import COMPUTATION, INJECTOR, SINK, Fingerprint, Member
from headrace.lowlevel.checkpoint.manifest import SINK_LEVEL, Holder, Manifest, PendingProduction
from headrace.lowlevel.columnparcel import decode_parcel
from headrace.lowlevel.intervals import Interval, IntervalMap
from headrace.lowlevel.sequencer import NO_SEQUENCER, Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology import Topology
from headrace.lowlevel.watermark import Frontier, Propagation

Back = Mapping[Name, Archived]
"""What comes back from the archive."""


def stored_in(manifest: Manifest, new: Fingerprint, delivered: bool = False) -> Stored:
    """What a commit has, as far as a change to another topology is concerned.

    `delivered` says that its rows have surely reached the sinks.
    """
    pending: dict[str, set[str]] = {}
    undelivered = set() if delivered else {sink for sink, receipts in manifest.receipts.items() if receipts}
    for item in manifest.pending:
        if item.level == SINK_LEVEL:
            undelivered.add(item.consumer)
        elif manifest.topology != new:
            pending.setdefault(item.consumer, set()).add(decode_parcel(item.data).stream)
    return Stored(
        topology=manifest.topology,
        archived={one.name: one.member for one in manifest.archive},
        pending=pending,
        undelivered=undelivered,
    )


def succeeded(
    before: Manifest, change: Change, topology: Topology, starts: Mapping[str, bytes], now: Sequencer, tasks: int
) -> Manifest:
    """The commit that follows `before`.

    Args:
        before: What is true now, with the plans of its intervals, and receipts of sinks that are to be delivered now.
        change: A change that is not refused.
        topology: The new one.
        starts: Injector stream -> encoded position of a run that starts from nothing; for every injector that is new.
        now: The sequencer of new intervals.
        tasks: Of a level that did not exist.
    """
    back = {one.name: one for one in before.archive if one.name in change.restored}
    places = _Places(before, change, back, now, tasks)
    manifest = replace(
        _with_computations(_with_injectors(before, change, back, starts), change, back, places),
        epoch=before.epoch + 1,
        topology=change.new,
        intervals=places.intervals,
        plans=places.plans,
        left=places.left,
        archive=_archive(before, change),
        deltas={},
        pending=tuple(_forwarded(before.pending, change, places)),
    )
    manifest = replace(manifest, input_watermarks=_entered(topology, manifest))
    return replace(manifest, finished=manifest.is_over)


def _archive(before: Manifest, change: Change) -> tuple[Archived, ...]:
    stays = (one for one in before.archive if one.name not in change.restored | change.discarded)
    return (*stays, *(_archived(before, member) for member in change.archived))


def _archived(before: Manifest, member: Member) -> Archived:
    name = member.name
    if member.kind == INJECTOR:
        return Archived(
            member=member,
            epoch=before.epoch,
            watermark=before.injector_watermarks[name],
            position=before.positions[name],
            greatest=before.greatest_timestamps[name],
            ended=name in before.ended,
        )
    level = before.topology.level_of()[name]
    return Archived(
        member=member,
        epoch=before.epoch,
        watermark=before.input_watermarks.get(name, MIN_TIMESTAMP),
        plans=tuple(plan for plan in before.plans.values() if plan.level == level and plan.last),
        hold=None if (holder := before.holders.get(name)) is None else (holder.timestamp, holder.key, holder.tag),
        wall_timer=min(before.wall_timers.get(name, {}).values(), default=None),
    )


class _Places:
    """The levels of the new topology: their intervals, where their state is, and whose is left over there."""

    def __init__(self, before: Manifest, change: Change, back: Back, now: Sequencer, tasks: int) -> None:
        self.intervals: dict[int, IntervalMap] = {}
        self.plans: dict[tuple[int, int], CopyPlan] = {}
        self.left: dict[int, frozenset[str]] = {}
        self.level_of = change.new.level_of()
        self._before, self._change, self._back = before, change, back
        self._old_level = {name: level for name, level in change.old.level_of().items() if change.stays(name)}
        self._members = change.new.of_kind(COMPUTATION)
        for level, names in enumerate(change.new.levels, 1):
            old = before.intervals.get(level)
            if old is None:
                self._begin(level, names, IntervalMap.evenly(tasks, now))
            elif self._can_stay(level, names):
                self._stay(level, names, old)
            else:
                self._begin(level, names, old.renumbered(now))

    def stays(self, computation: str) -> bool:
        """Whether a computation's intervals are those that it had."""
        level = self.level_of[computation]
        return self._old_level.get(computation) == level and self.intervals[level] == self._before.intervals[level]

    def _can_stay(self, level: int, names: Iterable[str]) -> bool:
        """Whether nothing comes with state, nor under a name of which the level's files tell."""
        here = self._gone(level) | self._before.left.get(level, frozenset())
        joining = [name for name in names if self._old_level.get(name) != level]
        return not any(name in here or self._has_state(name) for name in joining)

    def _has_state(self, name: str) -> bool:
        known = name in self._old_level or (COMPUTATION, name) in self._back
        return known and bool(self._members[name].signature)

    def _gone(self, level: int) -> frozenset[str]:
        """What was on a level and is not, or begins anew."""
        levels, members = self._change.old.levels, self._change.old.of_kind(COMPUTATION)
        had = levels[level - 1] if level <= len(levels) else ()
        stay = {name for name in had if self._old_level.get(name) == level == self.level_of.get(name)}
        return frozenset(name for name in had if name not in stay and members[name].signature)

    def _stay(self, level: int, names: Iterable[str], old: IntervalMap) -> None:
        self.intervals[level] = old
        self.plans |= {(level, one.number): self._before.plans[level, one.number] for one in old}
        if left := self._gone(level) | self._before.left.get(level, frozenset()):
            self.left[level] = left

    def _begin(self, level: int, names: Iterable[str], intervals: IntervalMap) -> None:
        self.intervals[level] = intervals
        for one in intervals:
            self.plans[level, one.number] = CopyPlan.of(level, one, self._origins(one, names))

    def _origins(self, interval: Interval, names: Iterable[str]) -> Iterable[Origin]:
        """What an interval begins with: for each level and archive that its computations come from."""
        by_level: dict[int, set[str]] = {}
        for name in filter(self._has_state, names):
            if (archived := self._back.get((COMPUTATION, name))) is not None:
                yield from (Origin(plan, frozenset([name])) for plan in _overlapping(archived.plans, interval))
            else:
                by_level.setdefault(self._old_level[name], set()).add(name)
        for level, its in sorted(by_level.items()):
            plans = [plan for plan in self._before.plans.values() if plan.level == level]
            yield from (Origin(plan, frozenset(its)) for plan in _overlapping(plans, interval))


def _overlapping(plans: Iterable[CopyPlan], interval: Interval) -> Iterable[CopyPlan]:
    return (plan for plan in plans if plan.last and plan.start < interval.stop and interval.start < plan.stop)


def _with_injectors(before: Manifest, change: Change, back: Back, starts: Mapping[str, bytes]) -> Manifest:
    """What a commit says of injectors: as it was, as it was archived, or from the start."""
    positions: dict[str, bytes] = {}
    watermarks: dict[str, int] = {}
    greatest: dict[str, int] = {}
    ended: set[str] = set()
    for stream in change.new.of_kind(INJECTOR):
        if (INJECTOR, stream) in change.kept:
            positions[stream], watermarks[stream] = before.positions[stream], before.injector_watermarks[stream]
            greatest[stream] = before.greatest_timestamps[stream]
            ended |= {stream} & before.ended
        elif (archived := back.get((INJECTOR, stream))) is not None:
            positions[stream], watermarks[stream] = archived.position, archived.watermark
            greatest[stream] = archived.greatest
            ended |= {stream} if archived.ended else set()
        else:
            positions[stream], watermarks[stream], greatest[stream] = starts[stream], MIN_TIMESTAMP, MIN_TIMESTAMP
    return replace(
        before,
        positions=positions,
        ended=frozenset(ended),
        injector_watermarks=watermarks,
        greatest_timestamps=greatest,
        lateness={stream: counts for stream, counts in before.lateness.items() if (INJECTOR, stream) in change.kept},
    )


def _with_computations(before: Manifest, change: Change, back: Back, places: _Places) -> Manifest:
    """What a commit says of computations, but for the watermarks of those that are new."""
    watermarks: dict[str, int] = {}
    outputs: dict[str, bytes] = {}
    holds: dict[str, Mapping[int, int]] = {}
    holders: dict[str, Holder] = {}
    timers: dict[str, Mapping[int, int]] = {}
    for name, level in places.level_of.items():
        if change.stays(name):
            watermarks[name] = before.input_watermarks.get(name, MIN_TIMESTAMP)
            if name in before.output_watermarks:
                outputs[name] = _journaled(name, before, places)
            holds[name] = _carried(name, before.holds, places)
            timers[name] = _carried(name, before.wall_timers, places)
            holders |= {name: before.holders[name]} if name in before.holders else {}
        elif (archived := back.get((COMPUTATION, name))) is not None:
            first = places.intervals[level].intervals[0].number
            watermarks[name] = archived.watermark
            holds[name] = {} if archived.hold is None else {first: archived.hold[0]}
            holders |= {} if archived.hold is None else {name: Holder(*archived.hold)}
            timers[name] = {} if archived.wall_timer is None else {first: archived.wall_timer}
    return replace(
        before,
        input_watermarks=watermarks,
        output_watermarks=outputs,
        holds=_filled(holds),
        holders=holders,
        wall_timers=_filled(timers),
    )


def _journaled(name: str, before: Manifest, places: _Places) -> bytes:
    """What the watermark authority knows of a computation, by its intervals now."""
    authority, part = Authority(), before.output_watermarks[name]
    old = before.intervals[before.topology.level_of()[name]]
    authority.restore({name: part}, {name: old}, NO_SEQUENCER)
    authority.assign(name, places.intervals[places.level_of[name]], NO_SEQUENCER)
    return authority.journal()[name]


def _filled(by_name: Mapping[str, Mapping[int, int]]) -> dict[str, Mapping[int, int]]:
    return {name: values for name, values in by_name.items() if values}


def _carried(name: str, values: Mapping[str, Mapping[int, int]], places: _Places) -> Mapping[int, int]:
    """Values by interval; where the intervals are others, the least of them for each."""
    its = values.get(name, {})
    if not its or places.stays(name):
        return its
    return dict.fromkeys((one.number for one in places.intervals[places.level_of[name]]), min(its.values()))


def _forwarded(pending: Iterable[PendingProduction], change: Change, places: _Places) -> Iterable[PendingProduction]:
    """Productions under way, to where their consumers are now."""
    for item in pending:
        if item.level == SINK_LEVEL:
            if item.consumer in change.new.of_kind(SINK):
                yield item
            continue
        level = places.level_of.get(item.consumer)
        parcel = decode_parcel(item.data)
        if level is None or (item.consumer, parcel.stream) in change.dropped:
            continue
        if places.stays(item.consumer):
            yield item
            continue
        for interval, part in parcel.divided(places.intervals[level]).items():
            yield PendingProduction(level, interval.number, item.consumer, part.oldest(), part.encode())


def _entered(topology: Topology, manifest: Manifest) -> dict[str, int]:
    """Input watermarks, those of new computations where their senders are."""
    pending: dict[str, int] = {}
    for item in (one for one in manifest.pending if one.level != SINK_LEVEL):
        pending[item.consumer] = min(item.oldest, pending.get(item.consumer, MAX_TIMESTAMP))
    holds = {name: min(values.values()) for name, values in manifest.holds.items()}
    frontier, propagation = Frontier(manifest.injectors(), holds, pending), Propagation(topology)
    known, found = dict(manifest.input_watermarks), dict[str, int]()
    while True:
        reached = propagation.inputs(frontier, frontier, known | found)
        entered = {name: watermark for name, watermark in reached.items() if name not in known}
        # Those on circles follow their senders a step behind.
        if entered == found:
            return known | found
        found = entered
