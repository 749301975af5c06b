"""Makes a new session with a master: on this machine and printing little, or where the user's settings say.

Java is checked before it is started, and a problem is reported in one sentence (`SparkSetupError`).

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
from pathlib import Path
from types import MappingProxyType

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.runners.engine.driver.signals import FORKS
from headrace.runners.spark.errors import SparkSetupError
from headrace.runners.spark.java_gateway import JavaStartError, start_error, start_java
from headrace.runners.spark.jvm_private import spark_home
from headrace.runners.spark.releases import SESSION_SETTINGS, version_numbers

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
_APT = "(Debian, Ubuntu: apt-get install default-jre-headless)"
"""It is new enough wherever Python is; no release of Java has a package in all releases of Debian."""
_RETRIES = 4
"""Attempts at a task before Spark fails the job; by default a local master makes only one attempt."""
_MASTER = f"local[*,{_RETRIES}]"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_GIB = 1 << 30
_FEW_CORES = 4
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


def new_session(given: Mapping[str, str]) -> SparkSession:
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


def _oldest_java() -> int:
    """The oldest Java on which the installed Spark runs: 17 since Spark 4; with Spark 3.5, 11 is the oldest tried."""
    return 17 if version_numbers(pyspark.__version__) >= (4, 0) else 11


def _require_java() -> None:
    java, oldest = _java(), _oldest_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        raise SparkSetupError(
            f"Spark needs Java {oldest} or newer, but {where}; install one {_APT} or point JAVA_HOME at it"
        )
    version = _java_version(java)
    if version is not None and version < oldest:
        raise SparkSetupError(
            f"Spark needs Java {oldest} or newer, but {java} is Java {version}; "
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
