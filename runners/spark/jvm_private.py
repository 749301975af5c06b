"""Every undocumented part of pyspark and Py4J that only a session with a master needs, one function for each.

Nothing here is imported for a session of Spark Connect, whose pyspark may have neither Py4J nor Spark's own code. What
sessions of both kinds need is in `runners.spark.pyspark_private`, which also says what to do at an upgrade.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any, cast

import pyarrow as pa
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, find_spark_home, java_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.runners.spark.pyspark_private import arrow_schema

# --- the Java process -------------------------------------------------------------------------------------------------


def spark_home() -> str:
    """The folder of the Spark that would be started. Relies on `pyspark.find_spark_home`."""
    return str(find_spark_home._find_spark_home())


def has_java() -> bool:
    """Whether this program has started, or found, the Java process of its Spark contexts.

    Relies on the attribute `SparkContext._gateway`.
    """
    return SparkContext._gateway is not None


def launch_java(conf: SparkConf, stderr: int) -> subprocess.Popen[bytes]:
    """Start the Java process with this standard error (a file descriptor) and give it to Spark's contexts.

    Raises `pyspark.errors.PySparkRuntimeError` if the process cannot be started. Relies on
    `java_gateway.launch_gateway`, which takes arguments of `Popen`, on the attribute `proc` of its result, and on
    `SparkContext._ensure_initialized`.
    """
    launch = cast("Callable[[SparkConf, dict[str, int]], JavaGateway]", java_gateway.launch_gateway)
    gateway = launch(conf, {"stderr": stderr})
    SparkContext._ensure_initialized(gateway=gateway)
    return cast("subprocess.Popen[bytes]", gateway.proc)


def kill_started_java(error: BaseException) -> None:
    """Kill the Java process whose start was interrupted by this error.

    It would stay for good: it has failed before it looks at its input, at whose end it would end. Relies on the local
    variable `proc` of `java_gateway.launch_gateway`.
    """
    for frame, _ in walk_tb(error.__traceback__):
        if isinstance(java := frame.f_locals.get("proc"), subprocess.Popen):
            java.kill()


def let_java_end_quietly(session: SparkSession) -> None:
    """Keep pyspark and Py4J from printing tracebacks when the Java process ends: calls to Java raise errors anyway.

    Relies on the server of accumulators, `SparkContext._accumulatorServer`, a `socketserver`, and on Py4J, whose module
    `java_gateway` logs the end of Java through the root logger. The filter of the root logger and the handler of the
    server stay until this process ends.
    """
    logging.getLogger().addFilter(_is_no_end_of_java)
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    report: Callable[[object, object], None] = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exception(), (EOFError, ConnectionError)):
            report(request, address)

    server.handle_error = handle_error


def _is_no_end_of_java(record: logging.LogRecord) -> bool:
    gone = record.exc_info is not None and isinstance(record.exc_info[1], (EOFError, ConnectionError, Py4JError))
    return not (gone and record.module == "java_gateway")


def knows_java_class(session: SparkSession, name: str) -> bool:
    """Whether this release of Spark has a Java class of that name. Relies on `SparkContext._jvm`."""
    try:
        session.sparkContext._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]  # it runs, so it has a JVM
    except Py4JError:
        return False
    return True


# --- contexts and sessions --------------------------------------------------------------------------------------------


def has_context() -> bool:
    """Whether this program has a Spark context. Relies on `SparkContext._active_spark_context`."""
    return SparkContext._active_spark_context is not None


def make_active_in_java(session: SparkSession) -> None:
    """Make a session the active one of the Java process. Relies on `SparkSession._jvm` and `_jsparkSession`.

    Raises `Py4JError` or `ConnectionError` if Java is gone.
    """
    jvm = session._jvm
    assert jvm is not None, "a session that is not one of Connect has a JVM"
    jvm.SparkSession.setActiveSession(session._jsparkSession)


def make_active_in_python(session: SparkSession) -> None:
    """Make a session the active one of this program. Relies on `SparkSession._activeSession`."""
    SparkSession._activeSession = session


def is_stopped(session: SparkSession) -> bool:
    """Whether the session's context is stopped, from Python or in Java. Relies on `SparkContext._jsc`.

    Raises `Py4JError` or `OSError` if Java is gone.
    """
    context: Any = cast(Any, session.sparkContext)._jsc
    return context is None or bool(context.sc().isStopped())


def is_context_in_java(session: SparkSession) -> bool:
    """Whether the Java process has a context that is not stopped, whoever made it.

    Relies, in Java, on `SparkContext.getActive`, which has none once a stop is complete. Raises as `is_stopped` does.
    """
    package = cast(Any, session)._jvm.org.apache.spark
    return bool(getattr(getattr(package, "SparkContext$"), "MODULE$").getActive().isDefined())


def threads_of_jobs(session: SparkSession) -> dict[int, Any]:
    """Java's threads that wait for a job, by their ids. Raises as `is_stopped` does.

    Relies, in Java, on a thread that waits for a job being in `DAGScheduler.runJob`, where an interrupt ends the job's
    action with an error; and on Python's call waiting for the end of the action in `SocketAuthServer.getResult`. With
    Spark 3.5 the thread of an interrupted action dies without a word to that call, which would wait for ever.
    """
    threads = cast(Any, session)._jvm.java.lang.Thread.getAllStackTraces().keySet()
    waiting = (thread for thread in threads if thread.getState().toString() == "WAITING")
    return {thread.getId(): thread for thread in waiting if any(map(_is_job, thread.getStackTrace()))}


_WAITING_FOR_JOB = {
    ("org.apache.spark.scheduler.DAGScheduler", "runJob"),
    ("org.apache.spark.security.SocketAuthServer", "getResult"),
}


def _is_job(frame: Any) -> bool:
    return (frame.getClassName(), frame.getMethodName()) in _WAITING_FOR_JOB


def concurrent_tasks(session: SparkSession) -> int:
    """How many tasks of the usual needs (`spark.task.cpus` and the like) the executors that are there run at once.

    `defaultParallelism` says otherwise: it knows nothing of needs, may be a setting, and is 2 for one core of a
    cluster. Relies on `SparkContext._jsc` and, in Java, on `SparkContext.maxNumConcurrentTasks`, by which Spark itself
    refuses barrier stages that are too wide. Raises `Py4JError`, `AttributeError` or `OSError` if Java is gone.
    """
    context: Any = cast(Any, session.sparkContext)._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def temporary_folder(session: SparkSession) -> Path:
    """The temporary folder of the session's Java process, which deletes the folder when it ends.

    Relies on `SparkContext._temp_dir`.
    """
    return Path(session.sparkContext._temp_dir)


def set_worker_python(session: SparkSession, executable: str) -> None:
    """Let worker processes that start from now on run under this interpreter. Relies on `SparkContext.pythonExec`."""
    session.sparkContext.pythonExec = executable


def worker_python(session: SparkSession) -> str:
    """The interpreter of worker processes, as a path or a name. Relies on `SparkContext.pythonExec`."""
    return session.sparkContext.pythonExec


def worker_environment(session: SparkSession) -> dict[str, str]:
    """Return the environment variables of worker processes that start from now on; the caller may change the dict.

    Relies on `SparkContext.environment`.
    """
    return session.sparkContext.environment


# --- Arrow ------------------------------------------------------------------------------------------------------------


def collect_as_arrow(plan: DataFrame) -> list[pa.RecordBatch]:
    """Run a plan and return its rows, in the order of the partitions, before Spark 4.0.

    Relies on `DataFrame._collect_as_arrow`.
    """
    batches: list[pa.RecordBatch] = cast(Any, plan)._collect_as_arrow()
    return batches


def frame_of_arrow(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame of the rows of a table; each chunk becomes a partition, if none may be a local relation.

    Relies on what `createDataFrame` does with a table in Spark 4.0, and with one that it makes of pandas in Spark 3.5:
    `SparkContext._serialize_to_jvm`, Java's `PythonSQLUtils`, and the attributes `_jvm` and `_jsparkSession`.
    """
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    jvm: Any = session._jvm
    rows = cast(Any, session.sparkContext)._serialize_to_jvm(
        *(table.cast(arrow_schema(schema)).to_batches(), ArrowStreamSerializer()),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(rows, schema.json(), session._jsparkSession), session)
