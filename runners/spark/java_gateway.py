"""Starts Spark's Java process, whose standard error goes on to this program's without what Java says at every start.

Spark always loads an incubator module, and Java has no switch that keeps it from saying so. The process therefore
writes into a pipe. Only the lines of its start are looked at; everything else is passed on as it comes, byte for byte.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Callable
from typing import cast

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext, java_gateway

_NOISE = (b"WARNING: Using incubator modules: jdk.incubator.vector",)
"""Lines that say nothing about this run."""
_LOOKED_AT = 20
"""Lines of the start among which the noise is."""
_PATIENCE_SECONDS = 5.0
"""How long a process that is over, or asked to be, is given for its last words."""


def start_java(conf: SparkConf) -> None:
    """Start the Java process of this program's Spark contexts, unless there is one.

    Raises `pyspark.errors.PySparkRuntimeError` if it does not come up; what it said of that has been passed on.
    """
    if SparkContext._gateway is not None:
        return
    reading, writing = os.pipe()
    passing = threading.Thread(target=pass_on, args=(reading, 2), name="headrace-java-errors", daemon=True)
    passing.start()
    try:
        # Spark says nothing of its types.
        launch = cast("Callable[[SparkConf, dict[str, int]], JavaGateway]", java_gateway.launch_gateway)
        gateway = launch(conf, {"stderr": writing})
    except BaseException:
        os.close(writing)
        passing.join(_PATIENCE_SECONDS)
        raise
    os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway)
    atexit.register(_end, gateway.proc, passing)


def _end(java: subprocess.Popen[bytes], passing: threading.Thread) -> None:
    """Have the process end, as it does when its input ends, and pass its last words on."""
    if java.stdin is not None:
        java.stdin.close()
    passing.join(_PATIENCE_SECONDS)


def pass_on(source: int, target: int) -> None:
    """Copy what comes from one file descriptor to another until it ends, without the noise of a start.

    A line of the start is passed on when it is whole or can be no noise, so a question without an end of line is seen.
    """
    waiting = b""
    looked_at = 0
    with os.fdopen(source, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
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
            # Nobody listens any more; the process must not wait for that.
            return
