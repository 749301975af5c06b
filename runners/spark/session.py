"""The Spark session of a run: the program's active session, or a new local one that prints little.

This module checks Java and Spark before anything runs, and reports a problem in one sentence (`SparkSetupError`).

A new session keeps the settings that the user has given outside of the program. Spark reads them from
`spark-defaults.conf`, the arguments in `PYSPARK_SUBMIT_ARGS` and a few environment variables. What a program sets
itself comes before all of them, so headrace must know them before it sets anything.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from weakref import WeakKeyDictionary

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.engine.driver.signals import FORKS
from headrace.runners.spark.cluster.cluster import DriverAddress, cluster_of, is_connect
from headrace.runners.spark.cluster.connect import give_up_at_exit
from headrace.runners.spark.java_gateway import JavaStartError, start_error, start_java
from headrace.runners.spark.pyspark_private import has_context, spark_home
from headrace.runners.spark.releases import SESSION_SETTINGS, batch_settings, has_siblings

_FLAGS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
"""Arguments of `spark-submit` that stand for settings which headrace has a value of its own for."""
_VARIABLES = {"MASTER": "spark.master", "SPARK_DRIVER_MEMORY": "spark.driver.memory"}
"""Environment variables that do."""
_log = logging.getLogger(__name__)
OLDEST_JAVA = 17
OLDEST_SPARK = (3, 5)
_APT = "(Debian, Ubuntu: apt-get install default-jre-headless)"
"""It is new enough wherever Python is; no release of Java has a package in all releases of Debian."""
_RETRIES = 4
"""Attempts at a task before Spark fails the job; by default a local master makes only one attempt."""
_MASTER = f"local[*,{_RETRIES}]"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_GIB = 1 << 30
_FEW_CORES = 4
_LAUNCHED = {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"}
"""Environment variables of a program that a launcher, such as `spark-submit`, started for a session of its own."""
_LOGGING = Path(__file__).with_name("log4j2.properties").resolve()

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    # Over TCP, the short messages of a tiny epoch wait for acknowledgements: 90 ms an epoch.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "headrace.runners.spark.worker.daemon",
    # Compression of data between processes of the same machine costs more time than it saves.
    "spark.shuffle.compress": "false",
    "spark.locality.wait": "0",
}
"""Settings of a local session that headrace makes itself."""
_ENGINE_SETTINGS = {
    # The plans only pass blobs on: to adapt or compile them takes longer than to run them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Each batch of a table that the driver sends becomes a partition.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Attempts at a task always have different output, because of their tokens. The driver does not mix attempts: it
    # runs the epoch again. If Spark compared the output of attempts, it would fail the job instead.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    # The fault handler says what a crashed worker process was doing, see `runners.spark.worker.last_step`.
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}
"""Settings for the engine's jobs. They are set on a sibling of the session, so the program's own jobs keep theirs."""


class SparkSetupError(HeadraceError, RuntimeError):
    """Spark cannot run with the installed Java, the installed Spark or the given session. Nothing has run."""


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
    """The engine's session on the same cluster; None until a run needs it."""
    sent: set[str] = field(default_factory=set)
    """Digests of the zip files that were sent to the executors of the session."""


_STATES: WeakKeyDictionary[SparkSession, SessionState] = WeakKeyDictionary()


def state_of(session: SparkSession) -> SessionState:
    """Return the state of a session, the same object at each call."""
    return _STATES.setdefault(session, SessionState())


def has_session() -> bool:
    """Whether the program has a session, or a Spark from which one is made in no time."""
    return SparkSession.getActiveSession() is not None or has_context()


def open_session() -> SparkSession:
    """Return the active session of this program, or a new one if there is none. Raises `SparkSetupError`."""
    _require_spark(pyspark.__version__, "is installed")
    session = SparkSession.getActiveSession()
    if session is None:
        if has_context() or _LAUNCHED & os.environ.keys():
            session = SparkSession.builder.getOrCreate()
        else:
            session = _new_session(given_settings())
    return checked(session)


def checked(session: SparkSession) -> SparkSession:
    """Return the session if headrace can use it. Raises `SparkSetupError` for an old Spark."""
    if is_connect(session):
        if not has_siblings(session):
            raise SparkSetupError(
                f"the session is one of Spark Connect {pyspark.__version__}, where jobs cannot have settings of their "
                "own; install pyspark 4.1 or newer, or use a session made with a master "
                "(SparkSession.builder.master(...))"
            )
        if session not in _STATES:
            # Before the first request: without a server, Ctrl-C during that request ends the program.
            give_up_at_exit(session)
            state_of(session)
    _require_spark(session.version, "is what the session runs on")
    return session


def engine_session(session: SparkSession) -> SparkSession:
    """Return a sibling of the session, on the same cluster, with the settings that the engine's jobs need.

    All runs on a session share one sibling, because Spark takes longer to make a session than to run a small epoch.
    """
    state = state_of(session)
    if state.sibling is None:
        sibling = cluster_of(session).sibling()
        for name, value in (_ENGINE_SETTINGS | batch_settings(sibling)).items():
            sibling.conf.set(name, value)
        state.sibling = sibling
    return state.sibling


