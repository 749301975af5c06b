"""The driver: plans an epoch, has it run, commits it, delivers it; again and again until the input has ended.

An epoch is the unit of everything: it is committed in one write or it never happened (paper §6.2). The driver is the
same for every runner; what differs is the `Executor`, the `Journal` and the `Clock`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headrace.lowlevel.authority import Authority
from headrace.lowlevel.checkpoint import Change
from headrace.lowlevel.checkpoint.fingerprint import SINK as SINK_KIND
from headrace.lowlevel.errors import FencedError, StalledError
from headrace.lowlevel.explain import furthest_back
from headrace.lowlevel.injector import LearningInjector
from headrace.lowlevel.intervals import IntervalMap
from headrace.lowlevel.metric import Cells, added
from headrace.lowlevel.sequencer import Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology import Topology
from headrace.lowlevel.watermark import Propagation
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.epoch import EpochSpec, Executor
from headrace.runners.engine.journal import Journal, State
from headrace.runners.engine.laps import Laps
from headrace.runners.engine.measures import measured
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.engine.outcome import Outcome, gather
from headrace.runners.engine.ownership import Ownership, divided
from headrace.runners.engine.plan import Plan, delivered
from headrace.runners.engine.running import Changes, Request
from headrace.runners.engine.sinks import Receipts, after, begun, deliver, finish, held
from headrace.runners.engine.snapshots import Snapshots
from headrace.runners.engine.steps import EveryStep, Steps
from headrace.runners.engine.stragglers import Stragglers
from headrace.runners.engine.totals import progress_of, summed

_log = logging.getLogger(__name__)
ATTEMPTS = 3
"""How often an epoch is tried when its tasks' attempts do not fit together."""


