"""How a commit, or a change of key intervals, changes what makes up the state of each interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.checkpoint.copy_plan import CopyPlan, Origin
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.checkpoint.snapshot import Snapshot
from headrace.lowlevel.intervals import Interval, IntervalMap

Place = tuple[int, int]
"""Level and number of an interval."""
Plans = Mapping[Place, CopyPlan]


def advanced(before: Manifest | None, manifest: Manifest, snapshots: Iterable[Snapshot]) -> dict[Place, CopyPlan]:
    """The plans that a commit makes true: those before it, on new snapshots, with its deltas at the end.

    Snapshots of intervals that are gone count for nothing. Raises ValueError for anything that would lose state.
    """
    plans = rearranged({} if before is None else before.plans, manifest.intervals)
    for snapshot in snapshots:
        place = (snapshot.order.level, snapshot.order.interval)
        if place in plans:
            plans[place] = plans[place].on(snapshot)
    for place, file in manifest.deltas.items():
        if place not in plans:
            raise ValueError(f"level {place[0]} has no interval {place[1]} in epoch {manifest.epoch}'s interval map")
        if file is not None:
            plans[place] = plans[place].after(file)
    lost = () if before is None else before.intervals.keys() - manifest.intervals.keys()
    if lost:
        raise ValueError(f"level {min(lost)} is not in epoch {manifest.epoch}'s interval map, but has state")
    return plans


def rearranged(plans: Plans, intervals: Mapping[int, IntervalMap]) -> dict[Place, CopyPlan]:
    """The plans for other intervals, or the same: what is new begins with what overlaps it.

    Raises ValueError for an interval that has the number of another one.
    """
    return {
        (level, interval.number): _plan_of(plans, level, interval)
        for level, of_level in intervals.items()
        for interval in of_level
    }


def _plan_of(plans: Plans, level: int, interval: Interval) -> CopyPlan:
    old = plans.get((level, interval.number))
    if old is not None and (old.start, old.stop) == (interval.start, interval.stop):
        return old
    if old is not None:
        raise ValueError(f"interval {interval.number} of level {level} has new bounds; give it a number of its own")
    origins = [
        Origin(plan)
        for plan in plans.values()
        if plan.level == level and plan.last and plan.start < interval.stop and interval.start < plan.stop
    ]
    return CopyPlan.of(level, interval, origins)
