"""Sessions that refuse what a platform may forbid: settings, files for executors.

The client's own calls raise what a server would answer, so that chosen settings can be refused, and with any release.
`tests/spark/client/test_refusing_server.py` has a server that refuses them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

REFUSAL = "[CANNOT_MODIFY_CONFIG] Cannot modify the value of the Spark config: {name}. SQLSTATE: 46110"


@contextmanager
def refusing(session: SparkSession, settings: Callable[[str], bool], artifacts: bool = False) -> Iterator[list[str]]:
    """Inside, sessions of that kind refuse to set what `settings` names, and files; yields what was refused."""
    refused: list[str] = []
    set_one = type(session.conf).set

    def setting(self: object, name: str, value: object) -> None:
        if settings(name):
            refused.append(name)
            raise AnalysisException(REFUSAL.format(name=name))
        set_one(self, name, value)  # type: ignore[arg-type]  # the method of a class

    def adding(self: object, *paths: str, **kind: object) -> None:
        refused.append("artifacts")
        raise AnalysisException("[ARTIFACTS_DISABLED] Files cannot be added in this session.")

    with patch.object(type(session.conf), "set", setting):
        if not artifacts:
            yield refused
            return
        with patch.object(type(session), "addArtifacts", adding):
            yield refused
