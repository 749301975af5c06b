"""The commit of a changed topology: an epoch in which no computation runs (MillWheel paper §3).

No state is copied. A level whose computations stay, are removed, or are new keeps its intervals and their file chains.
A level that gets a computation with state from another level or from the archive gets intervals with new numbers, whose
file chains begin with the files that its computations had before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.lowlevel.checkpoint.compatibility import Name, Stored, TopologyDifference
from headrace.lowlevel.checkpoint.files.file_chain import FileChain, Origin
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, INJECTOR, SINK, Fingerprint, Member
from headrace.lowlevel.checkpoint.manifest.manifest import (
    SINK_LEVEL,
    Archived,
    Manifest,
    PendingProduction,
    oldest_by_consumer,
)
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap
from headrace.lowlevel.intervals.sequencer import NO_SEQUENCER, Sequencer
from headrace.lowlevel.records.column_block import decode_block
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.watermarks.authority import Authority, Holder
from headrace.lowlevel.watermarks.propagation import Frontier, Propagation

Back = Mapping[Name, Archived]
"""Computations and injectors that the change restores from the archive."""


def stored_in(manifest: Manifest, new: Fingerprint, delivered: bool = False) -> Stored:
    """The part of a commit that a change to another topology depends on.

    Args:
        manifest: The commit.
        new: The other topology.
        delivered: Whether the rows of the commit have certainly reached the sinks.
    """
    pending: dict[str, set[str]] = {}
    undelivered = set() if delivered else {sink for sink, receipts in manifest.receipts.items() if receipts}
    for item in manifest.pending:
        if item.level == SINK_LEVEL:
            undelivered.add(item.consumer)
        elif manifest.topology != new:
            pending.setdefault(item.consumer, set()).add(decode_block(item.data).stream)
    return Stored(
        topology=manifest.topology,
        archived={archived.name: archived.member for archived in manifest.archive},
        pending=pending,
        undelivered=undelivered,
    )


def succeeded(
    before: Manifest,
    change: TopologyDifference,
    topology: Topology,
    starts: Mapping[str, bytes],
    now: Sequencer,
    tasks: int,
) -> Manifest:
    """The commit that follows `before`.

    Args:
        before: The current state, with its file chains, and with the receipts that sinks are to deliver.
        change: A change that is not refused.
        topology: The new topology.
        starts: Stream of each new injector -> its encoded first position.
        now: The sequencer of new intervals.
        tasks: Number of tasks of a new level.
    """
    restored = {archived.name: archived for archived in before.archive if archived.name in change.restored}
    new_levels = _NewLevels(before, change, restored, now, tasks)
    manifest = replace(
        _with_computations(_with_injectors(before, change, restored, starts), change, restored, new_levels),
        epoch=before.epoch + 1,
        topology=change.new,
        intervals=new_levels.intervals,
        chains=new_levels.chains,
        left=new_levels.left,
        archive=_archive(before, change),
        deltas={},
        pending=tuple(_forwarded(before.pending, change, new_levels)),
    )
    manifest = replace(manifest, input_watermarks=_entered(topology, manifest))
    return replace(manifest, finished=manifest.is_over)


def _archive(before: Manifest, change: TopologyDifference) -> tuple[Archived, ...]:
    stays = (archived for archived in before.archive if archived.name not in change.restored | change.discarded)
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
        chains=tuple(chain for chain in before.chains.values() if chain.level == level and chain.last),
        hold=None if (holder := before.holders.get(name)) is None else (holder.timestamp, holder.key, holder.tag),
        wall_timer=min(before.wall_timers.get(name, {}).values(), default=None),
    )


class _NewLevels:
    """The levels of the new topology: intervals, file chains, and removed computations whose state is in the files."""

    def __init__(
        self, before: Manifest, change: TopologyDifference, restored: Back, now: Sequencer, tasks: int
    ) -> None:
        self.intervals: dict[int, IntervalMap] = {}
        self.chains: dict[tuple[int, int], FileChain] = {}
        self.left: dict[int, frozenset[str]] = {}
        self.level_of = change.new.level_of()
        self._before, self._change, self._back = before, change, restored
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
        """Whether a computation keeps its intervals."""
        level = self.level_of[computation]
        return self._old_level.get(computation) == level and self.intervals[level] == self._before.intervals[level]

    def _can_stay(self, level: int, names: Iterable[str]) -> bool:
        """Whether no computation joins the level with state, or with a name that the files of the level hold."""
        stored = self._removed(level) | self._before.left.get(level, frozenset())
        joining = [name for name in names if self._old_level.get(name) != level]
        return not any(name in stored or self._has_state(name) for name in joining)

    def _has_state(self, name: str) -> bool:
        existed = name in self._old_level or (COMPUTATION, name) in self._back
        return existed and bool(self._members[name].signature)

    def _removed(self, level: int) -> frozenset[str]:
        """Computations with state that are removed from a level, or begin with empty state."""
        levels, members = self._change.old.levels, self._change.old.of_kind(COMPUTATION)
        had = levels[level - 1] if level <= len(levels) else ()
        stay = {name for name in had if self._old_level.get(name) == level == self.level_of.get(name)}
        return frozenset(name for name in had if name not in stay and members[name].signature)

    def _stay(self, level: int, names: Iterable[str], old: IntervalMap) -> None:
        self.intervals[level] = old
        self.chains |= {(level, interval.number): self._before.chains[level, interval.number] for interval in old}
        if left := self._removed(level) | self._before.left.get(level, frozenset()):
            self.left[level] = left

    def _begin(self, level: int, names: Iterable[str], intervals: IntervalMap) -> None:
        self.intervals[level] = intervals
        for interval in intervals:
            self.chains[level, interval.number] = FileChain.of(level, interval, self._origins(interval, names))

    def _origins(self, interval: Interval, names: Iterable[str]) -> Iterable[Origin]:
        """The files that an interval begins with, for each level and archive that its computations had before."""
        by_level: dict[int, set[str]] = {}
        for name in filter(self._has_state, names):
            if (archived := self._back.get((COMPUTATION, name))) is not None:
                yield from (Origin(chain, frozenset([name])) for chain in _overlapping(archived.chains, interval))
            else:
                by_level.setdefault(self._old_level[name], set()).add(name)
        for level, computations in sorted(by_level.items()):
            chains = [chain for chain in self._before.chains.values() if chain.level == level]
            yield from (Origin(chain, frozenset(computations)) for chain in _overlapping(chains, interval))


def _overlapping(chains: Iterable[FileChain], interval: Interval) -> Iterable[FileChain]:
    return (chain for chain in chains if chain.last and chain.start < interval.stop and interval.start < chain.stop)


def _with_injectors(
    before: Manifest, change: TopologyDifference, restored: Back, starts: Mapping[str, bytes]
) -> Manifest:
    """The commit with the injectors of the new topology: unchanged, restored from the archive, or at their start."""
    positions: dict[str, bytes] = {}
    watermarks: dict[str, int] = {}
    greatest: dict[str, int] = {}
    ended: set[str] = set()
    for stream in change.new.of_kind(INJECTOR):
        if (INJECTOR, stream) in change.kept:
            positions[stream], watermarks[stream] = before.positions[stream], before.injector_watermarks[stream]
            greatest[stream] = before.greatest_timestamps[stream]
            ended |= {stream} & before.ended
        elif (archived := restored.get((INJECTOR, stream))) is not None:
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


def _with_computations(
    before: Manifest, change: TopologyDifference, restored: Back, new_levels: _NewLevels
) -> Manifest:
    """The commit with the computations of the new topology; watermarks of new computations are added later."""
    watermarks: dict[str, int] = {}
    outputs: dict[str, bytes] = {}
    holds: dict[str, Mapping[int, int]] = {}
    holders: dict[str, Holder] = {}
    timers: dict[str, Mapping[int, int]] = {}
    for name, level in new_levels.level_of.items():
        if change.stays(name):
            watermarks[name] = before.input_watermarks.get(name, MIN_TIMESTAMP)
            if name in before.output_watermarks:
                outputs[name] = _journaled(name, before, new_levels)
            holds[name] = _carried(name, before.holds, new_levels)
            timers[name] = _carried(name, before.wall_timers, new_levels)
            holders |= {name: before.holders[name]} if name in before.holders else {}
        elif (archived := restored.get((COMPUTATION, name))) is not None:
            first = new_levels.intervals[level].intervals[0].number
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


def _journaled(name: str, before: Manifest, new_levels: _NewLevels) -> bytes:
    """The journal of the watermark authority for a computation, by its new intervals."""
    authority, part = Authority(), before.output_watermarks[name]
    old = before.intervals[before.topology.level_of()[name]]
    authority.restore({name: part}, {name: old}, NO_SEQUENCER)
    authority.assign(name, new_levels.intervals[new_levels.level_of[name]], NO_SEQUENCER)
    return authority.journal()[name]


def _filled(by_name: Mapping[str, Mapping[int, int]]) -> dict[str, Mapping[int, int]]:
    return {name: values for name, values in by_name.items() if values}


def _carried(name: str, values: Mapping[str, Mapping[int, int]], new_levels: _NewLevels) -> Mapping[int, int]:
    """The values of a computation by interval; if its intervals change, each new one gets the least value."""
    by_interval = values.get(name, {})
    if not by_interval or new_levels.stays(name):
        return by_interval
    intervals = new_levels.intervals[new_levels.level_of[name]]
    return dict.fromkeys((interval.number for interval in intervals), min(by_interval.values()))


def _forwarded(
    pending: Iterable[PendingProduction], change: TopologyDifference, new_levels: _NewLevels
) -> Iterable[PendingProduction]:
    """Pending productions, for the level and intervals that their consumers have now."""
    for item in pending:
        if item.level == SINK_LEVEL:
            if item.consumer in change.new.of_kind(SINK):
                yield item
            continue
        level = new_levels.level_of.get(item.consumer)
        block = decode_block(item.data)
        if level is None or (item.consumer, block.stream) in change.dropped:
            continue
        if new_levels.stays(item.consumer):
            yield item
            continue
        yield from item._replace(level=level).divided(new_levels.intervals[level])


def _entered(topology: Topology, manifest: Manifest) -> dict[str, int]:
    """Input watermarks of all computations; those of new computations follow from their senders."""
    holds = {name: min(values.values()) for name, values in manifest.holds.items()}
    frontier = Frontier(manifest.injectors(), holds, oldest_by_consumer(manifest.pending))
    propagation = Propagation(topology)
    known, found = dict(manifest.input_watermarks), dict[str, int]()
    while True:
        reached = propagation.inputs(frontier, frontier, known | found)
        entered = {name: watermark for name, watermark in reached.items() if name not in known}
        # Computations on a circle follow their senders one round behind.
        if entered == found:
            return known | found
        found = entered