class Driver:
    """Runs one topology to the end of its input, or until something stops it."""

    def __init__(
        self,
        topology: Topology,
        executor: Executor,
        journal: Journal,
        clock: Clock,
        options: RunOptions,
        steps: Steps | None = None,
        changes: Changes | None = None,
    ) -> None:
        topology.validate()
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._options = options
        self._steps = steps or EveryStep()
        self._snapshots = Snapshots(executor.snapshots)
        self._simulated: int | None = None
        self._sizes: dict[str, int] = {}
        self._size = options.epoch_size()
        self._straggler_delay = int(options.straggler_delay * 1e6)
        self._changes = changes or Changes(topology)
        self._topology = topology
        self._begun: Receipts = {}
        """Of sinks, for the next commit."""
        self._state = self._recover()
        self._begin(topology)

    def run(self) -> RunResult:
        """Run until every injector has ended and nothing is left to do. Errors leave the last epoch committed."""
        try:
            self._run_epochs()
        except BaseException as error:
            # Whoever waits for a change is told first: what follows may take a while.
            self._changes.close(error)
            self._executor.close(at_once=self._changes.stopping or not isinstance(error, Exception))
            raise
        self._changes.finished = self._finished()
        self._changes.close()
        self._executor.close()
        state = self._state
        waiting = sum(map(len, state.wall_timers.values()))
        return RunResult(state.epoch, state.counters, state.watermarks, waiting, self._metrics())

    def _run_epochs(self) -> None:
        try:
            while not self._ends():
                self._stragglers.work(self._clock.now())
                plan = self._plan()
                if (plan.idle and not self._due(plan.clock)) or self._stragglers.too_many:
                    self._wait(plan)
                    continue
                self.step(plan)
            self._journal.ensure_driving()
            finish(self._topology.sinks, self._state.epoch, self._finished())
        except FencedError:
            raise
        except Exception:
            # A successor takes files away that only this driver needs: that may be all that is wrong.
            self._journal.ensure_driving()
            raise

    def _metrics(self) -> Cells:
        """Those of user code and the engine's own."""
        return added(self._state.metrics, measured(self._topology, self._state, self._sizes))

    def step(self, plan: Plan) -> None:
        """One epoch: run, check, commit, deliver."""
        laps, began = Laps(), self._clock.now()
        spec = self._spec(plan)
        outcome = self._attempt(spec, plan)
        laps.end("tasks")
        self._state, self._sizes = self._advance(spec, plan, outcome), outcome.sizes
        self._steps.step("commit", spec.epoch)
        self._journal.commit(self._state, outcome.deltas, self._snapshots.ready(spec.epoch))
        self._changes.committed, self._unsettled, self._begun = spec.epoch, False, held(self._topology.sinks)
        self._steps.step("committed", spec.epoch)
        laps.end("commit")
        self._stragglers.take(self._state.pending, due=self._clock.now() + self._straggler_delay)
        records = [outcome.counters.get(stream, {}).get("records", 0) for stream in plan.deliveries]
        self._executor.committed(spec.epoch, sum(records))
        self._acknowledge()
        self._steps.step("deliver", spec.epoch)
        deliver(self._topology.sinks, spec.epoch, self._state.receipts)
        self._steps.step("delivered", spec.epoch)
        laps.end("deliver")
        self._size.took(max(records, default=0), (self._clock.now() - began) / 1e6, outcome.kept())
        if self._options.progress is not None:
            self._options.progress(progress_of(self._topology, self._state, self._metrics(), laps))
        self._journal.tidy(spec.epoch)
        if not self._finished():
            # Another epoch will name them.
            self._snapshots.order(spec.epoch, self._journal.snapshots_due)
        self._rearrange(self._ownership.after(self._state.intervals, outcome.loads, self._next()))

    # Beginning

    def _recover(self) -> State:
        state = self._journal.recover()
        if state is None:
            self._begun = begun(self._topology.sinks)
            return State.beginning(self._topology)
        change = self._journal.change
        old = self._topology.sinks if change is None else change.old.of_kind(SINK_KIND)
        new = begun(self._topology.sinks, old)
        deliver(self._topology.sinks, state.epoch, state.receipts)
        if change is not None:
            return self._succeed(state, change, self._topology, new)
        self._begun = new
        return state

    def _begin(self, topology: Topology) -> None:
        """Get ready for the epochs of a topology, whose state is that of the last commit."""
        self._topology, state, options = topology, self._state, self._options
        self._propagation = Propagation(topology)
        self._id_slacks = topology.id_slacks()
        state.injectors = {
            stream: replace(progress, delay=topology.injectors[stream].max_delay)
            for stream, progress in state.injectors.items()
        }
        balancer = None if options.balancer is None else options.balancer()
        levels = len(topology.levels())
        self._ownership = Ownership(levels, options.intervals, self._executor.parallelism, balancer)
        self._stragglers = Stragglers(topology, self._executor.beside, self._straggler_delay)
        self._stragglers.take(state.pending, due=self._clock.now())
        self._assigned = Sequencer(self._journal.generation, state.epoch)
        self._authority = self._take_over()
        self._rearrange(self._ownership.begin(state.intervals, self._next()))
        frontier = self._state.frontier()
        self._unsettled = self._propagation.inputs(frontier, frontier, state.watermarks) != state.watermarks

    # Changing

    def _ends(self) -> bool:
        """Whether the run is over, after the changes that were asked for."""
        while (request := self._changes.next()) is not None:
            self._change(request)
        return self._changes.stopping or self._finished()

    def _change(self, request: Request) -> None:
        """Let another topology run from the next epoch on, or say why it cannot.

        What is raised once the change is being committed ends the run, and the request with it (`Changes.close`).
        """
        try:
            given = request.revise(self._changes.topology)
            given.validate()
            self._state.journal = self._authority.journal()
            change = self._journal.change_to(self._state, given, request.consent)
            new = begun(given.sinks, self._topology.sinks)
            topology, switch = self._executor.prepare(given)
        except Exception as refusal:
            request.done.set_exception(refusal)
            return
        dropped = {name: sink for name, sink in self._topology.sinks.items() if name not in topology.sinks}
        self._state = self._succeed(self._state, change, topology, new)
        finish(dropped, self._state.epoch, ended=True)
        switch()
        self._snapshots.forget()
        self._changes.topology, self._sizes = given, {}
        self._begin(topology)
        request.done.set_result(self._state.epoch)

    def _succeed(self, state: State, change: Change, topology: Topology, new: Receipts) -> State:
        """Commit a change of topology, an epoch of its own."""
        if change.is_one:
            _log.info("the pipeline has changed: %s", change.summary)
        self._steps.step("change", state.epoch + 1)
        tasks = max((each.tasks for each in state.intervals.values()), default=self._executor.parallelism)
        state = replace(state, receipts=after(self._begun, new))
        state, self._begun = self._journal.succeed(state, change, topology, tasks), held(topology.sinks)
        self._changes.committed = state.epoch
        self._steps.step("changed", state.epoch)
        deliver(topology.sinks, state.epoch, state.receipts)
        return state

    def _take_over(self) -> Authority:
        """The watermark authority, from what the last commit has of it; every interval has a new owner."""
        authority, state = Authority(), self._state
        for name, level in self._propagation.level_of.items():
            if (part := state.journal.get(name)) is not None:
                authority.restore({name: part}, {name: state.intervals[level]}, self._assigned)
        return authority

    def _next(self) -> Sequencer:
        """The sequencer of whatever changes for the next epoch."""
        return Sequencer(self._journal.generation, self._state.epoch + 1)

    def _rearrange(self, intervals: dict[int, IntervalMap]) -> None:
        """Let the next epoch run on these intervals; its commit makes them those of the run."""
        state = self._state
        if intervals == state.intervals:
            return
        self._executor.rearrange(state.intervals, intervals)
        state.intervals, state.pending = intervals, divided(state.pending, intervals)
        self._assigned = self._next()
        for name, level in self._propagation.level_of.items():
            self._authority.assign(name, intervals[level], self._assigned)

    # Planning

    def _plan(self) -> Plan:
        state = self._state
        self._steps.step("plan", state.epoch + 1)
        splits = self._executor.splits()
        limit = self._steps.bundle_size(state.epoch + 1, self._size.records)
        deliveries = delivered(self._topology.injectors, state, self._options.skew_limit, limit, splits)
        for delivery in deliveries.values():
            if delivery.clock is not None:
                self._simulated = max(delivery.clock, self._simulated or delivery.clock)
        now = self._clock.now() if self._simulated is None else self._simulated
        return Plan(deliveries, max(now, state.clock))

    def _due(self, clock: int) -> bool:
        """Whether there is work without input: productions to deliver, timers to fire, watermarks to move."""
        state = self._state
        wall = min((due for timers in state.wall_timers.values() for due in timers.values()), default=None)
        waiting = bool(self._state.arriving()) or self._stragglers.done or self._unsettled
        return waiting or (wall is not None and wall <= clock) or self._moves()

    def _moves(self) -> bool:
        """Whether an epoch without input would still move a watermark (computations on a circle lag by one epoch)."""
        if not any(self._propagation.on_circle(name) for name in self._topology.keyed):
            return self._state.epoch == 0
        frontier = self._state.frontier()
        return self._propagation.inputs(frontier, frontier, self._state.watermarks) != self._state.watermarks

    def _wait(self, plan: Plan) -> None:
        """Let time pass until an injector may have something, a timer is due or somebody asks for something."""
        state = self._state
        ended = len(state.done) == len(self._topology.injectors) and not state.pending
        if ended and not state.wall_timers:
            raise StalledError(self._stall())
        timers = [due - plan.clock for timers in state.wall_timers.values() for due in timers.values()]
        if ended:
            wait = min(timers)
            if self._simulated is not None:
                self._simulated += wait
                return
        else:
            release = self._stragglers.next_due()
            released = [] if release is None else [release - self._clock.now()]
            wait = min([int(self._options.poll_seconds * 1e6), *timers, *released])
        self._clock.wait(wait, self._changes.wakeup)

    def _stall(self) -> str:
        """Names who keeps the watermark back (STYLE: holds know their holder)."""
        cause = furthest_back(self._topology, self._state.standing()).cause
        return (
            f"the input has ended but {cause} and no timer is left to release it; release the hold, or set a timer "
            "that does"
        )

    def _finished(self) -> bool:
        return self._state.is_over(self._topology)

    def _spec(self, plan: Plan) -> EpochSpec:
        state = self._state
        return EpochSpec(
            epoch=state.epoch + 1,
            generation=self._journal.generation,
            clock=plan.clock,
            tasks=self._ownership.tasks,
            intervals=state.intervals,
            before=self._state.frontier(),
            deliveries={stream: (delivery.watermark, delivery.done) for stream, delivery in plan.deliveries.items()},
            committed=dict(state.watermarks),
            id_slacks=self._id_slacks,
            straggler_delay=self._straggler_delay,
            sampled=self._ownership.sampled(),
        )

    # Running

    def _attempt(self, spec: EpochSpec, plan: Plan) -> Outcome:
        """Run the epoch until the attempts of its tasks fit together (strong productions, paper §6.1.2)."""
        splits = [(stream, split) for stream, delivery in plan.deliveries.items() for split in delivery.splits]
        rows = [item.row(number, spec.intervals[item.level]) for number, item in enumerate(self._state.arriving())]
        rows += self._journal.chains(spec.intervals)
        for attempt in range(1, ATTEMPTS + 1):
            outcome = gather(self._executor.run(spec, splits, rows))
            if outcome.failure is not None:
                self._executor.abandoned(spec.epoch)
                raise outcome.failure
            if not outcome.mixed:
                return outcome
            self._executor.abandoned(spec.epoch)
            if attempt == ATTEMPTS:
                break
        raise RuntimeError(
            f"epoch {spec.epoch} was given up: in {ATTEMPTS} attempts lost tasks were run again while others had "
            f"used their first output ({outcome.mixed}); nothing of it is committed"
        )

    def _advance(self, spec: EpochSpec, plan: Plan, outcome: Outcome) -> State:
        """The state that this epoch's commit makes true."""
        old = self._state
        injectors = {
            stream: old.injectors[stream].after(
                outcome.greatest[stream], delivery.watermark, delivery.done, outcome.lateness[stream]
            )
            for stream, delivery in plan.deliveries.items()
        }
        return State(
            epoch=spec.epoch,
            intervals=old.intervals,
            clock=spec.clock,
            positions={
                stream: self._position(stream, delivery.position, outcome)
                for stream, delivery in plan.deliveries.items()
            },
            done={stream for stream, delivery in plan.deliveries.items() if delivery.done},
            injectors=injectors,
            watermarks=outcome.watermarks,
            journal=self._report(spec, outcome),
            holds=outcome.holds,
            holders=outcome.holders,
            wall_timers=outcome.wall_timers,
            pending=outcome.pending + self._stragglers.unacknowledged(),
            counters=summed(old.counters, outcome.counters),
            metrics=added(old.metrics, outcome.metrics),
            receipts=after(self._begun, outcome.receipts),
        )

    def _position(self, stream: str, position: object, outcome: Outcome) -> object:
        """Where the next delivery of an injector starts, with what its splits told."""
        injector, told = self._topology.injectors[stream], outcome.told.get(stream)
        return injector.learned(position, told) if told and isinstance(injector, LearningInjector) else position

    def _report(self, spec: EpochSpec, outcome: Outcome) -> dict[str, bytes]:
        """Tell the watermark authority each interval's low watermark; its journal is part of the commit."""
        for name, watermark in outcome.watermarks.items():
            held, intervals = outcome.holds.get(name, {}), spec.intervals[self._propagation.level_of[name]]
            values = [min(watermark, held.get(one.number, MAX_TIMESTAMP)) for one in intervals]
            self._authority.report_all(name, [one.number for one in intervals], self._assigned, values)
        return self._authority.journal()

    # After the commit

    def _acknowledge(self) -> None:
        """Tell injectors that want to know how far their input is safely taken over."""
        for stream, injector in self._topology.injectors.items():
            if (committed := getattr(injector, "committed", None)) is not None:
                committed(self._state.positions[stream])
