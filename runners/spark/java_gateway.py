"""Starts Spark's Java process, and passes its standard error on without a warning that Java prints at every start.

Spark always loads an incubator module, and no switch of Java turns the warning about this module off. The standard
error of the Java process is therefore a pipe. Only its first lines are compared with the warning; all other bytes are
passed on unchanged.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError

from headrace.runners.spark.pyspark_private import has_java, kill_started_java, launch_java

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
