"""A checkpoint as somebody sees it who only looks: nothing is written, no driver is disturbed."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.checkpoint import fence, paths
from headrace.lowlevel.checkpoint.copy_plan import merged
from headrace.lowlevel.checkpoint.fence import Lease
from headrace.lowlevel.checkpoint.log import look
from headrace.lowlevel.checkpoint.manifest import Manifest
from headrace.lowlevel.checkpoint.marker import read_marker
from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.state import MemoryCopy
from headrace.lowlevel.store import Store


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """The last commit of a checkpoint, and a way to the state that it names."""

    store: Store
    identity: str
    """The same for as long as the checkpoint exists; another one at the same place has another."""
    manifest: Manifest | None
    """The last commit, with watermarks, counters and everything else; None before the first."""
    lease: Lease | None
    """Who drives it, or drove it last."""

    @classmethod
    def of(cls, store: Store) -> CheckpointView:
        """The view of a checkpoint as it is now. Raises `CheckpointError` where there is none, or a damaged one."""
        if (identity := read_marker(store)) is None:
            raise CheckpointError(f"there is no checkpoint at {store.describe()}; correct the name of the place")
        position = look(store)
        generation = fence.newest(store, paths.LEASES)
        lease = fence.read_lease(store, generation) if generation else None
        return cls(store, identity, position.manifest, lease)

    def load(self, computation: str) -> MemoryCopy:
        """The whole state of a computation, in memory. Raises `CheckpointError` naming a file that is damaged."""
        level = self._level(computation)
        plans = [] if self.manifest is None else self.manifest.plans.values()
        loaded = [plan.load(self.store, computation) for plan in plans if plan.level == level]
        return merged(copies[computation] for copies in loaded if computation in copies)

    def _level(self, computation: str) -> int:
        levels = () if self.manifest is None else self.manifest.topology.levels
        for level, names in enumerate(levels, 1):
            if computation in names:
                return level
        known = ", ".join(name for names in levels for name in names) or "none"
        raise CheckpointError(
            f"{self.store.describe()} has no state of a computation {computation!r} (computations: {known})"
        )
