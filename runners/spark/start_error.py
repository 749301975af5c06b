"""Why Spark could not be started, in one sentence: what Java said, and the remedy for the kinds that are known."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError

from headrace.runners.spark.java_gateway import JavaStartError
from headrace.runners.spark.pyspark_private import message_text

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
_NOISE = re.compile(r"^\s*(?:at |\.\.\. )|^WARNING: |^Using Spark's default|^Setting default log|^To adjust log| WARN ")


def start_error(error: Exception, java: str | None) -> str:
    """The sentence for an error that ended the start of Spark; `java` is the program that was started."""
    if (wrong := wrong_home()) is not None:
        return wrong
    said = error.said if isinstance(error, JavaStartError) else _text(error)
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _NOISE.search(line)]
    what = f"Spark could not start its Java process with {java}"
    for pattern, remedy in _KINDS:
        if (line := next((line for line in lines if re.search(pattern, line)), None)) is not None:
            return f"{what}: {_short(line)}; {remedy}"
    if not lines:
        return f"{what}, which said nothing; {_COMPLETE}"
    return f"{what}: {_short(lines[0])}; correct that, or, if this Java lacks something, {_COMPLETE}"


def _text(error: Exception) -> str:
    return message_text(error) if isinstance(error, Py4JError) else f"{type(error).__name__}: {error}"


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
