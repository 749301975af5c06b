"""A session that is stopped while a run uses it: one sentence says so, and no job is waited for in vain.

Spark forgets a job that is submitted while its context stops: whoever waits for that job waits for ever (seen with 3.5
to 4.1). So a thread looks whether the session is stopped, and then ends such waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import SparkSession

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.spark.cluster.cluster import Cluster, cluster_of
from headrace.runners.spark.dataframe.injectors import StreamError
from headrace.runners.spark.jobs.job_error import SparkJobError

_LOOK_SECONDS = 1.0
"""Time between two questions whether the session is stopped."""
_PATIENCE_SECONDS = 2.0
"""How long Spark may take to end the jobs of a stopped session by itself."""
_log = logging.getLogger(__name__)


@contextmanager
def naming_a_stop(session: SparkSession, durable: bool) -> Iterator[None]:
    """Raise `SparkJobError` for whatever fails inside as the program, or somebody else, has stopped the session."""
    try:
        with _ending_forgotten_jobs(cluster_of(session)):
            yield
    except Exception as error:
        is_own = isinstance(error, HeadraceError) and not isinstance(error, (SparkJobError, StreamError))
        if is_own or not cluster_of(session).is_stopped():
            raise
        _log.debug("the session was stopped", exc_info=error)
        kept = "what is committed stays, and the run goes on from there"
        outcome = kept if durable else "without a checkpoint the run begins anew"
        raise SparkJobError(
            "the Spark session of this run is stopped (SparkSession.stop(), or the end of its application); "
            f"{outcome} when it is started again with a new session"
        ) from None


@contextmanager
def _ending_forgotten_jobs(cluster: Cluster) -> Iterator[None]:
    over = Event()
    thread = Thread(target=end_forgotten_jobs, args=(cluster, over), name="headrace-stopped-session", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_LOOK_SECONDS)


def end_forgotten_jobs(
    cluster: Cluster, over: Event, look_seconds: float = _LOOK_SECONDS, patience_seconds: float = _PATIENCE_SECONDS
) -> None:
    """Once the session is stopped, end what waits for one of its jobs on and on; returns when `over` is set.

    Args:
        cluster: The session's.
        over: Set when the run has ended.
        look_seconds: Time between two questions whether the session is stopped.
        patience_seconds: How long a stopped session has to end a job by itself.
    """
    while not cluster.is_stopped():
        if over.wait(look_seconds):
            return
    waiting: frozenset[int] = frozenset()
    while not over.wait(patience_seconds):
        still = cluster.forgotten_jobs()
        if forgotten := still & waiting:
            _log.info("the session is stopped, and Spark has forgotten %d of its jobs", len(forgotten))
            cluster.end_forgotten(forgotten)
        waiting = still
