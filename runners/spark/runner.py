"""The Spark runner: topologies on the program's Spark session, or on a local one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from headrace.lowlevel.topology import Topology
from headrace.runners.engine.clock import SystemClock
from headrace.runners.engine.driver import Driver
from headrace.runners.engine.durable import open_checkpoint
from headrace.runners.engine.optionrules import check_program
from headrace.runners.engine.options import RunOptions, RunResult
from headrace.runners.engine.running import Changes, Running
from headrace.runners.engine.signals import heeding_signals
from headrace.runners.engine.steps import Steps
from headrace.runners.spark.copies import Copies
from headrace.runners.spark.executor import SparkExecutor
from headrace.runners.spark.frames import bound
from headrace.runners.spark.joberror import SparkJobError
from headrace.runners.spark.packages import prepare_workers
from headrace.runners.spark.session import SparkSetupError, checked, engine_session, is_local, make_active, open_session
from headrace.runners.spark.shipment import Shipment, packed
from headrace.runners.spark.streams import StreamError, StreamOptions, close_streams


class SparkRunner:
    """Runs on Spark, one job and one commit for each epoch.

    Code reaches the workers by itself: what a topology uses of the main program travels inside it; on a cluster, the
    modules that the program has imported from its own folders are sent as files, and so is headrace. Installed
    packages must be installed on the executors too; data files are not sent.

    Args:
        session: The Spark session to use; without one the program's active session, else a new local one.
        intervals: Key intervals of each computation, so how many tasks it runs as; by default as many as Spark runs
            at once, or what a checkpoint has. With another number its state is divided anew.
        trigger: How Spark reads streaming DataFrames: arguments of its `trigger`, as `{"availableNow": True}` to end
            with what is there now.
        stream_location: Where Spark keeps its progress in streaming DataFrames, as it writes the place; by default a
            folder of the checkpoint, which must be a directory then.
        steps: For tests: chooses the size of epochs, and is told of every step of the protocol.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        intervals: int | None = None,
        trigger: Mapping[str, object] | None = None,
        stream_location: str | None = None,
        steps: Steps | None = None,
    ) -> None:
        self._session = session
        self._intervals = intervals
        self._streams = StreamOptions(trigger, stream_location)
        self._steps = steps

    def run_topology(self, topology: Topology, options: RunOptions | None = None) -> RunResult:
        """Run to the end of the input, or until a signal stops the run: see `headrace.runners.engine.signals`.

        Raises:
            ShippingError: Something that the topology holds cannot be sent to the workers. Nothing has run.
            SparkSetupError: Java or Spark is missing or too old. Nothing has run.
            SparkJobError: Spark gave a job up. Earlier epochs are committed.
        """
        check_program(topology, options)
        options, changes = options or RunOptions(), Changes(topology)
        with heeding_signals(changes, options.checkpoint is not None, (SparkJobError, SparkSetupError, StreamError)):
            return self._open(topology, options, changes)

    def start(self, topology: Topology, options: RunOptions | None = None) -> Running:
        """Run in the background; the topology can be changed meanwhile. Errors show in `Running.wait`."""
        topology.validate()
        return Running(topology, lambda changes: self._open(topology, options or RunOptions(), changes))

    def _open(self, topology: Topology, options: RunOptions, changes: Changes) -> RunResult:
        if options.intervals is None:
            options = replace(options, intervals=self._intervals)
        topology.validate()
        code = packed(topology)
        session = checked(self._session) if self._session is not None else open_session()
        # As Spark does itself at Ctrl-C.
        changes.let_go = session.sparkContext.cancelAllJobs
        prepare_workers(session)
        with _checkpoint_place(options, session) as place:
            return self._run(topology, code, options, session, place, changes)

    def _run(
        self,
        topology: Topology,
        code: bytes,
        options: RunOptions,
        session: SparkSession,
        place: str,
        changes: Changes,
    ) -> RunResult:
        clock = SystemClock()
        journal, store = open_checkpoint(
            *(place, topology, clock, "Spark runner"), options.checkpoint_key, options.consent
        )
        bind = partial(bound, store=store, options=self._streams)
        ship = partial(Shipment.of, store=store, run=journal.identity, cache_bytes=options.cache_bytes)
        executor = SparkExecutor(engine_session(session), topology, code, bind, ship, options.one_task_epochs)
        goes_on = options.checkpoint is not None
        try:
            result = Driver(executor.topology, executor, journal, clock, options, self._steps, changes).run()
            # If the input has ended: started again, there is nothing to do.
            goes_on = goes_on and not changes.finished
            return result
        finally:
            with ExitStack() as last:
                last.callback(make_active, session)
                last.callback(close_streams, executor.topology.injectors.values())
                if not goes_on:
                    Copies(journal.identity).discard()


@contextmanager
def _checkpoint_place(options: RunOptions, session: SparkSession) -> Iterator[str]:
    """Where the run commits: the place given, else a folder that lasts as long as the run."""
    if options.checkpoint is not None:
        yield options.checkpoint
        return
    if not is_local(session):
        raise SparkSetupError(
            f"the session runs on {session.sparkContext.master}, whose executors do not share this machine's files; "
            "give the run a checkpoint that all of them reach (--checkpoint, or HEADRACE_CHECKPOINT)"
        )
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        yield folder
