"""The Spark runner: runs topologies on the program's Spark session, or on a new local one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from headrace.lowlevel.gc_pause import new_objects_only
from headrace.lowlevel.storage.credentials import using as using_credentials
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.clock import SystemClock
from headrace.runners.engine.driver.background_run import Running
from headrace.runners.engine.driver.checkpoint_journal import open_checkpoint, require_possible
from headrace.runners.engine.driver.driver import Driver
from headrace.runners.engine.driver.signals import heeding_signals
from headrace.runners.engine.driver.topology_change import Changes
from headrace.runners.engine.options import Hooks, RunOptions, RunResult, check_program
from headrace.runners.spark.cluster.cluster import cluster_of
from headrace.runners.spark.code_shipping import prepare_workers
from headrace.runners.spark.dataframe.injectors import StreamError, StreamOptions, bound, close_streams, refuse_streams
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.executor import SparkExecutor
from headrace.runners.spark.jobs.executor_checks import require_reached
from headrace.runners.spark.jobs.job_error import SparkJobError
from headrace.runners.spark.session import (
    cancel_all,
    checked,
    engine_session,
    has_session,
    open_session,
)
from headrace.runners.spark.statestore.store_cache import StoreCache
from headrace.runners.spark.stopped_session import naming_a_stop
from headrace.runners.spark.worker.last_step import notes_folder
from headrace.runners.spark.worker.printed_output import PrintedOutput
from headrace.runners.spark.worker.task_payload import TaskPayload, packed


class SparkRunner:
    """Runs topologies on Spark, with one job and one commit for each epoch.

    The runner sends code to the workers: functions and classes of the main module are pickled with the topology; on a
    cluster, headrace and the modules that the program has imported from its own folders are sent as files. Installed
    packages must be installed on the executors, too; data files are not sent.

    Args:
        session: The Spark session to use; by default the program's active session, else a new local one.
        intervals: Number of key intervals of each computation, which is the number of its tasks; by default that of the
            checkpoint, else the number of tasks that Spark runs at once. If a checkpoint has another number, its state
            is divided again.
        trigger: How Spark reads streaming DataFrames: arguments of Spark's `trigger`, such as `{"availableNow": True}`,
            which ends the input with the rows that are available now.
        stream_location: Directory or URL, in Spark's notation, in which Spark stores its progress in streaming
            DataFrames; by default a folder of the checkpoint, which must be a directory in this case.
        steps: For tests: hooks that choose the size of epochs and are called at every step of the protocol.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        intervals: int | None = None,
        trigger: Mapping[str, object] | None = None,
        stream_location: str | None = None,
        steps: Hooks | None = None,
    ) -> None:
        self._session = session
        self._intervals = intervals
        self._streams = StreamOptions(trigger, stream_location)
        self._steps = steps

    def run_topology(
        self, topology: Topology, options: RunOptions | None = None, changes: Changes | None = None
    ) -> RunResult:
        """Run to the end of the input, or until a signal or `changes.stop()` stops the run.

        After SIGTERM or SIGHUP, the running epoch is committed if it ends within 20 seconds; then `StoppedError` ends
        the run.

        Raises:
            ShippingError: An object in the topology cannot be sent to the workers. Nothing has run.
            SparkSetupError: Java or Spark is missing or too old. Nothing has run.
            SparkJobError: A Spark job failed. Earlier epochs are committed.
        """
        check_program(topology, options)
        options, changes = options or RunOptions(), changes or Changes(topology)
        with heeding_signals(changes, options.checkpoint is not None, (SparkJobError, SparkSetupError, StreamError)):
            return self._with_credentials(topology, options, changes)

    def start(self, topology: Topology, options: RunOptions | None = None) -> Running:
        """Run in the background, where the topology can be changed; `Running.wait` raises the errors of the run."""
        topology.validate()
        return Running(topology, options or RunOptions(), partial(self._with_credentials, topology))

    def _with_credentials(self, topology: Topology, options: RunOptions, changes: Changes) -> RunResult:
        with using_credentials(options.credentials):
            return self._open(topology, options, changes)

    def _open(self, topology: Topology, options: RunOptions, changes: Changes) -> RunResult:
        if options.intervals is None:
            options = replace(options, intervals=self._intervals)
        topology.validate()
        code = packed(topology)
        if options.checkpoint is not None and not (self._session or has_session()):
            # Starting Spark takes ten seconds and more, for which nobody has to wait to be refused.
            require_possible(options.checkpoint, topology, options.checkpoint_key, options.consent)
        session = self._session or open_session()
        with naming_a_stop(session, options.checkpoint is not None):
            if self._session is not None:
                checked(session)
            refuse_streams(topology, session)
            # Spark does the same at Ctrl-C.
            changes.let_go = partial(cancel_all, session)
            prepare_workers(session)
            with ExitStack() as stack:
                location = stack.enter_context(_checkpoint_location(options, session))
                printed = stack.enter_context(_printed(session))
                engine = stack.enter_context(engine_session(session))
                return self._run(topology, code, options, engine, location, changes, printed)

    def _run(
        self,
        topology: Topology,
        code: bytes,
        options: RunOptions,
        engine: SparkSession,
        location: str,
        changes: Changes,
        printed: PrintedOutput | None,
    ) -> RunResult:
        clock = SystemClock()
        journal, store = open_checkpoint(
            *(location, topology, clock, "Spark runner"), options.checkpoint_key, options.consent
        )
        if journal.topology is not topology:
            topology, code = journal.topology, packed(journal.topology)
        if not cluster_of(engine).is_local():
            require_reached(engine, store, journal.generation)
        bind = partial(bound, store=store, options=self._streams)
        pack_payload = partial(
            TaskPayload.of,
            store=store,
            run=journal.identity,
            cache_bytes=options.cache_bytes,
            printed="" if printed is None else printed.path,
        )
        stages = options.one_task_epochs, options.task_idle_seconds
        executor = SparkExecutor(engine, topology, code, bind, pack_payload, *stages, journal.identity, printed)
        try:
            with new_objects_only():
                return Driver(executor.topology, executor, journal, clock, options, self._steps, changes).run()
        finally:
            with ExitStack() as cleanup:
                cleanup.callback(close_streams, executor.topology.injectors.values())
                # Nothing goes on from here without a checkpoint, or once the input has ended: state stores may go.
                if options.checkpoint is None or changes.finished:
                    StoreCache(journal.identity).discard()
                    shutil.rmtree(notes_folder(journal.identity), ignore_errors=True)


@contextmanager
def _checkpoint_location(options: RunOptions, session: SparkSession) -> Iterator[str]:
    """Yield the location of the checkpoint: the given one, else a temporary folder that exists during the run."""
    if options.checkpoint is not None:
        yield options.checkpoint
        return
    cluster = cluster_of(session)
    if not cluster.is_local():
        raise SparkSetupError(
            f"the session runs on {cluster.describe()}, whose executors do not share this machine's files; "
            "give the run a checkpoint that all of them reach (--checkpoint, or HEADRACE_CHECKPOINT)"
        )
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        yield folder


@contextmanager
def _printed(session: SparkSession) -> Iterator[PrintedOutput | None]:
    """Yield what takes the output of tasks, if these are on this machine."""
    if not cluster_of(session).is_local():
        yield None
        return
    printed = PrintedOutput()
    try:
        yield printed
    finally:
        printed.close()
