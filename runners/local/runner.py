"""The local runner: runs any topology in memory, deterministically; tests compare other runners with its results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from headrace.lowlevel.gc_pause import SELDOM_COLLECTIONS
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.storage.credentials import using as using_credentials
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.clock import Clock, LocalClock, SkippingClock
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.driver.checkpoint_journal import open_checkpoint
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.journal import Journal
from headrace.runners.engine.driver.signals import heeding_signals
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import RunOptions, RunResult, check_program
from headrace.runners.local.executor import LocalExecutor, Scheduler


class LocalRunner:
    """Runs topologies in this process and thread, without Spark.

    The default clock is the machine's; once the input has ended, it jumps to the next wall-time timer, so that a run
    over bounded input does not wait. A test gives a `ManualClock`, which stands still unless the test moves it, or the
    run can only wait. With a `checkpoint` in the options, the run is durable by the same protocol as on
    Spark.

    >>> from headrace.lowlevel import BoundedInjector, Computation, CallSink
    >>> class Count(Computation):
    ...     def process_record(self, record, context):
    ...         context.state = (context.state or 0) + 1
    ...         context.produce("counts", (context.key, context.state))
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([("britney", 1), ("britney", 2), ("carly", 2)]))
    >>> topology.computation("count", Count(), inputs={"queries": lambda query: query}, outputs=["counts"])
    >>> topology.sink("print", "counts", CallSink(lambda epoch, rows: print(sorted(rows))))
    >>> result = LocalRunner().run_topology(topology)
    [(('britney', 1), 1), (('britney', 2), 2), (('carly', 1), 2)]
    """

    def __init__(
        self, clock: Clock | None = None, scheduler: Scheduler | None = None, intervals: int = 1, parallelism: int = 1
    ) -> None:
        self.clock = clock or LocalClock()
        self._has_own_clock = clock is None
        self.scheduler = scheduler or Scheduler()
        self._intervals = intervals
        self._parallelism = parallelism
        self.stores: dict[tuple[str, int], MemoryStateStore] = {}
        """Committed state of the last run, by computation and interval, for tests that count the remaining state."""

    def keep_time(self, waits: bool = False) -> None:
        """Choose whether a wait for input takes its time, or the clock jumps to the end of the wait.

        A clock that the caller has given stays.
        """
        if self._has_own_clock:
            self.clock = LocalClock() if waits else SkippingClock()

    def run_topology(
        self, topology: Topology, options: RunOptions | None = None, changes: Changes | None = None
    ) -> RunResult:
        """Run to the end of the input, or until a signal or `changes.stop()` stops the run.

        After SIGTERM or SIGHUP, the running epoch is committed if it ends within 20 seconds; then `StoppedError` ends
        the run.
        """
        check_program(topology, options)
        options, changes = options or RunOptions(), changes or Changes(topology)
        with heeding_signals(changes, options.checkpoint is not None):
            return self._with_credentials(topology, options, changes)

    def start(self, topology: Topology, options: RunOptions | None = None) -> Running:
        """Run in the background, where the topology can be changed; `Running.wait` raises the errors of the run."""
        options = options or RunOptions()
        if options.checkpoint is None:
            # A change of topology needs a checkpoint.
            options = replace(options, checkpoint="memory://")
        topology.validate()
        return Running(topology, options, partial(self._with_credentials, topology))

    def _with_credentials(self, topology: Topology, options: RunOptions, changes: Changes) -> RunResult:
        with using_credentials(options.credentials):
            return self._run(topology, options, changes)

    def _run(self, topology: Topology, options: RunOptions, changes: Changes) -> RunResult:
        if options.intervals is None:
            options = replace(options, intervals=self._intervals)
        topology.validate()
        journal = Journal()
        store = None
        if options.checkpoint is not None:
            opened, store = open_checkpoint(
                *(options.checkpoint, topology, self.clock, "local runner"), options.checkpoint_key, options.consent
            )
            journal, topology = opened, opened.topology
        executor = LocalExecutor(
            *(topology, self._parallelism, self.scheduler, store, journal.generation, self.clock, options.cache_bytes)
        )
        self.stores = executor.stores()
        with SELDOM_COLLECTIONS.during_run():
            return Driver(topology, executor, journal, self.clock, options, self.scheduler, changes).run()
