"""Errors of a session that cannot be used, and those of Spark's bridge to Java, which not every pyspark has.

A session of Spark Connect needs no Py4J, and `pyspark-client` comes without it. So its errors are looked up where they
are caught: if nothing has imported Py4J, nothing can have raised one of them.
"""

from __future__ import annotations

import re
import sys

from pyspark.errors import PySparkException

from headrace.lowlevel.errors import HeadraceError

_DETAILS = re.compile(r'RpcError of RPC.*?\bdetails = "(.+?)"$', re.DOTALL | re.MULTILINE)
_MOST_REASON = 200
"""Characters of Spark's words in a message."""
Errors = tuple[type[Exception], ...]


class SparkSetupError(HeadraceError, RuntimeError):
    """Spark cannot run with the installed Java, the installed Spark or the given session. Nothing has run."""


def bridge_errors() -> Errors:
    """Errors of calls to Java over the bridge of a session with a master; none if Py4J is not in use.

    >>> issubclass(ValueError, bridge_errors())
    False
    """
    protocol = sys.modules.get("py4j.protocol")
    return () if protocol is None else (protocol.Py4JError,)


def spark_errors(*others: type[Exception]) -> Errors:
    """Errors of Spark's own and of the way to it, and other ones."""
    return (*others, PySparkException, ConnectionError, *bridge_errors())


def is_unanswered(error: Exception) -> bool:
    """Whether an error says that no server answers; a client of Spark Connect has tried for minutes then."""
    return "RETRIES_EXCEEDED" in str(error) or isinstance(error, ConnectionError)


def require_answer(error: Exception) -> None:
    """Raise the error if it says that no server answers, which is no refusal."""
    if is_unanswered(error):
        raise error


def reason(error: Exception) -> str:
    r"""The first line of an error, or what an error of gRPC says, as far as a message has room for it.

    >>> reason(ValueError("<_InactiveRpcError of RPC that terminated with:\n\tdetails = \"files are forbidden\"\n"))
    'files are forbidden'
    """
    details = _DETAILS.search(str(error))
    lines = (details[1] if details else str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_MOST_REASON]


def java_gone() -> Errors:
    """Errors of calls to Java if the session was stopped meanwhile, or the Java process has ended."""
    return (AttributeError, OSError, *bridge_errors())
