"""Continues from the last commit: with the same topology after a kill, or with a changed one.

A recovery delivers the last commit to the sinks once more before anything else runs, as the previous driver may have
been killed between commit and delivery. A changed topology is an epoch of its own, which reads no input (MillWheel
paper §3).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from headrace.lowlevel.checkpoint import TopologyDifference
from headrace.lowlevel.checkpoint.manifest.fingerprint import SINK as SINK_KIND
from headrace.lowlevel.injectors.injector import UnreadInjector
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.user_errors import failing
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.driver.delivery import Receipts, begin_sinks, deliver, held_receipts, joined_receipts
from headrace.runners.engine.driver.journal import Journal, JournalState
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import Hooks

_log = logging.getLogger(__name__)


def unread_inputs(topology: Topology, state: JournalState) -> dict[str, str]:
    """Injector stream -> what the program has given it that is not read, as its input has ended; with the remedies."""
    found = {}
    for stream in sorted(state.done & topology.injectors.keys()):
        injector = topology.injectors[stream]
        if isinstance(injector, UnreadInjector):
            with failing(stream):
                said = injector.unread(state.positions[stream])
            if said is not None:
                found[stream] = f"{said}. {_UNREAD}"
    return found


_UNREAD = (
    "Nothing more of it is read on this checkpoint, where its results are final; give the source its earlier elements "
    "back, or another checkpoint to read those that it has now"
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Lets a topology go on from the last commit."""

    journal: Journal
    hooks: Hooks
    changes: Changes
    new_level_tasks: int
    """Number of tasks of a new level if the commit has no intervals."""
    activity: Activity

    def recover(self, topology: Topology) -> tuple[JournalState, Receipts]:
        """Return the state to go on from, and receipts of sinks for the next commit; commits a changed topology."""
        state = self.journal.recover()
        if state is None:
            receipts = begin_sinks(topology.sinks, self.activity)
            return JournalState.beginning(topology), joined_receipts(receipts, held_receipts(topology.sinks))
        change = self.journal.change
        earlier_sinks = topology.sinks if change is None else change.old.of_kind(SINK_KIND)
        receipts = begin_sinks(topology.sinks, self.activity, earlier_sinks)
        deliver(topology.sinks, state.epoch, state.receipts, self.activity)
        # Only now does a sink know what the commit holds for it.
        receipts = joined_receipts(receipts, held_receipts(topology.sinks))
        if change is not None:
            return self.commit_change(state, change, topology, receipts)
        return state, receipts

    def commit_change(
        self, state: JournalState, change: TopologyDifference, topology: Topology, receipts: Receipts
    ) -> tuple[JournalState, Receipts]:
        """Commit a change of topology as an epoch of its own, and deliver the epoch.

        Args:
            state: The last commit.
            change: The difference from the topology of that commit.
            topology: The new topology.
            receipts: Receipts of the sinks for the commit of the change.

        Returns:
            The new state, and receipts of the sinks for the next commit.
        """
        if change.is_one:
            _log.info("the pipeline has changed: %s", change.summary)
        self.hooks.step("change", state.epoch + 1)
        tasks = max((intervals.tasks for intervals in state.intervals.values()), default=self.new_level_tasks)
        state = self.journal.succeed(replace(state, receipts=receipts), change, topology, tasks)
        self.changes.committed = state.epoch
        self.hooks.step("changed", state.epoch)
        deliver(topology.sinks, state.epoch, state.receipts, self.activity)
        return state, held_receipts(topology.sinks)
