"""What an error of a job says about Spark's local directories."""

from __future__ import annotations

import sys
import tempfile
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.runners.spark.jobs import epoch_job
from headrace.runners.spark.jobs.job_error import SparkJobError

FULL = "java.io.IOException: No space left on device"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Java's folder is the user's own")
def test_a_full_tmp_is_named_though_python_has_gone_to_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's `gettempdir` tries folders until one can be written to; Java does not."""
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    cluster = SimpleNamespace(is_local=lambda: True, setting=lambda name: None)
    monkeypatch.setattr(epoch_job, "cluster_of", lambda session: cluster)
    with (
        pytest.raises(SparkJobError, match=r"no space left on device for Spark's local directories \(/tmp\)"),
        epoch_job._told(cast(SparkSession, object()), "epoch 1"),
    ):
        raise PySparkException(FULL)
