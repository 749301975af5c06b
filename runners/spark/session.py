"""The Spark session of a run: the program's active session, or a new local one that prints little.

This module checks Spark before anything runs, and reports a problem in one sentence (`SparkSetupError`). What only a
session with a master needs is imported where such a session is made: a session of Spark Connect needs no Py4J, no Java
and no Spark, and `pyspark-client` has none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from weakref import WeakKeyDictionary

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.lowlevel.storage.places import hidden
from headrace.runners.spark.cluster.cluster import DriverAddress, cluster_of
from headrace.runners.spark.cluster.connect import give_up_at_exit
from headrace.runners.spark.engine_settings import ask_for_settings, put_back
from headrace.runners.spark.errors import SparkSetupError, is_unanswered, reason, require_answer
from headrace.runners.spark.releases import is_connect, version_numbers

OLDEST_SPARK = (3, 5)
_LAUNCHED_CONNECT = "SPARK_REMOTE"
_LAUNCHED = {"PYSPARK_GATEWAY_PORT", _LAUNCHED_CONNECT}
"""Environment variables of a program that a launcher, such as `spark-submit`, started for a session of its own."""

_PATIENCE = 5
"""Seconds without an answer of a server after which a warning says so."""
_log = logging.getLogger(__name__)
_ENCRYPTED = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
)
"""Settings by which connections between the processes of Spark are encrypted."""


def driver_address(session: SparkSession) -> DriverAddress | None:
    """The address of the driver as Spark's settings have it; None where connections must be encrypted, or go elsewhere.

    Over Spark Connect this program is where executors expect the driver only if the server is on the same machine.
    """
    cluster = cluster_of(session)
    if any((cluster.setting(name) or "").lower() == "true" for name in _ENCRYPTED) or not cluster.is_driver_here():
        return None
    host = cluster.setting("spark.driver.host") or "127.0.0.1"
    return DriverAddress(cluster.setting("spark.driver.bindAddress") or host, host)


@dataclass(slots=True)
class SessionState:
    """What this process has set up for one of the program's Spark sessions; it lasts as long as the session object."""

    sibling: SparkSession | None = None
    """The engine's session on the same cluster; None until a run needs it, and where there can be none."""
    before: dict[str, str | None] = field(default_factory=dict)
    """Settings of the session itself that the engine has changed, with their values before."""
    runs: int = 0
    """Number of runs that go on in the session."""
    sent: set[str] = field(default_factory=set)
    """Digests of the zip files that were sent to the executors of the session."""


_STATES: WeakKeyDictionary[SparkSession, SessionState] = WeakKeyDictionary()


def state_of(session: SparkSession) -> SessionState:
    """Return the state of a session, the same object at each call."""
    return _STATES.setdefault(session, SessionState())


def has_session() -> bool:
    """Whether the program has a session, or a Spark from which one is made in no time."""
    return SparkSession.getActiveSession() is not None or _has_context()


def _has_context() -> bool:
    """Whether the program has a context of a session with a master."""
    if _LAUNCHED_CONNECT in os.environ or not hasattr(pyspark, "SparkContext"):
        return False
    from headrace.runners.spark.jvm_private import has_context

    return has_context()


def open_session() -> SparkSession:
    """Return the active session of this program, or a new one if there is none. Raises `SparkSetupError`."""
    _require_spark(pyspark.__version__, "is installed")
    with _impatience(os.environ.get(_LAUNCHED_CONNECT)):
        session = SparkSession.getActiveSession() or _made()
    return checked(session)


