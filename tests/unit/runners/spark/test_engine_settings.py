"""Settings that a session refuses cost a warning that names them, and nothing else."""

from __future__ import annotations

import logging
from typing import cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.runners.spark.engine_settings import BYTES_SETTING, RECORDS_SETTING, ask_for_settings, put_back

GONE = AnalysisException("[RETRIES_EXCEEDED] The maximum number of retries has been exceeded.")
ADAPTIVE = "spark.sql.adaptive.enabled"


class Conf:
    """The settings of a session that has some from the beginning, and refuses to change some."""

    def __init__(self, values: dict[str, str], locked: set[str], hidden: bool = False, gone: str = "") -> None:
        self.values, self._locked, self._hidden, self._gone = values, locked, hidden, gone

    def get(self, name: str, default: str | None) -> str | None:
        if self._gone == "get":
            raise GONE
        if self._hidden:
            raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.")
        return self.values.get(name, default)

    def isModifiable(self, name: str) -> bool:  # as Spark has it
        if self._gone == "isModifiable":
            raise GONE
        return name not in self._locked

    def set(self, name: str, value: str) -> None:
        if self._gone == "set":
            raise GONE
        if name in self._locked or "*" in self._locked:
            raise AnalysisException(f"[CANNOT_MODIFY_CONFIG] Cannot modify the value of {name}.\nMore of it.")
        self.values[name] = value

    def unset(self, name: str) -> None:
        del self.values[name]


class Session:
    def __init__(self, conf: Conf) -> None:
        self.conf = conf


def ask(conf: Conf) -> dict[str, str | None]:
    return ask_for_settings(cast(SparkSession, Session(conf)))


def test_one_warning_names_the_settings_and_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    conf = Conf({}, {ADAPTIVE, BYTES_SETTING})
    before = ask(conf)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    said = record.getMessage()
    assert f"{ADAPTIVE}=false ([CANNOT_MODIFY_CONFIG] Cannot modify the value of {ADAPTIVE}.): an epoch" in said
    assert "More of it" not in said and "refuses a setting" in said
    assert ADAPTIVE not in before and "spark.sql.codegen.wholeStage" in before
    assert int(conf.values[RECORDS_SETTING]) < 100, "without a bound on bytes, a batch has few rows"


def test_nothing_is_asked_for_that_is_there(caplog: pytest.LogCaptureFixture) -> None:
    wanted = Conf({}, set())
    ask(wanted)
    assert ask(Conf(dict(wanted.values), {"*"})) == {}
    assert not caplog.records


@pytest.mark.parametrize("hidden", [False, True])
def test_everything_may_be_refused(caplog: pytest.LogCaptureFixture, hidden: bool) -> None:
    assert ask(Conf({}, {"*"}, hidden)) == {}
    (record,) = caplog.records
    assert "refuses 10 settings" in record.getMessage()


@pytest.mark.parametrize("call", ["get", "set", "isModifiable"])
def test_a_server_that_is_gone_is_no_refusal(caplog: pytest.LogCaptureFixture, call: str) -> None:
    with pytest.raises(AnalysisException, match="RETRIES_EXCEEDED"):
        ask(Conf({}, set(), gone=call))
    assert not caplog.records


def test_settings_are_put_back(caplog: pytest.LogCaptureFixture) -> None:
    conf = Conf({ADAPTIVE: "true", "spark.sql.ansi.enabled": "true"}, set())
    before = ask(conf)
    assert conf.values[ADAPTIVE] == "false"
    put_back(cast(SparkSession, Session(conf)), before)
    assert conf.values == {ADAPTIVE: "true", "spark.sql.ansi.enabled": "true"}
    put_back(cast(SparkSession, Session(Conf({}, {"*"}))), {ADAPTIVE: "true"})
    assert "spark.sql.adaptive.enabled is not what it was" in caplog.text
