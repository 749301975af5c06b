"""One epoch between plan and commit: its tasks run until their attempts fit together, and give the next state."""

from __future__ import annotations

from headrace.lowlevel.injectors.injector import LearningInjector
from headrace.lowlevel.metric import added
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.driver.delivery import Receipts, agreements, joined_receipts, settled
from headrace.runners.engine.driver.journal import Journal, JournalState
from headrace.runners.engine.driver.outcome import Outcome, gather
from headrace.runners.engine.driver.planning import Plan
from headrace.runners.engine.driver.progress import summed, with_backlogs
from headrace.runners.engine.driver.running_topology import RunningTopology
from headrace.runners.engine.executor import Executor
from headrace.runners.engine.messages import EpochSpec, arrival, control_messages

ATTEMPTS = 3
"""How often an epoch is tried when its tasks' attempts do not fit together."""


def epoch_spec(running: RunningTopology, state: JournalState, plan: Plan) -> EpochSpec:
    """What the tasks of the next epoch must know."""
    return EpochSpec(
        epoch=state.epoch + 1,
        generation=running.generation,
        clock=plan.clock,
        tasks=running.ownership.tasks,
        intervals=state.intervals,
        before=state.frontier(),
        deliveries={stream: (delivery.watermark, delivery.done) for stream, delivery in plan.deliveries.items()},
        committed=dict(state.watermarks),
        id_slacks=running.id_slacks,
        straggler_delay=running.straggler_delay,
        sampled=running.ownership.sampled(),
        watermarks=running.next_watermarks(state) if running.has_many_tasks else None,
        agreements=agreements(running.agreeing),
        latest={
            stream: delivery.latest for stream, delivery in plan.deliveries.items() if delivery.latest < MAX_TIMESTAMP
        },
    )


def run_tasks(
    executor: Executor, journal: Journal, running: RunningTopology, spec: EpochSpec, plan: Plan, state: JournalState
) -> Outcome:
    """Run the epoch until the attempts of its tasks fit together (strong productions, paper §6.1.2).

    Raises:
        StepError: User code failed, or what the tasks have staged for a sink does not fit together.
        RuntimeError: No attempt fitted. Nothing of the epoch is committed.
    """
    splits = [(stream, split) for stream, delivery in plan.deliveries.items() for split in delivery.splits]
    messages = [arrival(item, number, spec.intervals[item.level]) for number, item in enumerate(state.arriving())]
    messages += [*journal.chains(spec.intervals), *control_messages(spec)]
    for _ in range(ATTEMPTS):
        outcome = gather(executor.run(spec, splits, messages), spec)
        if outcome.failure is None and not outcome.mixed:
            outcome.receipts = settled(running.agreeing, spec.epoch, outcome.receipts)
            return outcome
        executor.abandoned(spec.epoch)
        if outcome.failure is not None:
            raise outcome.failure
    raise RuntimeError(
        f"epoch {spec.epoch} was given up: in {ATTEMPTS} attempts lost tasks were run again while others had "
        f"used their first output ({outcome.mixed}); nothing of it is committed"
    )


def state_after(
    state: JournalState, running: RunningTopology, spec: EpochSpec, plan: Plan, outcome: Outcome, receipts: Receipts
) -> JournalState:
    """The state after an epoch, for its commit; `receipts` are those of sinks besides the rows of its tasks."""
    injectors = {
        stream: state.injectors[stream].with_delivery(
            outcome.greatest[stream], delivery.watermark, delivery.done, outcome.lateness[stream]
        )
        for stream, delivery in plan.deliveries.items()
    }
    return JournalState(
        epoch=spec.epoch,
        intervals=state.intervals,
        clock=spec.clock,
        positions={
            stream: _next_position(running.topology, stream, delivery.position, outcome)
            for stream, delivery in plan.deliveries.items()
        },
        done={stream for stream, delivery in plan.deliveries.items() if delivery.done},
        injectors=injectors,
        skew_limit=plan.skew_limit,
        watermarks=outcome.watermarks,
        journal=running.report_watermarks(spec, outcome),
        holds=outcome.holds,
        holders=outcome.holders,
        wall_timers=outcome.wall_timers,
        pending=outcome.pending + running.stragglers.unacknowledged(),
        counters=summed(state.counters, outcome.counters),
        metrics=with_backlogs(added(state.metrics, outcome.metrics), plan.deliveries, spec.clock),
        receipts=joined_receipts(receipts, outcome.receipts),
    )


def _next_position(topology: Topology, stream: str, position: object, outcome: Outcome) -> object:
    """Where the next delivery of an injector starts, given the findings of its splits in this epoch."""
    injector, findings = topology.injectors[stream], outcome.findings.get(stream)
    return injector.learned(position, findings) if findings and isinstance(injector, LearningInjector) else position