@contextmanager
def _impatience(server: str | None) -> Iterator[None]:
    """Log after a while that the server of Spark Connect, if any, does not answer: its client is silent for minutes."""
    told = (
        "the server of Spark Connect at %s does not answer yet; Spark's client tries for ten minutes: see whether the "
        "server runs and the address is right. Ctrl-C ends the run",
        hidden(server or ""),
    )
    timer = Timer(_PATIENCE, _log.warning, told)
    timer.daemon = True
    if server is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _made() -> SparkSession:
    """The session that a launcher has prepared, else a new one with a master."""
    if _LAUNCHED & os.environ.keys() or _has_context():
        return SparkSession.builder.getOrCreate()
    if not _has_spark():
        raise SparkSetupError(
            "the installed pyspark is a client of Spark Connect (pyspark-client, databricks-connect), which cannot "
            "start Spark, and the program has no session; make one before the pipeline runs "
            "(SparkSession.builder.remote('sc://host:15002').getOrCreate(), DatabricksSession.builder.getOrCreate()), "
            f"name a server with {_LAUNCHED_CONNECT}=sc://host:15002, or install Spark itself: pip install pyspark"
        )
    from headrace.runners.spark.new_session import given_settings, new_session

    return new_session(given_settings())


def _has_spark() -> bool:
    """Whether there is a Spark that can be started: that of pyspark, or one that is named."""
    is_there = "SPARK_HOME" in os.environ or Path(pyspark.__file__).with_name("jars").is_dir()
    return is_there and hasattr(pyspark, "SparkContext")


def checked(session: SparkSession) -> SparkSession:
    """Return the session if headrace can use it. Raises `SparkSetupError` for an old Spark."""
    if is_connect(session) and session not in _STATES:
        # Before the first request: without a server, Ctrl-C during that request ends the program.
        give_up_at_exit(session)
        state_of(session)
    server = os.environ.get(_LAUNCHED_CONNECT) or session.client.host if is_connect(session) else None
    with _impatience(server):
        version = session.version
    _require_spark(version, "is what the session runs on")
    if is_connect(session) and version_numbers(pyspark.__version__) > version_numbers(version):
        _require_understanding(session, version)
    return session


def _require_understanding(session: SparkSession, version: str) -> None:
    """Raise `SparkSetupError` if the server does not understand a client that is newer than it."""
    try:
        session.createDataFrame([(1,)], "n int")
    except PySparkException as error:
        require_answer(error)
        raise SparkSetupError(
            f"the client of Spark Connect, pyspark {pyspark.__version__}, is newer than the server, Spark {version}, "
            f"which does not understand it ({reason(error)}); install the client of that release: "
            f"pip install 'pyspark-client=={'.'.join(version.split('.')[:2])}.*'"
        ) from None


@contextmanager
def engine_session(session: SparkSession) -> Iterator[SparkSession]:
    """Yield a session on the same cluster, with the settings that the engine's jobs need.

    It is a sibling of the session, which all runs on the session share, because Spark takes longer to make one than to
    run a small epoch. Where there can be none, it is the session itself, which gets its own settings back after its
    last run.
    """
    state = state_of(session)
    if (sibling := engine_sibling(session)) is not None:
        try:
            yield sibling
        finally:
            cluster_of(session).make_active()
        return
    state.runs += 1
    if state.runs == 1:
        state.before = ask_for_settings(session)
    try:
        yield session
    except Exception as error:
        if is_unanswered(error):
            # To put settings back would be tried for as long again.
            state.before = {}
        raise
    finally:
        state.runs -= 1
        if not state.runs:
            put_back(session, state.before)


def engine_sibling(session: SparkSession) -> SparkSession | None:
    """Return the sibling of a session that has the engine's settings; None where there can be none."""
    state = state_of(session)
    if state.sibling is None and (sibling := cluster_of(session).sibling()) is not None:
        ask_for_settings(sibling)
        state.sibling = sibling
    return state.sibling


def cancel_all(session: SparkSession) -> None:
    """Cancel all jobs of a session, and those of the engine for it."""
    cluster = cluster_of(session)
    if cluster.is_of_session and (sibling := state_of(session).sibling) is not None:
        cluster_of(sibling).cancel_all()
    cluster.cancel_all()


def _require_spark(version: str, how: str) -> None:
    if version_numbers(version) < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise SparkSetupError(
            f"Spark {version} {how}, but headrace needs {oldest} or newer: pip install 'pyspark>={oldest}'"
        )
