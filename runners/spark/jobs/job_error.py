"""Why Spark gave a job up, in one sentence: what happened, where, and what helps.

Spark's own text names the cause somewhere behind `Exception thrown in awaitResult`, between the stacks of its threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError

from headrace.lowlevel.errors import HeadraceError
from headrace.runners.spark.lastwords import MARK

_DEEPEST = 20
_TOLD_LINES = 40
_OTHER_LINES = 5
_MEMORY = "most likely by the system as memory ran out"
_STACK = re.compile(r"^\s*(at |\.\.\. |Driver stacktrace|Caused by: java\.io\.EOFException)")
_PLACE = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+)\)")
_TIMES = re.compile(r"failed (\d+) times")
_STEP = re.compile(rf"{MARK}(.+?)\s*$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)', re.MULTILINE)
_NOT_USERS = re.compile(r"/site-packages/|/lib/python3|pyspark\.zip/|(^|/)headrace/(sdk|lowlevel|runners)/|^<")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:(?:[ \t].*)?\n)*.*", re.MULTILINE)
_FOLDERS = "Spark's local directories"
_FULL = r"No space left on device|Disk quota exceeded"


class SparkJobError(HeadraceError, RuntimeError):
    """Spark could not run a job of ours, after it had tried its tasks again. Nothing of the epoch is committed."""


class _Reason(NamedTuple):
    """What is said of one kind of failure."""

    happened: str
    remedy: str
    traceback: str = ""


def job_error(error: Exception, what: str, folders: str = "") -> SparkJobError:
    """The error to raise for what a job of Spark's ended with.

    `what` names the job, `folders` Spark's local directories where they are known.
    """
    reason = _java_is_gone() if _is_cut_off(error) else _reason(_text(error))
    happened = reason.happened.replace(_FOLDERS, f"{_FOLDERS} ({folders})" if folders else _FOLDERS)
    said = f"Spark could not run {what}: {happened}; {reason.remedy}"
    kept = "nothing of it is committed, and the same program goes on from there when it is started again"
    return SparkJobError(f"{said}; {kept}{reason.traceback and chr(10) + reason.traceback}")


def java_text(error: Exception) -> str:
    """All that Spark says, with the stacks of its threads."""
    try:
        return str(error)
    except Py4JError as gone:
        return f"Java no longer answers: {gone}"


def _is_cut_off(error: Exception) -> bool:
    return isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError)


def _java_is_gone() -> _Reason:
    return _Reason(
        "Spark's Java process has ended or does not answer",
        f"if nobody stopped it, it was killed, {_MEMORY}: a smaller spark.driver.memory leaves more to other processes",
    )


def _text(error: Exception) -> str:
    """What the causes say, the outermost first, without the stacks of threads."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    said = list(_messages(java)) if java is not None else [java_text(error)]
    lines = [line for message in said for line in message.splitlines() if not _STACK.match(line)]
    return "\n".join(lines)


def _messages(java: object, depth: int = 0) -> Iterator[str]:
    """Of a Java exception, its causes, and what was suppressed on the way."""
    while java is not None and depth < _DEEPEST:
        yield f"{java.getClass().getName()}: {java.getMessage() or ''}"  # type: ignore[attr-defined]
        for suppressed in java.getSuppressed():  # type: ignore[attr-defined]
            yield from _messages(suppressed, depth + 1)
        java, depth = java.getCause(), depth + 1  # type: ignore[attr-defined]


def _reason(text: str) -> _Reason:
    for pattern, told in _KINDS:
        if (found := re.search(pattern, text, re.IGNORECASE | re.MULTILINE)) is not None:
            return told(found, text)
    return _other(text)


def _where(text: str) -> str:
    """In which step, on which host, and how often, as far as that is said."""
    step, place, times = _STEP.search(text), _PLACE.search(text), _TIMES.search(text)
    said = f" in step {step[1]!r}" if step else ""
    if place is not None and place[2] != "driver":
        said += f" on host {place[1]} (executor {place[2]})"
    return said + (f" at each of {times[1]} attempts" if times and times[1] != "1" else "")


def _crashed(found: re.Match[str], text: str) -> _Reason:
    frames = ((file, line, name) for file, line, name in _FRAME.findall(text) if not _NOT_USERS.search(file))
    where = next((f", at {file}, line {line}, in {name}" for file, line, name in frames), "")
    return _Reason(
        f"a Python worker process crashed{_where(text)}{where} ({found[1].strip()})",
        "most likely by a defect of a compiled package that this code calls, so try another version of that package",
    )


def _died(found: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Python worker process died without a word{_where(text)}: it was killed, {_MEMORY}, or user code ended it, "
        "as os._exit does",
        "if memory ran out, let an epoch bring less (-o max_records_per_epoch=…), run fewer tasks at once, or take a "
        "machine with more",
    )


def _full(found: re.Match[str], text: str) -> _Reason:
    line = next(line for line in text.splitlines() if re.search(_FULL, line, re.IGNORECASE))
    paths = re.findall(r"(?<![\w.])/[^\s:()'\"]+", line)
    place = paths[-1] if paths else _FOLDERS
    remedy = (
        "free some space there, or name another folder on each host (spark.local.dir or SPARK_LOCAL_DIRS; "
        "HEADRACE_COPIES for copies of state)"
    )
    if (host := _PLACE.search(text)) is not None and host[2] != "driver":
        remedy += "; with spark.excludeOnFailure.enabled=true Spark tries other executors"
    return _Reason(f"no space left on device for {place}{_where(text)}", remedy)


def _lost(found: re.Match[str], text: str) -> _Reason:
    cause = found[2].strip().rstrip(".")
    if re.search(r"code 137|signal 9|SIGKILL", cause):
        cause += f", so it was killed, {_MEMORY}"
    times = _TIMES.search(text)
    return _Reason(
        f"executor {found[1]} was lost{f' at the last of {times[1]} attempts' if times else ''} ({cause})",
        "its own log says more; spark.executor.memory and spark.executor.memoryOverhead give executors more memory",
    )


def _not_importable(found: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Python worker process cannot import what it needs{_where(text)} ({found[0].strip()})",
        "install it in the executors' Python (spark.pyspark.python, PYSPARK_PYTHON): installed packages are not sent",
        _traceback(text),
    )


def _raised(found: re.Match[str], text: str) -> _Reason:
    traceback = _traceback(text)
    return _Reason(
        f"a Python worker process failed{_where(text)} ({traceback.splitlines()[-1].strip()})",
        "the traceback below says where",
        traceback,
    )


def _traceback(text: str) -> str:
    found = _TRACEBACK.search(text)
    return "\n".join((found[0] if found else text).strip().splitlines()[-_TOLD_LINES:])


def _no_heap(found: re.Match[str], text: str) -> _Reason:
    return _Reason(
        f"a Java process ran out of memory{_where(text)} ({found[0]})",
        "give it more with spark.driver.memory or spark.executor.memory",
    )


def _results_too_large(found: re.Match[str], text: str) -> _Reason:
    return _Reason(found[0].strip(), "raise spark.driver.maxResultSize, or let an epoch bring less")


def _stopped(found: re.Match[str], text: str) -> _Reason:
    return _Reason(f"the job was stopped from outside ({found[0].strip()})", "start the program again")


def _other(text: str) -> _Reason:
    """What is said behind the last of the causes that say anything."""
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
    (r".*(?:SparkContext was shut down|stopped SparkContext|Job \S+ cancelled).*", _stopped),
]
"""How kinds of failure are known, the most telling first."""
