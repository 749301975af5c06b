"""A topology made ready for running tasks, once in a process (paper §4: computations are set up, then fed)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property

from headrace.lowlevel.failure import failed_step
from headrace.lowlevel.intervalcomputation import IntervalComputation
from headrace.lowlevel.metric import at
from headrace.lowlevel.places import Places
from headrace.lowlevel.sink import ReleasingSink
from headrace.lowlevel.topology import Inline, Keyed, Topology
from headrace.lowlevel.watermark import Propagation
from headrace.lowlevel.weak import releasing_sinks, weak_streams

_log = logging.getLogger(__name__)


@dataclass
class Program:
    """A topology made ready for running tasks; one a process."""

    topology: Topology
    places: Places = field(default_factory=Places)
    """What routers remember of keys from task to task."""
    _ready: bool = False
    _live: dict[int, Keyed | Inline] = field(default_factory=dict)
    """Identity of each instance that is set up and not torn down -> its place."""
    _over: Exception | None = None
    """What to raise if this is to be set up: an instance that was torn down is not set up again."""

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
    def weak_streams(self) -> frozenset[str]:
        """Streams of weak productions."""
        return weak_streams(self.topology)

    @cached_property
    def releasing(self) -> dict[str, ReleasingSink]:
        """Sinks that get their rows before the commit."""
        return releasing_sinks(self.topology)

    @cached_property
    def partial(self) -> dict[str, frozenset[str]]:
        """Computation -> see `Topology.partial_streams`."""
        return {name: self.topology.partial_streams(name) for name in self.topology.keyed}

    @cached_property
    def by_columns(self) -> frozenset[str]:
        """Computations that take all records of an interval at once."""
        return frozenset(
            name for name, place in self.topology.keyed.items() if isinstance(place.computation, IntervalComputation)
        )

    @property
    def is_over(self) -> bool:
        """Whether its instances were torn down, or not all could be set up: what runs next needs a program anew."""
        return self._over is not None

    def setup(self) -> None:
        """Call `setup` of every computation, once in a process.

        If one fails, those before it are torn down, and asked again it raises the same error without calling any.
        """
        if self._over is not None:
            raise self._over
        if self._ready:
            return
        for place in self.topology.places():
            if id(place.computation) in self._live:
                continue
            try:
                with at(place.step):
                    place.computation.setup()
            except Exception as error:
                self._over = failed_step(error, place.name, None, None)
                self.teardown()
                raise self._over from error
            self._live[id(place.computation)] = place
        self._ready = True

    def teardown(self) -> None:
        """Call `teardown` of every computation that was set up, the last one first: no task follows."""
        self._over = self._over or RuntimeError("this program was torn down; unpack the topology again")
        while self._live:
            _tear_down(self._live.popitem()[1])

    def give_way(self, following: Program) -> None:
        """Another topology follows: instances that it has too live on there, the others are torn down."""
        for place in following.topology.places():
            if self._live.pop(id(place.computation), None) is not None:
                following._live[id(place.computation)] = place
        self.teardown()


def _tear_down(place: Keyed | Inline) -> None:
    try:
        place.computation.teardown()
    except Exception:
        # Nothing depends on it any more: what the run did is committed, or its own error is on the way.
        _log.warning("step %r failed in teardown, after its last bundle", place.step, exc_info=True)
