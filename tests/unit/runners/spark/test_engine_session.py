"""Sessions of Spark Connect before 4.1: the engine uses the program's own, and leaves it as it was."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import cast

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.runners.spark import session as sessions
from headrace.runners.spark.session import checked, engine_session, engine_sibling

ADAPTIVE = "spark.sql.adaptive.enabled"


class Conf:
    """Settings of a session."""

    def __init__(self) -> None:
        self.values = {ADAPTIVE: "true"}

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def isModifiable(self, name: str) -> bool:  # as Spark has it
        return True

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


class Remote:
    """A session that knows neither `newSession` nor `cloneSession`; it is known by where its class is."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self) -> None:
        self.conf, self.client = Conf(), SimpleNamespace(host="host")

    @property
    def version(self) -> str:
        return "4.0.1"

    @property
    def newSession(self) -> object:  # as Spark has it
        raise NotImplementedError("newSession() is not implemented.")


def test_settings_last_as_long_as_the_last_of_two_runs() -> None:
    session = cast(SparkSession, Remote())
    values = cast(Conf, session.conf).values
    assert engine_sibling(session) is None
    with engine_session(session) as first:
        assert first is session and values[ADAPTIVE] == "false"
        with engine_session(session) as second:
            assert second is session
        assert values[ADAPTIVE] == "false", "a run still goes on"
    assert values == {ADAPTIVE: "true"}


def test_settings_are_put_back_after_an_error() -> None:
    session = cast(SparkSession, Remote())
    with pytest.raises(ZeroDivisionError), engine_session(session):
        raise ZeroDivisionError
    assert cast(Conf, session.conf).values == {ADAPTIVE: "true"}


def test_nothing_is_put_back_at_a_server_that_is_gone() -> None:
    """Each call would be repeated for ten minutes."""
    session = cast(SparkSession, Remote())
    with pytest.raises(AnalysisException), engine_session(session):
        raise AnalysisException("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded.")
    assert cast(Conf, session.conf).values[ADAPTIVE] == "false"


def test_a_server_that_does_not_know_clones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of 4.1 at a server of 4.0: gRPC's own error is none of pyspark's."""

    class RpcError(Exception):
        pass

    def clone(self: object) -> None:
        raise RpcError("UNIMPLEMENTED: Method not found: spark.connect.SparkConnectService/CloneSession")

    monkeypatch.setattr(Remote, "cloneSession", clone, raising=False)
    assert engine_sibling(cast(SparkSession, Remote())) is None


class Slow(Remote):
    """A session whose server takes its time."""

    __module__ = "pyspark.sql.connect.session"

    def __init__(self, seconds: float) -> None:
        self.conf, self.client, self._seconds = Conf(), SimpleNamespace(host="host"), seconds

    @property
    def version(self) -> str:
        time.sleep(self._seconds)
        return pyspark.__version__


@pytest.mark.parametrize("seconds", [0, 0.4])
def test_a_server_that_does_not_answer_is_told(
    seconds: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(sessions, "_PATIENCE", 0.1)
    with caplog.at_level(logging.WARNING):
        checked(cast(SparkSession, Slow(seconds)))
    assert ("Spark Connect at host does not answer yet" in caplog.text) == (seconds > 0)
