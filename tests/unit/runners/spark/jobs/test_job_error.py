"""Of what Spark says when it gives a job up, one sentence is told: what happened, where, and what helps."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headrace.runners.spark.jobs.job_error import job_error
from headrace.runners.spark.worker.last_step import MARK

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 2): "
)
STACK = "\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\t... 24 more\n\nDriver stacktrace:"


@dataclass
class Java:
    """A Java exception, as py4j shows it."""

    message: str | None
    cause: Java | None = None
    suppressed: tuple[Java, ...] = ()
    name: str = "org.apache.spark.SparkException"

    def getClass(self) -> Java:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> Java | None:
        return self.cause

    def getSuppressed(self) -> tuple[Java, ...]:
        return self.suppressed


class FromJava(Exception):
    """One of pyspark's exceptions."""

    def __init__(self, *messages: str) -> None:
        self._origin: Java | None = None
        for message in reversed(messages):
            self._origin = Java(message, self._origin)


def said(*messages: str) -> str:
    return str(job_error(FromJava("Exception thrown in awaitResult: ", *messages), "epoch 38"))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            f"Python worker exited unexpectedly (crashed): {MARK}Count words   \n",
            "a Python worker process ended without an error message in step 'Count words' on host 10.0.0.7 (executor "
            "2) at each of 4 attempts: it was killed, most likely by the system as memory ran out, or user code ended "
            "it, as os._exit does; if memory ran out, let an epoch read less",
        ),
        (
            f"Python worker exited unexpectedly (crashed): {MARK}Parse   \nFatal Python error: Segmentation fault\n\n"
            'Current thread 0x01 (most recent call first):\n  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 '
            'in string_at\n  File "/home/me/mine.py", line 7 in parse\n  File "/x/headrace/sdk/at.py", line 1 in f\n',
            "a Python worker process crashed in step 'Parse' on host 10.0.0.7 (executor 2) at each of 4 attempts, at "
            "/home/me/mine.py, line 7, in parse (Segmentation fault); most likely by a defect of a compiled package",
        ),
        (
            "java.io.IOException: No space left on device",
            "no space left on device for Spark's local directories on host 10.0.0.7 (executor 2) at each of 4 "
            "attempts; free some space there, or name another folder on each host (spark.local.dir or "
            "SPARK_LOCAL_DIRS; HEADRACE_STATE_STORES for state stores); with spark.excludeOnFailure.enabled=true Spark "
            "tries other executors; nothing",
        ),
        (
            "java.io.FileNotFoundException: /data/spark/blockmgr-1/0c/temp_shuffle_2 (No space left on device)",
            "no space left on device for /data/spark/blockmgr-1/0c/temp_shuffle_2 on host 10.0.0.7",
        ),
        (
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Command exited with "
            "code 137",
            "executor 2 was lost at the last of 4 attempts (Command exited with code 137, so it was killed, most "
            "likely by the system as memory ran out); its own log says more",
        ),
        (
            "ExecutorLostFailure (executor 2 exited unrelated to the running tasks) Reason: Executor heartbeat timed "
            "out after 140001 ms",
            "executor 2 was lost at the last of 4 attempts (Executor heartbeat timed out after 140001 ms);",
        ),
        (
            "An exception was thrown from the Python worker: Traceback (most recent call last):\n"
            "  File \"<frozen importlib>\", line 1\nModuleNotFoundError: No module named 'pyarrow.lib'\n",
            "a Python worker process cannot import what it needs on host 10.0.0.7 (executor 2) at each of 4 attempts "
            "(ModuleNotFoundError: No module named 'pyarrow.lib'); install it in the executors' Python",
        ),
        (
            'An exception was thrown from the Python worker: Traceback (most recent call last):\n  File "mine.py", '
            "line 3, in key\n    return value[3]\n           ~~~~~^^^\nSystemExit: 4\n\n",
            "a Python worker process failed on host 10.0.0.7 (executor 2) at each of 4 attempts (SystemExit: 4);",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "a Java process ran out of memory on host 10.0.0.7"),
        ("java.lang.IllegalStateException: something new", "something new; its logs may say more"),
    ],
)
def test_what_happened_to_a_task(message: str, told: str) -> None:
    text = said(f"{LOST}{message}\n{STACK}")
    assert text.startswith("Spark could not run epoch 38: ")
    assert told in text
    assert "nothing of it is committed, and the same program goes on from there" in text
    assert "awaitResult" not in text and "Task.scala" not in text and "stacktrace" not in text


def test_the_cause_may_be_suppressed_or_deep() -> None:
    error = FromJava("Exception thrown in awaitResult: ")
    assert error._origin is not None
    disk = Java("No space left on device: /data", name="java.io.IOException")
    error._origin.cause = Java("Task failed while writing rows", suppressed=(Java("closing failed", disk),))
    assert "no space left on device for /data;" in str(job_error(error, "epoch 1"))


def test_where_sparks_own_folders_are_is_said_if_it_is_known() -> None:
    error = FromJava("Lost task 0.0 in stage 0.0 (TID 0) (localhost executor driver): No space left on device")
    told = str(job_error(error, "epoch 1", "/data/spark"))
    assert "no space left on device for Spark's local directories (/data/spark); free some space" in told
    assert "excludeOnFailure" not in told


def test_only_the_users_part_of_a_traceback_is_kept() -> None:
    text = said(f'{LOST}Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nKeyError: 1\n{STACK}')
    assert text.splitlines()[1:] == [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    f()",
        "KeyError: 1",
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "Total size of serialized results of 3 tasks (1025.0 MiB) is bigger than spark.driver.maxResultSize",
            "raise spark.driver.maxResultSize, or let an epoch read less",
        ),
        ("Job 7 cancelled because SparkContext was shut down", "the job was stopped from outside"),
    ],
)
def test_what_happened_to_a_job(message: str, told: str) -> None:
    assert told in said(f"Job aborted due to stage failure: {message}\n{STACK}")


def test_a_job_that_was_interrupted_over_spark_connect() -> None:
    text = "(org.apache.spark.SparkSQLException) [OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008"
    told = str(job_error(Exception(f"{text}\nJVM stacktrace:\norg.apache.spark.SparkSQLException"), "epoch 38"))
    assert told.startswith(
        f"Spark could not run epoch 38: the job was stopped from outside ({text}); start the program"
    )
