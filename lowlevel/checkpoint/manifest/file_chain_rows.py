"""Plans as JSON, for the commits that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.lowlevel.checkpoint.copy_plan import CopyPlan, Origin
from headrace.lowlevel.checkpoint.snapshot import Snapshot, SnapshotOrder


def plan_row(plan: CopyPlan) -> list[object]:
    """What JSON can hold of a plan."""
    return [
        *(plan.level, plan.interval, plan.start, plan.stop, _snapshot_row(plan.snapshot)),
        # The names in one string: there may be thousands, and joining them is all that is done with most of them.
        *(" ".join(plan.deltas), plan.replay_bytes),
        [(plan_row(origin.plan), origin.computations and sorted(origin.computations)) for origin in plan.origins],
    ]


def _snapshot_row(snapshot: Snapshot | None) -> dict[str, object] | None:
    if snapshot is None:
        return None
    order = snapshot.order
    return {
        **{name: getattr(order, name) for name in ("epoch", "last", "generation", "token")},
        "parts": snapshot.parts,
        "size": snapshot.size,
    }


def plan_of_row(row: Sequence[Any]) -> CopyPlan:
    """Back from `plan_row`."""
    level, interval, start, stop, snapshot, deltas, replay_bytes, origins = row
    return CopyPlan(
        *(level, interval, start, stop),
        None if snapshot is None else _snapshot(level, interval, snapshot),
        tuple(deltas.split()),
        replay_bytes,
        tuple(Origin(plan_of_row(plan), None if names is None else frozenset(names)) for plan, names in origins),
    )


def _snapshot(level: int, interval: int, row: dict[str, Any]) -> Snapshot:
    order = SnapshotOrder(level, interval, row["epoch"], row["last"], row["generation"], row["token"])
    return Snapshot(order, tuple((computation, count) for computation, count in row["parts"]), row["size"])
