"""Changes of the intervals' file chains by a commit or by new key intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.checkpoint.files.file_chain import FileChain, Origin
from headrace.lowlevel.checkpoint.files.snapshot import SnapshotParts
from headrace.lowlevel.checkpoint.manifest.manifest import Manifest
from headrace.lowlevel.intervals.interval_map import Interval, IntervalMap

LevelInterval = tuple[int, int]
"""Level and number of an interval."""
Chains = Mapping[LevelInterval, FileChain]


def advanced(
    before: Manifest | None, manifest: Manifest, snapshots: Iterable[SnapshotParts], place: int
) -> dict[LevelInterval, FileChain]:
    """The file chains of a commit at a place of the log: those before it, with new snapshots and the commit's deltas.

    Snapshots of intervals that no longer exist are ignored. Raises ValueError if state would be lost.
    """
    chains = rearranged({} if before is None else before.chains, manifest.intervals)
    for snapshot in snapshots:
        key = (snapshot.order.level, snapshot.order.interval)
        if key in chains:
            chains[key] = chains[key].on(snapshot)
    for key, file in manifest.deltas.items():
        if key not in chains:
            raise ValueError(f"level {key[0]} has no interval {key[1]} in epoch {manifest.epoch}'s interval map")
        if file is not None:
            chains[key] = chains[key].after(file, place)
    lost = () if before is None else before.intervals.keys() - manifest.intervals.keys()
    if lost:
        raise ValueError(f"level {min(lost)} is not in epoch {manifest.epoch}'s interval map, but has state")
    return chains


def rearranged(chains: Chains, intervals: Mapping[int, IntervalMap]) -> dict[LevelInterval, FileChain]:
    """The file chains of other (or the same) intervals; the origins of a new interval are the chains that overlap it.

    Raises ValueError for an interval with new bounds that has the number of an old one.
    """
    return {
        (level, interval.number): _chain_of(chains, level, interval)
        for level, level_intervals in intervals.items()
        for interval in level_intervals
    }


def _chain_of(chains: Chains, level: int, interval: Interval) -> FileChain:
    old = chains.get((level, interval.number))
    if old is not None and (old.start, old.stop) == (interval.start, interval.stop):
        return old
    if old is not None:
        raise ValueError(f"interval {interval.number} of level {level} has new bounds; give it a number of its own")
    origins = [
        Origin(chain)
        for chain in chains.values()
        if chain.level == level and chain.last and chain.start < interval.stop and interval.start < chain.stop
    ]
    return FileChain.of(level, interval, origins)
