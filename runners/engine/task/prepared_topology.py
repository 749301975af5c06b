"""A topology prepared for running tasks, once in a process: computations are set up, then run (paper §4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from headrace.lowlevel.metric import at
from headrace.lowlevel.shuffle.partition_buffer import KeyHashCache
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.lowlevel.topology.nodes import Inline, Keyed
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import failed_step
from headrace.lowlevel.watermarks.propagation import Propagation
from headrace.runners.engine.messages import EpochSpec, TaskReport
from headrace.runners.engine.productions import BeginRelease, Productions

_log = logging.getLogger(__name__)


@dataclass
class PreparedTopology:
    """A topology prepared for running tasks; one for each process."""

    topology: Topology
    key_hashes: KeyHashCache = field(default_factory=KeyHashCache)
    """Hashes of recent keys, which routers share from task to task."""
    _ready: bool = False
    _live: dict[int, Keyed | Inline] = field(default_factory=dict)
    """Identity of each computation that is set up and not torn down -> node."""
    _over: Exception | None = None
    """Raised by `setup` after a failed setup or a teardown: a computation is set up once."""

    @cached_property
    def propagation(self) -> Propagation:
        """How watermarks flow."""
        return Propagation(self.topology)

    @cached_property
    def levels(self) -> list[list[str]]:
        """Computations by level, level 1 first."""
        return self.topology.levels()

    @cached_property
    def inline_order(self) -> list[str]:
        """Inline computations, each after those that feed it."""
        return self.topology.inline_order()

    @cached_property
    def productions(self) -> Callable[[BeginRelease, EpochSpec, TaskReport], Productions]:
        """See `Productions.of`."""
        return Productions.of(self.topology)

    @cached_property
    def partial(self) -> dict[str, frozenset[str]]:
        """Computation -> see `Topology.partial_streams`."""
        return {name: self.topology.partial_streams(name) for name in self.topology.keyed}

    @cached_property
    def by_columns(self) -> frozenset[str]:
        """Computations that process all records of an interval at once."""
        return frozenset(
            name for name, node in self.topology.keyed.items() if isinstance(node.computation, IntervalComputation)
        )

    @property
    def is_over(self) -> bool:
        """Whether computations were torn down, or one could not be set up: the next task needs a new instance."""
        return self._over is not None

    def setup(self) -> None:
        """Call `task_begins` of the topology, and `setup` of every computation once in a process; each task does so.

        If one fails, those before it are torn down. Later calls raise the same error without another `setup`.
        """
        if self._over is not None:
            raise self._over
        if self.topology.task_begins is not None:
            self.topology.task_begins()
        if self._ready:
            return
        for node in self.topology.nodes():
            if id(node.computation) in self._live:
                continue
            try:
                with at(node.step):
                    node.computation.setup()
            except Exception as error:
                self._over = failed_step(error, node.name, None, None)
                self.teardown()
                raise self._over from error
            self._live[id(node.computation)] = node
        self._ready = True

    def teardown(self) -> None:
        """Call `teardown` of every computation that was set up, in reverse order; no task follows."""
        self._over = self._over or RuntimeError("this topology was torn down; unpack it again")
        while self._live:
            _tear_down(self._live.popitem()[1])

    def give_way(self, following: PreparedTopology) -> None:
        """End in favour of `following`: computations that it has, too, stay set up for it; the others are torn down."""
        for node in following.topology.nodes():
            if self._live.pop(id(node.computation), None) is not None:
                following._live[id(node.computation)] = node
        self.teardown()


def _tear_down(node: Keyed | Inline) -> None:
    try:
        node.computation.teardown()
    except Exception:
        # Nothing depends on the teardown: the run is committed, or ends with another error.
        _log.warning("step %r failed in teardown, after its last bundle", node.step, exc_info=True)
