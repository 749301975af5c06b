"""Plans the next epoch, decides whether it would do anything, and waits if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.lowlevel.errors import StalledError
from headrace.lowlevel.injectors.injector import Delivery, Injector
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import failing
from headrace.lowlevel.watermarks.explain import furthest_back
from headrace.lowlevel.watermarks.propagation import too_far_ahead
from headrace.runners.engine.activity import Activity, RunPhase
from headrace.runners.engine.clock import Clock, Wakeup
from headrace.runners.engine.driver.journal import JournalState
from headrace.runners.engine.driver.running_topology import RunningTopology
from headrace.runners.engine.executor import Executor
from headrace.runners.engine.options import Hooks, RunOptions

_LONGEST = 3600.0
"""Longest wait for input, in seconds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The deliveries of an epoch and the reading of its clock."""

    deliveries: dict[str, Delivery]
    """By injector stream."""
    clock: int
    """The reading of the wall clock, microseconds UTC."""
    skew_limit: float | None = None
    """Seconds that one injector may be ahead of another; None for no limit."""
    limit: int = 0
    """About the greatest number of records that each injector was asked for; 0 if none was."""

    @property
    def idle(self) -> bool:
        """Whether no injector has anything new."""
        return all(delivery.idle for delivery in self.deliveries.values())


class Planner:
    """Plans the epochs of one driver, and waits while there is nothing to plan for."""

    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        options: RunOptions,
        hooks: Hooks,
        wakeup: Wakeup,
        activity: Activity | None = None,
        sums: bool = False,
    ) -> None:
        self._activity = activity or Activity(1)
        self._executor, self._clock, self._options, self._hooks, self._wakeup = executor, clock, options, hooks, wakeup
        self.size = options.epoch_size(sums)
        self._simulated: int | None = None
        """The wall clock that injectors state, microseconds UTC; None if no injector states one."""

    def plan(self, topology: Topology, state: JournalState) -> Plan:
        """Ask every injector for its part of the next epoch."""
        self._hooks.step("plan", state.epoch + 1)
        splits = self._executor.splits()
        limit = self._hooks.bundle_size(state.epoch + 1, self.size.records)
        deliveries = deliveries_of(topology.injectors, state, self._options.skew_limit, limit, splits, self._activity)
        for delivery in deliveries.values():
            if delivery.clock is not None:
                self._simulated = max(delivery.clock, self._simulated or delivery.clock)
        now = self._clock.now() if self._simulated is None else self._simulated
        return Plan(deliveries, max(now, state.clock), self._options.skew_limit, limit)

    def has_work(self, plan: Plan, running: RunningTopology, state: JournalState) -> bool:
        """Whether the epoch would do anything: read input, deliver productions, fire timers, move watermarks."""
        if not plan.idle or state.arriving() or running.stragglers.done or running.unsettled:
            return True
        timers = (due for timers in state.wall_timers.values() for due in timers.values())
        return any(due <= plan.clock for due in timers) or running.moves_on(state)

    def wait(self, plan: Plan, running: RunningTopology, state: JournalState) -> None:
        """Wait until an injector may have input, a timer or a release is due, or there is a request to the run.

        Raises:
            StalledError: Nothing can happen any more, but a hold keeps a watermark back.
        """
        ended = len(state.done) == len(running.topology.injectors) and not state.pending
        if ended and not state.wall_timers:
            raise StalledError(_stall(running.topology, state))
        self._activity.wait()
        timers = [due - plan.clock for timers in state.wall_timers.values() for due in timers.values()]
        if ended:
            wait = min(timers)
            if self._simulated is not None:
                self._simulated += wait
            else:
                self._clock.wait_after_end(wait, self._wakeup)
        else:
            release = running.stragglers.next_due()
            releases = [] if release is None else [release - self._clock.now()]
            self._clock.wait(min([self._quiet(plan, state), *timers, *releases]), self._wakeup)

    def _quiet(self, plan: Plan, state: JournalState) -> int:
        """Microseconds until something has to be asked again: an injector, or sinks that pending productions go to."""
        # Sinks acknowledge in threads of their own.
        spans = [self._options.poll_seconds] if state.pending else []
        spans += [
            self._options.poll_seconds if delivery.quiet_seconds is None else delivery.quiet_seconds
            for delivery in plan.deliveries.values()
            if not delivery.done
        ]
        return int(min([*spans, _LONGEST]) * 1e6)


def _stall(topology: Topology, state: JournalState) -> str:
    """The message of a `StalledError`, which names the cause."""
    cause = furthest_back(topology, state.watermark_state()).cause
    remedy = "release the hold, or set a timer that does"
    return f"the input has ended but {cause} and no timer is left to release it; {remedy}"


def deliveries_of(
    injectors: Mapping[str, Injector],
    state: JournalState,
    skew_limit: float | None,
    limit: int,
    splits: int,
    activity: Activity,
) -> dict[str, Delivery]:
    """Injector stream -> its part of the next epoch: about `limit` records in about `splits` splits.

    Injectors that have ended, or are too far ahead of the others (`skew_limit`, seconds), contribute nothing.
    """
    deliveries = {}
    waiting = too_far_ahead(state.injectors, skew_limit)
    for stream, injector in injectors.items():
        position = state.positions[stream]
        if stream in state.done:
            deliveries[stream] = Delivery([], position, done=True, idle=True)
        elif stream in waiting:
            deliveries[stream] = Delivery([], position, state.injectors[stream].watermark, idle=True)
        else:
            activity.begin(RunPhase.PLAN, stream)
            with failing(stream):
                deliveries[stream] = injector.plan(position, limit, splits)
    return deliveries
