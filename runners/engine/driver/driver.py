"""The driver: plans an epoch, has its tasks run, commits and delivers it, again and again until the input has ended.

An epoch is the unit of everything: it is committed in one write or it never happened (paper §6.2). The driver is the
same for every runner; what differs is the `Executor`, the `Journal` and the `Clock`. Each job has a module: before the
first epoch `recovery`; for each epoch `planning`, `epoch` (tasks, and the state that they lead to), `delivery`; between
epochs `topology_change`. `running_topology` has what all of them need of the current topology.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headrace.lowlevel.errors import FencedError
from headrace.lowlevel.injectors.injector import EndingInjector, StoringInjector, WakingInjector
from headrace.lowlevel.metric import MetricValues, added
from headrace.lowlevel.python_private import call_with_room
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import failing
from headrace.lowlevel.watermarks.far_future import far_future_message
from headrace.runners.engine.activity import Activity, ActivityReporter, RunPhase
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.driver.delivery import (
    Receipts,
    begin_sinks,
    deliver,
    finish,
    held_receipts,
    joined_receipts,
)
from headrace.runners.engine.driver.epoch import epoch_spec, run_tasks, state_after
from headrace.runners.engine.driver.journal import Journal, JournalState
from headrace.runners.engine.driver.outcome import Outcome
from headrace.runners.engine.driver.planning import Plan, Planner
from headrace.runners.engine.driver.progress import (
    EpochTiming,
    engine_metrics,
    hot_keys,
    progress_of,
    with_latencies,
)
from headrace.runners.engine.driver.recovery import Recovery, unread_inputs
from headrace.runners.engine.driver.running_topology import RunningTopology
from headrace.runners.engine.driver.snapshot_schedule import SnapshotSchedule
from headrace.runners.engine.driver.topology_change import Changes, Request
from headrace.runners.engine.executor import Executor
from headrace.runners.engine.messages import EpochSpec
from headrace.runners.engine.options import Hooks, LatencyHistogram, RunOptions, RunResult

_log = logging.getLogger(__name__)


class Driver:
    """Runs one topology to the end of its input, or until something stops it. Nothing happens before `run`."""

    _state: JournalState
    """The last commit, with the intervals of the next epoch."""
    _running: RunningTopology
    _receipts: Receipts
    """Receipts that sinks add to the next commit, besides those for rows from its tasks."""

    def __init__(
        self,
        topology: Topology,
        executor: Executor,
        journal: Journal,
        clock: Clock,
        options: RunOptions,
        steps: Hooks | None = None,
        changes: Changes | None = None,
    ) -> None:
        topology.validate()
        self._topology = topology
        self._executor, self._journal, self._clock, self._options = executor, journal, clock, options
        self._hooks = steps or Hooks()
        self._changes = changes or Changes(topology)
        self._activity = Activity(journal.generation, topology.keyed)
        self._activity.running_step = executor.running_step
        self._recovery = Recovery(journal, self._hooks, self._changes, executor.parallelism, self._activity)
        sums = topology.sums_bounded_input()
        self._planner = Planner(executor, clock, options, self._hooks, self._changes.wakeup, self._activity, sums)
        self._snapshots = SnapshotSchedule(executor.snapshots)
        self._ahead: set[str] = set()
        """Streams of which a timestamp of the far future was named."""
        self._latencies: Mapping[str, LatencyHistogram] = {}
        """Stream -> latencies of the records of this run."""
        self._state_sizes: dict[str, int] = {}
        """Computation -> bytes of state at the start of the last epoch."""

    def run(self) -> RunResult:
        """Run until every injector has ended and nothing is left to do. Errors leave the last epoch committed."""
        return call_with_room(self._run)

    def _run(self) -> RunResult:
        reporter: object = self._options.progress
        if isinstance(reporter, ActivityReporter):
            reporter.begin(self._activity)
        self._state, self._receipts = self._recovery.recover(self._topology)
        self._begin(self._topology)
        if self._state.epoch:
            self._activity.recovered = progress_of(self._topology, self._state, self._metrics())
        try:
            self._run_epochs()
        except BaseException as error:
            # Requests for a change are answered first, as closing the executor may take a while.
            self._changes.close(error)
            self._executor.close(at_once=self._changes.stopping or not isinstance(error, Exception))
            raise
        finally:
            self._end_injectors()
        self._changes.finished = self._is_finished()
        self._changes.close()
        self._executor.close()
        state = self._state
        waiting = sum(map(len, state.wall_timers.values()))
        return RunResult(state.epoch, state.counters, state.watermarks, waiting, self._metrics())

    def _end_injectors(self) -> None:
        """Tell each injector that the run is over. An error is logged: the run is committed, or has another error."""
        for stream, injector in self._topology.injectors.items():
            if isinstance(injector, EndingInjector):
                try:
                    injector.run_ended()
                except Exception:
                    _log.warning("source %r failed in run_ended, after its last delivery", stream, exc_info=True)

    def _run_epochs(self) -> None:
        was_finished = self._is_finished()
        try:
            while True:
                self._change_topology()
                if self._changes.stopping or self._is_finished():
                    break
                running = self._running
                running.stragglers.release_due(self._clock.now())
                plan = self._planner.plan(self._topology, self._state)
                if self._planner.has_work(plan, running, self._state) and not running.stragglers.too_many:
                    self._run_epoch(plan)
                else:
                    self._planner.wait(plan, running, self._state)
            self._journal.ensure_driving()
            finish(self._topology.sinks, self._state.epoch, self._is_finished())
            if was_finished and self._is_finished():
                self._refuse_unread()
        except FencedError:
            raise
        except Exception:
            # A successor deletes files that only this driver needs, which may have caused the error.
            self._journal.ensure_driving()
            raise

    def _begin(self, topology: Topology) -> None:
        """Prepare for the epochs of a topology; the state is that of the last commit."""
        self._topology = topology
        self._running = RunningTopology(topology, self._executor, self._journal.generation, self._clock, self._options)
        self._running.begin(self._state)
        for stream, injector in topology.injectors.items():
            if isinstance(injector, WakingInjector):
                injector.wake_by(self._changes.wakeup.call)
            if isinstance(injector, StoringInjector):
                injector.store_in(self._journal.source_objects(stream))
        if not self._is_finished():
            for stream, said in unread_inputs(topology, self._state).items():
                _log.warning("step %r: %s", stream, said)

    def _refuse_unread(self) -> None:
        """Raise `StepError` for a source whose changed elements a run that was finished before has not read."""
        for stream, said in unread_inputs(self._topology, self._state).items():
            with failing(stream, "the run was finished and delivered before, and nothing was done now"):
                raise ValueError(said)

    def _is_finished(self) -> bool:
        return self._state.is_over(self._topology)

    def _metrics(self) -> MetricValues:
        """Metrics of user code and of the engine."""
        state = self._state
        own = engine_metrics(state.counters, state.watermarks, state.injectors, state.clock, self._state_sizes)
        return added(state.metrics, own)

    # One epoch

    def _run_epoch(self, plan: Plan) -> None:
        """Run, check, commit and deliver an epoch; then prepare for the next one."""
        timing, began, activity = EpochTiming(), self._clock.now(), self._activity
        spec = epoch_spec(self._running, self._state, plan)
        activity.begin_epoch(spec.epoch)
        outcome = run_tasks(self._executor, self._journal, self._running, spec, plan, self._state)
        timing.end("tasks")
        activity.begin(RunPhase.COMMIT)
        self._state = state_after(self._state, self._running, spec, plan, outcome, self._receipts)
        self._state_sizes = outcome.sizes
        timing.hot_keys = hot_keys(outcome.dominant, outcome.counters)
        self._hooks.step("commit", spec.epoch)
        self._journal.commit(self._state, outcome.deltas, self._snapshots.take_ready(spec.epoch))
        self._changes.committed, self._running.unsettled = spec.epoch, False
        self._hooks.step("committed", spec.epoch)
        timing.end("commit")
        self._say_ahead(spec, outcome)
        read = {stream: outcome.counters.get(stream, {}).get("records", 0) for stream in plan.deliveries}
        timing.latencies = self._latencies = with_latencies(self._latencies, read, timing.total())
        records = list(read.values())
        timing.fill = max(records, default=0) / plan.limit if plan.limit else None
        self._acknowledge(sum(records))
        self._hooks.step("deliver", spec.epoch)
        timing.sinks = deliver(self._topology.sinks, spec.epoch, self._state.receipts, activity)
        self._receipts = held_receipts(self._running.holding)
        self._hooks.step("delivered", spec.epoch)
        timing.end("deliver")
        activity.begin(RunPhase.TIDY)
        seconds, waits = (self._clock.now() - began) / 1e6, self._state.has_no_watermark()
        self._planner.size.took(max(records, default=0), seconds, outcome.records_held(), waits)
        if self._options.progress is not None:
            self._options.progress(progress_of(self._topology, self._state, self._metrics(), timing))
        self._tidy()
        self._running.balance(self._state, outcome)
        activity.end_epoch()

    def _say_ahead(self, spec: EpochSpec, outcome: Outcome) -> None:
        """Name the first timestamp of each stream that is too far in the future to move a watermark."""
        for stream in outcome.ahead.keys() - self._ahead:
            self._ahead.add(stream)
            _log.warning("%s", far_future_message(stream, outcome.ahead[stream], spec.latest[stream]))

    def _acknowledge(self, records: int) -> None:
        """After a commit: schedule the release of its stragglers, and tell executor and injectors of it."""
        self._running.stragglers.take(self._state.pending, due=self._clock.now() + self._running.straggler_delay)
        self._executor.committed(self._state.epoch, records)
        for stream, injector in self._running.told_of_commits.items():
            try:
                injector.committed(self._state.positions[stream])
            except Exception as error:
                epoch = self._state.epoch
                error.add_note(f"in `committed` of source {stream!r}; epoch {epoch} is committed, start again")
                raise

    def _tidy(self) -> None:
        is_last = self._is_finished()
        self._journal.tidy(self._state.epoch, is_last)
        if not is_last:
            # The commit of another epoch will name the snapshots.
            self._snapshots.order(self._state.epoch, self._journal.snapshots_due)

    # Changes of the topology between epochs

    def _change_topology(self) -> None:
        """Make the changes that were requested since the previous epoch."""
        while (request := self._changes.take()) is not None:
            self._change(request)

    def _change(self, request: Request) -> None:
        """Let another topology run from the next epoch on, or refuse the request with an error.

        An error during the commit of the change ends the run, and the request with it (`Changes.close`).
        """
        try:
            requested = self._journal.continued(request.revise(self._changes.topology))
            requested.validate()
            self._state.journal = self._running.watermark_journal()
            change = self._journal.change_to(self._state, requested, request.consent)
            receipts = joined_receipts(
                self._receipts, begin_sinks(requested.sinks, self._activity, self._topology.sinks)
            )
            receipts = joined_receipts(receipts, held_receipts(requested.sinks))
            topology, switch = self._executor.prepare(requested)
        except Exception as refusal:
            request.done.set_exception(refusal)
            return
        dropped = {name: sink for name, sink in self._topology.sinks.items() if name not in topology.sinks}
        self._state, self._receipts = self._recovery.commit_change(self._state, change, topology, receipts)
        finish(dropped, self._state.epoch, ended=True)
        switch()
        self._snapshots.forget()
        self._changes.topology, self._state_sizes = requested, {}
        self._begin(topology)
        request.done.set_result(self._state.epoch)
