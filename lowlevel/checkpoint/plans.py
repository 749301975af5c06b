"""How a commit changes what makes up the state of each interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.lowlevel.checkpoint.copy_plan import CopyPlan
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.checkpoint.snapshot import Snapshot

Place = tuple[int, int]
"""Level and interval."""


def advanced(before: Manifest | None, manifest: Manifest, snapshots: Iterable[Snapshot]) -> dict[Place, CopyPlan]:
    """The plans that a commit makes true: those before it, on new snapshots, with its deltas at the end.

    A level whose key intervals changed starts again from snapshots, one for each of its new intervals, which hold the
    state of the commit before. Raises ValueError for anything that would lose state.
    """
    ready = {(snapshot.order.level, snapshot.order.interval): snapshot for snapshot in snapshots}
    plans: dict[Place, CopyPlan] = {}
    for level, intervals in manifest.intervals.items():
        moved = before is not None and before.intervals.get(level, intervals) != intervals
        for index in range(len(intervals)):
            place = (level, index)
            snapshot = ready.pop(place, None)
            if moved and before is not None:
                plan = _restarted(place, before, snapshot)
            else:
                plan = CopyPlan(*place) if before is None else before.plans.get(place, CopyPlan(*place))
                plan = plan if snapshot is None else plan.on(snapshot)
            plans[place] = plan
    _refuse_lost(before, manifest, [*ready, *manifest.deltas], plans)
    for place, file in manifest.deltas.items():
        if file is not None:
            plans[place] = plans[place].after(file)
    return plans


def _restarted(place: Place, before: Manifest, snapshot: Snapshot | None) -> CopyPlan:
    if snapshot is not None and not snapshot.order.last and snapshot.order.epoch == before.epoch:
        return CopyPlan(*place, snapshot)
    if any(plan.last for (level, _), plan in before.plans.items() if level == place[0]):
        raise ValueError(
            f"the key intervals of level {place[0]} change, but interval {place[1]} comes without a snapshot that it "
            f"begins with and that holds the state of epoch {before.epoch}"
        )
    return CopyPlan(*place)


def _refuse_lost(
    before: Manifest | None, manifest: Manifest, named: Iterable[Place], plans: Mapping[Place, CopyPlan]
) -> None:
    for place in named:
        if place not in plans:
            raise ValueError(f"level {place[0]} has no interval {place[1]} in epoch {manifest.epoch}'s interval map")
    lost = () if before is None else before.intervals.keys() - manifest.intervals.keys()
    if lost:
        raise ValueError(f"level {min(lost)} is not in epoch {manifest.epoch}'s interval map, but has state")
