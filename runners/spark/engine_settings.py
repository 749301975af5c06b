"""Spark's settings for the engine's jobs, and how a session is asked for them: each may be refused.

A platform may forbid to change some of Spark's settings, or all of them. Results never depend on a setting: a refused
one costs time or memory, or words in an error. One warning says which are refused, and what each refusal costs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import SparkSession

from headrace.lowlevel.records.block import PIECE
from headrace.runners.spark.errors import reason, require_answer

_log = logging.getLogger(__name__)
BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
RECORDS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
CHUNKS_SETTING = "spark.sql.execution.arrow.localRelationThreshold"
_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"
_TWICE = "if Spark repeats part of an epoch whose shuffle files are lost, it may fail the epoch, which runs again"


class EngineSetting(NamedTuple):
    """A setting that the engine's jobs are better off with."""

    name: str
    value: str
    lost: str
    """What a session without it costs, for the warning."""


_SETTINGS = [
    # The plans only pass blobs on: to adapt or compile them takes longer than to run them.
    EngineSetting("spark.sql.adaptive.enabled", "false", "an epoch that is a job takes longer"),
    EngineSetting("spark.sql.codegen.wholeStage", "false", "an epoch that is a job takes longer"),
    # Each batch of a table that the driver sends becomes a partition.
    EngineSetting(CHUNKS_SETTING, "0", "input of large epochs is shuffled once more"),
    EngineSetting(
        "spark.sql.execution.arrow.useLargeVarTypes", "false", "rows between tasks take somewhat more memory"
    ),
    # Attempts at a task always have different output, because of their tokens. The driver does not mix attempts: it
    # runs the epoch again. If Spark compared the output of attempts, it would fail the job instead.
    EngineSetting(f"{_CHECKSUM}.enabled", "false", _TWICE),
    EngineSetting(f"{_CHECKSUM}.enableFullRetryOnMismatch", "false", _TWICE),
    EngineSetting(f"{_CHECKSUM}.enableQueryLevelRollbackOnMismatch", "false", _TWICE),
    # The fault handler says what a crashed worker process was doing, see `runners.spark.worker.last_step`.
    EngineSetting(
        "spark.sql.execution.pyspark.udf.faulthandler.enabled",
        "true",
        "if a worker process dies, the error does not name the step",
    ),
]
_LARGE = "large epochs need more memory, or fail if a batch passes 2 GiB (then let --max_records_per_epoch be smaller)"


def ask_for_settings(session: SparkSession) -> dict[str, str | None]:
    """Set what the engine's jobs need; returns the settings that were changed, with their values before."""
    return ask_for(session, [*_SETTINGS, *_batch_settings(session)])


def ask_for(session: SparkSession, settings: Iterable[EngineSetting]) -> dict[str, str | None]:
    """Set what a session lets be set; returns the settings that were changed, with their values before.

    A refusal is no error: one warning names all settings that were refused, and what is lost.
    """
    before: dict[str, str | None] = {}
    refused = []
    for setting in settings:
        value = _value(session, setting.name)
        if value == setting.value:
            continue
        try:
            session.conf.set(setting.name, setting.value)
        except Exception as error:
            require_answer(error)
            refused.append(f"{setting.name}={setting.value} ({reason(error)}): {setting.lost}")
        else:
            before[setting.name] = value
    if refused:
        _log.warning(
            "the Spark session refuses %s; the run goes on without, with the same results:\n  %s",
            *("a setting" if len(refused) == 1 else f"{len(refused)} settings", "\n  ".join(refused)),
        )
    return before


def put_back(session: SparkSession, before: dict[str, str | None]) -> None:
    """Give settings the values that they had before; one that cannot be put back is named in a warning."""
    for name, value in before.items():
        try:
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
        except Exception as error:
            _log.warning("the session's setting %s is not what it was before the run (%s)", name, reason(error))
            return


def _batch_settings(session: SparkSession) -> Iterable[EngineSetting]:
    """Settings that bound the Arrow batches of messages, whose blobs may be large.

    A batch ends before Arrow's 2 GiB do, and a task need not hold many of them twice.
    """
    if _is_modifiable(session, BYTES_SETTING):
        return [
            EngineSetting(BYTES_SETTING, str(8 << 20), _LARGE),
            EngineSetting(RECORDS_SETTING, "10000", "batches of rows between Java and Python have another size"),
        ]
    return [EngineSetting(RECORDS_SETTING, str(((2 << 30) - 1) // PIECE), _LARGE)]


def _is_modifiable(session: SparkSession, name: str) -> bool:
    try:
        return session.conf.isModifiable(name)
    except Exception as error:
        require_answer(error)
        return False


def _value(session: SparkSession, name: str) -> str | None:
    """The value of a setting; None if it is not set, or if the session keeps it to itself."""
    try:
        return session.conf.get(name, None)
    except Exception as error:
        require_answer(error)
        return None
