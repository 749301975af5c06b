"""Starts Spark's Java process, and passes its standard error on without a warning that Java prints at every start.

Spark always loads an incubator module, and no switch of Java turns the warning about this module off. The standard
error of the Java process is therefore a pipe. Only its first lines are compared with the warning; all other bytes are
passed on unchanged. Why Spark could not be started is told in one sentence: what Java said, and the remedy for the
kinds that are known.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import threading
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from headrace.runners.spark.jvm_private import has_java, kill_started_java, launch_java
from headrace.runners.spark.pyspark_private import message_text

_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector",)
"""Lines that are not passed on, as they say nothing about the run."""
_LOOKED_AT = 20
"""Number of first lines that are compared with `_NOISE`."""
_KEPT = 1 << 16
"""Number of bytes that are kept to say why the process has not started."""
_PATIENCE_SECONDS = 5.0
"""How long to wait for the last output of a Java process that has ended or was asked to end."""


class JavaStartError(Exception):
    """The Java process could not be started; `said` is its error output, which was passed on before."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def start_java(conf: SparkConf) -> None:
    """Start the Java process of this program's Spark contexts, unless it is running already.

    Raises `JavaStartError` if the process ends before it answers, and OSError if there is no such program.
    """
    if has_java():
        return
    reading, writing = os.pipe()
    given_up = threading.Event()
    said = bytearray()
    arguments = (reading, 2, given_up, said)
    passing = threading.Thread(target=pass_on, args=arguments, name="headrace-java-errors", daemon=True)
    passing.start()
    try:
        java = launch_java(conf, writing)
    except KeyboardInterrupt as stop:
        # The folder that the process writes to is deleted: it would print a stack trace.
        given_up.set()
        kill_started_java(stop)
        os.close(writing)
        raise
    except BaseException as error:
        os.close(writing)
        passing.join(_PATIENCE_SECONDS)
        if isinstance(error, PySparkRuntimeError):
            raise JavaStartError(said.decode(errors="replace")) from error
        raise
    os.close(writing)
    atexit.register(_end, java, passing)


def _end(java: subprocess.Popen[bytes], passing: threading.Thread) -> None:
    """Close the input of the Java process, at which it ends, and pass its last output on."""
    if java.stdin is not None:
        java.stdin.close()
    passing.join(_PATIENCE_SECONDS)


def pass_on(source: int, target: int, given_up: threading.Event | None = None, first: bytearray | None = None) -> None:
    """Copy all bytes from one file descriptor to another until the source ends, without the lines in `_NOISE`.

    The first bytes are added to `first`.

    Of the first lines, an incomplete one is passed on as soon as it cannot become noise, so that a prompt without an
    end of line is visible. Bytes that arrive after the event `given_up` are discarded.
    """
    waiting = b""
    looked_at = 0
    with os.fdopen(source, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
            if given_up is not None and given_up.is_set():
                continue
            if first is not None and len(first) < _KEPT:
                first += data
            waiting += data
            while looked_at < _LOOKED_AT and b"\n" in waiting:
                line, _, waiting = waiting.partition(b"\n")
                looked_at += 1
                if line.rstrip() not in _NOISE:
                    _write(target, line + b"\n")
            if looked_at >= _LOOKED_AT or not any(noise.startswith(waiting) for noise in _NOISE):
                _write(target, waiting)
                waiting = b""
        _write(target, waiting)


def _write(target: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(target, data) :]
        except OSError:
            # The target is closed. Reading goes on, as the Java process must not block on a full pipe.
            return


_COMPLETE = "point JAVA_HOME at a complete Java 17 or 21"
_SETTING = "spark.driver.memory, in spark-defaults.conf or in a session that the program makes"
_KINDS = [
    (
        r"(?:NullPointerException|invalid null input): name|LoginException: java\.lang\.NullPointer|basedir .*: \?",
        f"the user id {os.getuid()} has no name here: add a line for it to /etc/passwd, or run as a user that has one",
    ),
    (
        r"Could not reserve enough space|insufficient memory for the Java|os::commit_memory|create native thread",
        f"let Java take less ({_SETTING}), or give the process more memory",
    ),
    (r"(?:System|Executor) memory \d+ must be at least", f"let Java have 1g or more: {_SETTING}"),
    (r"Invalid (?:maximum|initial) heap size|NumberFormatException: .*suffix", f"write 2g or 512m: {_SETTING}"),
    (r"getSubject is|UnsupportedClassVersionError|Module jdk\.\S+ not found|Unrecognized (?:VM )?option", _COMPLETE),
    (
        r"UnknownHostException|Can(?:no|')t assign requested address",
        "set SPARK_LOCAL_IP to an address of this machine, such as 127.0.0.1",
    ),
    (r"Could not parse Master URL", "correct spark.master, in spark-defaults.conf or PYSPARK_SUBMIT_ARGS"),
    (r"No space left on device|Disk quota exceeded", "free some space, or name another folder with spark.local.dir"),
]
"""Pattern in what Java says -> the remedy; the first match counts."""
_UNTOLD = re.compile(
    r"^\s*(?:at |\.\.\. )|^WARNING: |^Using Spark's default|^Setting default log|^To adjust log| WARN "
)


def start_error(error: Exception, java: str | None) -> str:
    """The sentence for an error that ended the start of Spark; `java` is the program that was started."""
    if (wrong := wrong_home()) is not None:
        return wrong
    said = error.said if isinstance(error, JavaStartError) else _text(error)
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _UNTOLD.search(line)]
    what = f"Spark could not start its Java process with {java}"
    for pattern, remedy in _KINDS:
        if (line := next((line for line in lines if re.search(pattern, line)), None)) is not None:
            return f"{what}: {_short(line)}; {remedy}"
    if not lines:
        return f"{what}, which said nothing; {_COMPLETE}"
    return f"{what}: {_short(lines[0])}; correct that, or, if this Java lacks something, {_COMPLETE}"


def _text(error: Exception) -> str:
    if not isinstance(error, Py4JError):
        return f"{type(error).__name__}: {error}"
    try:
        return message_text(error)
    except (Py4JError, OSError):
        return f"{type(error).__name__}: Java has ended since, and its text is lost"


def _short(line: str) -> str:
    """A line without the thread and the class of an exception."""
    line = re.sub(r'^Exception in thread "\S+" ', "", line.removeprefix("Caused by: "))
    return re.sub(r"^(?:[a-z]\w*\.)+(?=\w+: )", "", line)[:300]


def wrong_home() -> str | None:
    """What is wrong with `SPARK_HOME`, if anything."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        return None
    remedy = "unset SPARK_HOME to use the Spark in the package pyspark, or point it at a Spark of that version"
    if not Path(home, "bin", "spark-submit").is_file():
        return f"SPARK_HOME is {home}, where there is no bin/spark-submit; {remedy} ({pyspark.__version__})"
    found = next((Path(home) / "jars").glob("spark-core_*.jar"), None)
    version = re.search(r"_[\d.]+-(\d+\.\d+)\S*", found.stem) if found is not None else None
    if version is not None and not pyspark.__version__.startswith(f"{version[1]}."):
        return f"SPARK_HOME is {home}, which is Spark {version[1]}, but pyspark is {pyspark.__version__}; {remedy}"
    return None