def cancel_all(session: SparkSession) -> None:
    """Cancel all jobs of a session, and those of the engine for it."""
    cluster = cluster_of(session)
    if cluster.is_of_session and (sibling := state_of(session).sibling) is not None:
        cluster_of(sibling).cancel_all()
    cluster.cancel_all()


def _new_session(given: Mapping[str, str]) -> SparkSession:
    """Make a session where the user's settings say, which is on this machine if they say nothing."""
    master = given.get("spark.master", _MASTER)
    return local_session(master, given) if master.startswith("local") and "cluster" not in master else _session({})


def local_session(master: str = _MASTER, given: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Make a local session that prints little; `master` gives the number of concurrent tasks and attempts per task.

    Settings in `given` come before those that headrace has for such a session. Raises `SparkSetupError`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = SESSION_SETTINGS | {
        "spark.app.name": "headrace",
        "spark.driver.memory": f"{_driver_gib()}g",
        "spark.master": master,
    }
    settings = {name: value for name, value in (_QUIET | ours).items() if name not in given}
    options = f"{_java_options()} {given.get(_JAVA_OPTIONS, '')}".strip()
    return _session(settings | {"spark.master": master, _JAVA_OPTIONS: options})


def _session(settings: Mapping[str, str]) -> SparkSession:
    """Start Java, and make a session with these settings. Raises `SparkSetupError`."""
    _require_java()
    conf = SparkConf().setAll(list(settings.items()))
    try:
        # Java ignores a signal that a service sends to all its processes: the epoch needs Java until its commit. Java
        # ends when this process ends.
        with FORKS.ignoring():
            start_java(conf)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except (JavaStartError, PySparkException, Py4JError, OSError) as error:
        # Without the cause, whose text has many lines of Java; it is in the log.
        _log.debug("Spark could not be started", exc_info=error)
        raise SparkSetupError(start_error(error, _java())) from None
    # Without a stop, the workers print errors about the end of their Java process.
    atexit.register(_stop, session)
    return session


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, ConnectionError):
        session.stop()


def _java_options() -> str:
    options = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    if (os.cpu_count() or 1) <= _FEW_CORES:
        # Java's second compiler would use one of two cores for minutes, to speed up code that only passes blobs on.
        options += " -XX:TieredStopAtLevel=1"
    return options


def _driver_gib() -> int:
    """Return the memory of the Java process in GiB: a quarter of the machine's, from 1 to 8; workers need the rest.

    It is 1 if the system does not say how much the machine has, as not every POSIX system does.
    """
    total = 0
    with suppress(ValueError, OSError):
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
            f"Spark needs Java {OLDEST_JAVA} or newer, but {where}; install one {_APT} or point JAVA_HOME at it"
        )
    version = _java_version(java)
    if version is not None and version < OLDEST_JAVA:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer, but {java} is Java {version}; "
            f"install a newer one {_APT} or point JAVA_HOME at it"
        )


def _java() -> str | None:
    """Return the path of the Java that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return str(java) if os.access(java, os.X_OK) else None
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    """Return the feature release of a Java, such as 17; None if it is not known.

    The file `release` of the installation is read if it exists, as that is faster than `java -version`.
    """
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


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings that `spark-submit` would find in this environment. Raises OSError for an unreadable file."""
    found = {name: environment[variable] for variable, name in _VARIABLES.items() if environment.get(variable)}
    arguments = submit_arguments(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    path = Path(arguments.pop("--properties-file", "") or _defaults(environment))
    if path.is_file():
        found |= properties(path.read_text(errors="replace"))
    return found | arguments


def _defaults(environment: Mapping[str, str]) -> Path:
    folder = environment.get("SPARK_CONF_DIR")
    return Path(folder or Path(environment.get("SPARK_HOME") or spark_home(), "conf"), "spark-defaults.conf")


def submit_arguments(text: str) -> dict[str, str]:
    """Return the settings among arguments of `spark-submit`; `--properties-file` stays under that name.

    >>> submit_arguments("--master local[2] --conf spark.ui.enabled=false --driver-memory=3g pyspark-shell")
    {'spark.master': 'local[2]', 'spark.ui.enabled': 'false', 'spark.driver.memory': '3g'}
    """
    found: dict[str, str] = {}
    rest = shlex.split(text)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if flag not in {*_FLAGS, "--conf", "-c", "--properties-file"}:
            continue
        if not equals and rest:
            value = rest.pop(0)
        if flag in ("--conf", "-c"):
            flag, _, value = value.partition("=")
        found[_FLAGS.get(flag, flag)] = value
    return found


def properties(text: str) -> dict[str, str]:
    r"""Return the settings of a file such as `spark-defaults.conf`.

    >>> properties("# ours\nspark.master   local[2]\nspark.app.name = my app\nspark.x:\\\n  1\n")
    {'spark.master': 'local[2]', 'spark.app.name': 'my app', 'spark.x': '1'}
    """
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    parts = (re.split(r"\s*[=:]\s*|\s+", line.strip(), maxsplit=1) for line in lines)
    return {name: "".join(rest).strip() for name, *rest in parts if name and name[0] not in "#!"}
