"""The Spark session that a run works with: the program's own, or a quiet local one.

What can be wrong with Java, Spark or the workers' Python is found here, before anything starts, and said in a sentence.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.engine.signals import FORKS
from headrace.runners.spark import lastwords
from headrace.runners.spark.launch import start_java

OLDEST_JAVA = 17
OLDEST_SPARK = (4, 1)
_SIBLING = "_headrace_sibling"
_RETRIES = 4
"""How often Spark runs a task before it gives a job up; a local master would otherwise not try again."""
_GIB = 1 << 30
_FEW_CORES = 4
_LAUNCHED = {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"}
"""Environment variables of a program that was started for a session which is described elsewhere."""
_LOGGING = Path(__file__).with_name("log4j2.properties").resolve()

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    # Over TCP, the short messages of a tiny epoch wait for each other: 90 ms an epoch.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "headrace.runners.spark.daemon",
    # Compressing what goes from one process to another of the same machine costs more than it saves.
    "spark.shuffle.compress": "false",
    "spark.locality.wait": "0",
}
"""Of a session of our own, when it is made."""
_OURS = {
    # Plans that only pass blobs on: adapting or compiling them takes longer than running them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # A table given by the driver becomes partitions batch by batch, as it was cut.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Blobs may be large: a batch ends before Arrow's 2 GiB do, and a task need not hold many of them twice.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Attempts at a task always differ, by their tokens, and the driver sees to it that they are not mixed: it runs the
    # epoch again. Spark, where it compares attempts, would give the job up instead.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    # What a worker process that dies was doing.
    lastwords.SETTING: "true",
}
"""Of the engine's jobs, in whatever session; set on a sibling of it, so that the program's own jobs keep theirs."""


class SparkSetupError(HeadraceError, RuntimeError):
    """Spark cannot run here as things are. Nothing has run."""


def open_session() -> SparkSession:
    """The active session of this program, else a new one. Raises `SparkSetupError`."""
    _require_spark(pyspark.__version__, "is installed")
    session = SparkSession.getActiveSession()
    if session is None:
        launched = SparkContext._active_spark_context is not None or _LAUNCHED & os.environ.keys()
        session = SparkSession.builder.getOrCreate() if launched else local_session()
    return checked(session)


def checked(session: SparkSession) -> SparkSession:
    """The session, if it can be worked with. Raises `SparkSetupError`."""
    _require_spark(session.version, "is what the session runs on")
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SparkSetupError(
            "the session is one of Spark Connect, over which tasks cannot be given their input; "
            "use a session made with a master (SparkSession.builder.master(...)), or none"
        )
    return session


def engine_session(session: SparkSession) -> SparkSession:
    """A sibling of the session, on the same cluster, with the settings that the engine's jobs need.

    There is one for all runs on a session: Spark takes longer to set another one up than to run a small epoch.
    """
    sibling: SparkSession | None = session.__dict__.get(_SIBLING)
    if sibling is None:
        sibling = session.newSession()
        for name, value in _OURS.items():
            sibling.conf.set(name, value)
        session.__dict__[_SIBLING] = sibling
        _let_java_end_quietly(session)
    return sibling


def _let_java_end_quietly(session: SparkSession) -> None:
    """Keep Spark and Py4J from printing tracebacks when the Java process ends: whoever needs Java says so."""
    logging.getLogger().addFilter(_is_news)
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    told: Callable[[object, object], None] = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            told(request, address)

    server.handle_error = handle_error


def _is_news(record: logging.LogRecord) -> bool:
    """False for an error that Py4J logs, by the root logger, and then raises: that Java is gone."""
    gone = record.exc_info is not None and isinstance(record.exc_info[1], (EOFError, ConnectionError, Py4JError))
    return not (gone and record.module == "java_gateway")


def make_active(session: SparkSession) -> None:
    """Make a session the program's active one again.

    Spark makes that session active which a DataFrame was last made from rows with, so our sibling of the program's.
    """
    with suppress(Py4JError, ConnectionError):  # Java may be gone, which is an error of its own.
        # pyspark says that a session may have no JVM; one that is no Connect session has.
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)  # type: ignore[union-attr]
    SparkSession._activeSession = session


def is_local(session: SparkSession) -> bool:
    """Whether all tasks run on this machine, in processes that see its files."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def local_session(master: str = f"local[*,{_RETRIES}]") -> SparkSession:
    """A new quiet session on this machine; `master` says how many tasks run at once and how often one is tried.

    Raises `SparkSetupError`.
    """
    _require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = {"spark.driver.extraJavaOptions": _java_options(), "spark.driver.memory": f"{_driver_gib()}g"}
    conf = SparkConf().setAppName("headrace").setMaster(master).setAll([*_QUIET.items(), *ours.items()])
    try:
        # Java would end at a signal to all processes of a service, and could not end the epoch. It ends with this one.
        with FORKS.ignoring():
            start_java(conf)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkSetupError(
            f"Spark could not start its Java process with {_java()} ({error}); "
            f"point JAVA_HOME at a complete Java {OLDEST_JAVA} or 21"
        ) from error
    # Else the workers complain about the end of their Java process.
    atexit.register(_stop, session)
    return session


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, ConnectionError):
        session.stop()


def _java_options() -> str:
    options = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    if (os.cpu_count() or 1) <= _FEW_CORES:
        # Java's second compiler would take half of two cores for minutes, to speed up code that only passes blobs on.
        options += " -XX:TieredStopAtLevel=1"
    return options


def _driver_gib() -> int:
    """A quarter of the machine, as Python's workers need the rest."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return int(min(max(total // 4 // _GIB, 1), 8))


def _require_spark(version: str, how: str) -> None:
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if found < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise SparkSetupError(
            f"Spark {version} {how}, but headrace needs {oldest} or newer: pip install 'pyspark>={oldest}'"
        )


def _require_java() -> None:
    java = _java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {where}; install one "
            f"(Debian, Ubuntu: apt-get install openjdk-{OLDEST_JAVA}-jre-headless) or point JAVA_HOME at it"
        )
    version = _java_version(java)
    if version is not None and version < OLDEST_JAVA:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {java} is Java {version}; "
            f"install a newer one or point JAVA_HOME at it"
        )


def _java() -> str | None:
    """The Java that Spark would start: JAVA_HOME's, else the one on the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return str(java) if os.access(java, os.X_OK) else None
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    """Its feature release, None if it does not say. The file next to it answers without starting it."""
    release = Path(java).resolve().parent.parent / "release"
    text = release.read_text() if release.exists() else _ask(java)
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _ask(java: str) -> str:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise SparkSetupError(f"{java} cannot be started ({error}); point JAVA_HOME at a Java that can") from error
    return answer.stderr + answer.stdout
