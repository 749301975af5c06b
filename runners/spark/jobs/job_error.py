"""Why Spark gave a job up, in one sentence: the cause, step and host, and the remedy.

The text of Spark's error has the cause somewhere after `Exception thrown in awaitResult`, between stacks of threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.spark.errors import bridge_errors
from headrace.runners.spark.pyspark_private import java_exception, message_text
from headrace.runners.spark.worker.last_step import MARK

_TRACEBACK_LINES = 40
_OTHER_LINES = 5
_MEMORY = "most likely by the system as memory ran out"
_PLACE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\)")
_TIMES = re.compile(r"failed (\d+) times")
_STEP = re.compile(rf"{MARK}(.+?)\s*$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)', re.MULTILINE)
_NOT_USERS = re.compile(r"/site-packages/|/lib/python3|pyspark\.zip/|(^|/)headrace/(sdk|lowlevel|runners)/|^<")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*.*", re.MULTILINE)
_FOLDERS = "Spark's local directories"
_FULL = r"No space left on device|Disk quota exceeded"


class SparkJobError(HeadraceError, RuntimeError):
    """Spark could not run a job, even after it had tried tasks again. Nothing of the epoch is committed."""


class _Reason(NamedTuple):
    """The words for one kind of failure."""

    cause: str
    remedy: str
    traceback: str = ""


def job_error(error: Exception, description: str, folders: str = "") -> SparkJobError:
    """The error to raise for an error that ended a Spark job.

    `description` names the job; `folders` are Spark's local directories, empty if they are not known.
    """
    reason = _java_is_gone() if _is_cut_off(error) else _reason(message_text(error))
    cause = reason.cause.replace(_FOLDERS, f"{_FOLDERS} ({folders})" if folders else _FOLDERS)
    message = f"Spark could not run {description}: {cause}; {reason.remedy}"
    outcome = "nothing of it is committed, and the same program goes on from there when it is started again"
    return SparkJobError(f"{message}; {outcome}{reason.traceback and chr(10) + reason.traceback}")


def _is_cut_off(error: Exception) -> bool:
    return isinstance(error, (*bridge_errors(), ConnectionError)) and java_exception(error) is None


def _java_is_gone() -> _Reason:
    return _Reason(
        "Spark's Java process has ended or does not answer",
        f"if nobody stopped it, it was killed, {_MEMORY}: a smaller spark.driver.memory leaves more to other processes",
    )


def _reason(text: str) -> _Reason:
    for pattern, describe in _KINDS:
        if (match := re.search(pattern, text, re.IGNORECASE | re.MULTILINE)) is not None:
            return describe(match, text)
    return _other(text)


def _where(text: str) -> str:
    """Step, host and number of attempts, as far as Spark's error names them."""
    step, lost_task, times = _STEP.search(text), _PLACE.search(text), _TIMES.search(text)
    location = f" in step {step[1]!r}" if step else ""
    if lost_task is not None and lost_task[2] != "driver":
        location += f" on host {lost_task[1]} (executor {lost_task[2]})"
    return location + (f" at each of {times[1]} attempts" if times and times[1] != "1" else "")


def _crashed(match: re.Match[str], text: str) -> _Reason:
    frames = ((file, line, name) for file, line, name in _FRAME.findall(text) if not _NOT_USERS.search(file))
    where = next((f", at {file}, line {line}, in {name}" for file, line, name in frames), "")
    return _Reason(
        f"a Python worker process crashed{_where(text)}{where} ({match[1].strip()})",
        "most likely by a defect of a compiled package that this code calls, so try another version of that package",
    )


def _died(match: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Python worker process ended without an error message{_where(text)}: it was killed, {_MEMORY}, or user code "
        "ended it, as os._exit does",
        "if memory ran out, let an epoch read less (--max_records_per_epoch=…), run fewer tasks at once, or take a "
        "machine with more memory",
    )


def _full(match: re.Match[str], text: str) -> _Reason:
    line = next(line for line in text.splitlines() if re.search(_FULL, line, re.IGNORECASE))
    paths = re.findall(r"(?<![\w.])/[^\s:()'\"]+", line)
    full_folder = paths[-1] if paths else _FOLDERS
    remedy = (
        "free some space there, or name another folder on each host (spark.local.dir or SPARK_LOCAL_DIRS; "
        "HEADRACE_STATE_STORES for state stores)"
    )
    if (host := _PLACE.search(text)) is not None and host[2] != "driver":
        remedy += "; with spark.excludeOnFailure.enabled=true Spark tries other executors"
    return _Reason(f"no space left on device for {full_folder}{_where(text)}", remedy)


def _lost(match: re.Match[str], text: str) -> _Reason:
    cause = match[2].strip().rstrip(".")
    if re.search(r"code 137|signal 9|SIGKILL", cause):
        cause += f", so it was killed, {_MEMORY}"
    times = _TIMES.search(text)
    return _Reason(
        f"executor {match[1]} was lost{f' at the last of {times[1]} attempts' if times else ''} ({cause})",
        "its own log says more; spark.executor.memory and spark.executor.memoryOverhead give executors more memory",
    )


def _not_importable(match: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Python worker process cannot import what it needs{_where(text)} ({match[0].strip()})",
        "install it in the executors' Python (spark.pyspark.python, PYSPARK_PYTHON): installed packages are not sent",
        _traceback(text),
    )


def _raised(match: re.Match[str], text: str) -> _Reason:
    traceback = _traceback(text)
    return _Reason(
        f"a Python worker process failed{_where(text)} ({traceback.splitlines()[-1].strip()})",
        "the traceback below says where",
        traceback,
    )


def _traceback(text: str) -> str:
    match = _TRACEBACK.search(text)
    return "\n".join((match[0] if match else text).strip().splitlines()[-_TRACEBACK_LINES:])


def _no_heap(match: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Java process ran out of memory{_where(text)} ({match[0]})",
        "give it more with spark.driver.memory or spark.executor.memory",
    )


def _results_too_large(match: re.Match[str], text: str) -> _Reason:
    return _Reason(match[0].strip(), "raise spark.driver.maxResultSize, or let an epoch read less")


def _stopped(match: re.Match[str], text: str) -> _Reason:
    return _Reason(f"the job was stopped from outside ({match[0].strip()})", "start the program again")


def _other(text: str) -> _Reason:
    """The first lines of an error of no known kind."""
    lines = [line for line in text.splitlines() if line.strip() and "Exception thrown in awaitResult" not in line]
    return _Reason("\n".join(lines[:_OTHER_LINES]) or "Spark does not say why", "its logs may say more")


_KINDS: list[tuple[str, Callable[[re.Match[str], str], _Reason]]] = [
    (r"Fatal Python error: (.+)", _crashed),
    (_FULL, _full),
    (r"^(?:ModuleNotFoundError|ImportError): .+", _not_importable),
    (r"Traceback \(most recent call last\)", _raised),
    (r"Python worker exited unexpectedly", _died),
    (r"ExecutorLostFailure \(executor (\S+) [^)]*\)(?: Reason: (.*))?", _lost),
    (r"OutOfMemoryError: .+", _no_heap),
    (r"Total size of serialized results .* is bigger than .*", _results_too_large),
    (r".*(?:SparkContext was shut down|stopped SparkContext|Job \S+ cancelled|OPERATION_CANCELED).*", _stopped),
]
"""Pattern in the text -> words for the failure; the first match counts, so specific patterns come first."""
