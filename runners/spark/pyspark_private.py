"""Every undocumented part of pyspark that sessions of both kinds need, one function for each; for Spark 3.5 to 4.3.

What only a session with a master needs, with Py4J and the Java process, is in `runners.spark.jvm_private`: this module
can be imported with every pyspark, also with a client of Spark Connect.

At an upgrade of pyspark or Py4J, check each function of both modules against the new sources, and run
`tests/spark/engine` and `tests/spark/faults`, which go through all of them. Two more things are promised nowhere and
have no function here: Spark's settings (`_QUIET` in `runners.spark.new_session`, and `runners.spark.engine_settings`),
and the messages of Spark's errors, which `runners.spark.jobs.job_error` searches
(`tests/unit/runners/spark/jobs/test_job_error.py` has an example of each).
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headrace.runners.spark.errors import bridge_errors

_STACK = re.compile(r"^\s*(at |\.\.\. |Driver stacktrace|JVM stacktrace|Caused by: java\.io\.EOFException)")
_DEEPEST = 20
FAULT_HANDLER_FOLDER = "PYTHON_FAULTHANDLER_DIR"
"""Environment variable of a worker process: the folder in which Spark has made a file for Python's fault handler, named
after the process id. Spark sets it if `spark.sql.execution.pyspark.udf.faulthandler.enabled` is true, and adds the
contents of the file to the error of a job whose worker process has died. Check: `pyspark/worker.py`."""


# --- plans -----------------------------------------------------------------------------------------------------------


def run_anew(plan: DataFrame) -> DataFrame:
    """A DataFrame that runs all stages of a plan, also those that were run for the plan before.

    Spark keeps the shuffles of a plan that was run, so the same DataFrame would give the rows of its first run. Relies
    on an alias being another logical plan, for which Spark makes a physical plan and shuffles of its own.
    """
    return plan.alias("epoch")


# --- errors ----------------------------------------------------------------------------------------------------------


def log_no_callback_error(kind: type[Exception]) -> None:
    """Keep Py4J from logging errors of class `kind` that are raised by a Python function that Spark calls.

    Relies on the name of Py4J's logger. The filter stays until this process ends; another call for the same class does
    not add a second filter.
    """
    filters = logging.getLogger("py4j.clientserver")
    if not any(isinstance(each, _WithoutError) and each.kind is kind for each in filters.filters):
        filters.addFilter(_WithoutError(kind))


class _WithoutError(logging.Filter):
    def __init__(self, kind: type[Exception]) -> None:
        super().__init__()
        self.kind = kind

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], self.kind))


def java_exception(error: Exception) -> object | None:
    """Return the Java exception behind a Spark error, as a Py4J proxy; None if there is none.

    Relies on the attribute `java_exception` of Py4J's error for an exception in Java, and on the attribute `_origin` of
    `pyspark.errors.exceptions.captured.CapturedException`.
    """
    found: object = getattr(error, "java_exception", None)
    return found if found is not None else getattr(error, "_origin", None)


def java_text(error: Exception) -> str:
    """The whole text of an error of Spark, with the stacks of threads."""
    try:
        return str(error)
    except bridge_errors() as failure:
        return f"Java no longer answers: {failure}"


def message_text(error: Exception) -> str:
    """The messages of all causes, the outermost first, without the stacks of threads."""
    java = java_exception(error)
    messages = list(_messages(java)) if java is not None else [java_text(error)]
    lines = [line for message in messages for line in message.splitlines() if not _STACK.match(line)]
    return "\n".join(lines)


def _messages(java: Any, depth: int = 0) -> Iterator[str]:
    """Messages of a Java exception, its causes and its suppressed exceptions."""
    while java is not None and depth < _DEEPEST:
        yield f"{java.getClass().getName()}: {java.getMessage() or ''}"
        for suppressed in java.getSuppressed():
            yield from _messages(suppressed, depth + 1)
        java, depth = java.getCause(), depth + 1


# --- Arrow -----------------------------------------------------------------------------------------------------------


def spark_schema(schema: pa.Schema) -> StructType:
    """The types that Spark has for those of Arrow; times without a zone stay so (`TIMESTAMP_NTZ`).

    Raises `PySparkTypeError` for a type that Spark does not have. Relies on `pyspark.sql.pandas.types`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The types of Arrow in which Spark takes its own. Relies on `pyspark.sql.pandas.types`.

    Raises `PySparkTypeError` for a type without one in Arrow, and `ValueError` for a decimal of over 38 digits.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.3, instants were in UTC without a word.
    convert = cast("Callable[..., pa.Schema]", to_arrow_schema)
    return convert(schema, **({"timezone": "UTC"} if "timezone" in signature(convert).parameters else {}))


# --- worker processes ------------------------------------------------------------------------------------------------


def run_worker_daemon(around: Callable[[Callable[[], int]], int]) -> None:
    """Run Spark's daemon for Python workers, which forks a worker process for each task that finds no idle worker.

    `around` runs the body of each worker, and returns the exit code of the worker.
    Relies on `pyspark.daemon`: `manager` calls the module's `worker` in each process that it forks.
    """
    from pyspark import daemon

    body = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        return around(lambda: int(body(sock, authenticated)))

    daemon.worker = worker
    daemon.manager()
