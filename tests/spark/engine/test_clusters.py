"""What the engine asks of a cluster has one answer, over the JVM bridge and with what Spark Connect has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.lowlevel import BoundedInjector, Computation, Context, Record, Topology
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.runners.spark.cluster.classic import Classic
from headrace.runners.spark.cluster.cluster import Cluster
from headrace.runners.spark.cluster.connect import Connect
from headrace.runners.spark.engine_settings import CHUNKS_SETTING, ask_for_settings
from headrace.runners.spark.jobs import epoch_job
from headrace.runners.spark.session import driver_address, engine_sibling
from tests.spark import lives
from tests.spark.connectserver import needs_connect
from tests.spark.faults.test_driver_killed import written
from tests.spark.refusing import refusing

pytestmark = pytest.mark.spark

KINDS = pytest.mark.parametrize("kind", [Classic, pytest.param(Connect, marks=needs_connect)])
"""A session with a master has all that Connect is asked for."""


@KINDS
@pytest.mark.parametrize("sizes", [[1], [3, 1, 2], [1] * 9, [2_000, 1]])
def test_each_chunk_is_a_partition_in_order(spark: SparkSession, kind: type[Cluster], sizes: list[int]) -> None:
    chunks = [pa.RecordBatch.from_pydict({"n": range(size), "blob": [b"x" * 10] * size}) for size in sizes]
    frame = kind(engine_sibling(spark)).partitioned(pa.Table.from_batches(chunks))  # type: ignore[call-arg]  # both are made of a session
    assert frame.columns == ["n", "blob"]
    rows = frame.select("n", F.spark_partition_id().alias("at")).collect()
    assert [(row["at"], row["n"]) for row in rows] == [(at, n) for at, size in enumerate(sizes) for n in range(size)]


def test_a_session_that_divides_tables_by_its_own_rule(spark: SparkSession) -> None:
    """One that refuses the setting of the engine, which all tables of less than 48 MB are below."""
    session = spark.newSession()
    with refusing(session, lambda name: name == CHUNKS_SETTING) as refused:
        ask_for_settings(session)
    assert refused == [CHUNKS_SETTING]
    chunks = [pa.RecordBatch.from_pydict({"n": range(size)}) for size in (3, 1, 2)]
    frame = Classic(session).partitioned(pa.Table.from_batches(chunks))
    rows = frame.select("n", F.spark_partition_id().alias("at")).collect()
    assert [(row["at"], row["n"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]


def test_a_session_that_lets_no_setting_be_changed(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Spark adapts the plans then, and divides tables by its own rule; results are those of a run in memory."""
    out, expected = tmp_path / "out", tmp_path / "expected"
    out.mkdir()
    expected.mkdir()
    monkeypatch.setattr(epoch_job, "_SMALL", 0)
    session = spark.newSession()
    for name in ("spark.sql.adaptive.enabled", "spark.sql.execution.arrow.useLargeVarTypes"):
        session.conf.set(name, "true")
    options = RunOptions(str(tmp_path / "place"), one_task_epochs=False, max_records_per_epoch=16)
    with refusing(session, lambda name: True) as refused:
        SparkRunner(session, intervals=2).run_topology(lives.topology(out), options)
    assert len(refused) >= 8 and caplog.text.count("refuses") == 1
    LocalRunner(intervals=2, parallelism=2).run_topology(lives.topology(expected), RunOptions(max_records_per_epoch=16))
    assert written(out) == written(expected)


@KINDS
def test_how_many_tasks_run_at_once(spark: SparkSession, kind: type[Cluster]) -> None:
    cluster = kind(engine_sibling(spark))  # type: ignore[call-arg]  # both are made of a session
    assert cluster.parallelism() == cluster.slots() == 2
    assert cluster.application() == spark.sparkContext.applicationId
    assert cluster.setting("spark.app.name") == "headrace" and cluster.setting("spark.no.such.thing") is None


def remote(server: str, **settings: str) -> SparkSession:
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    session = type("SparkSession", (SimpleNamespace,), {"__module__": "pyspark.sql.connect.session"})
    return cast(SparkSession, session(client=SimpleNamespace(host=server), conf=conf))


@pytest.mark.parametrize(
    ("server", "driver", "here"),
    [("localhost", "localhost", True), ("localhost", "192.0.2.1", False), ("192.0.2.1", "localhost", False)],
)
def test_executors_reach_this_program_only_beside_the_server(server: str, driver: str, here: bool) -> None:
    address = driver_address(remote(server, spark_driver_host=driver))
    assert (address is not None) == here
    assert not here or address == (driver, driver)


def test_encrypted_connections_stay_so_over_connect() -> None:
    assert driver_address(remote("localhost", spark_driver_host="localhost", spark_ssl_enabled="true")) is None


class Nothing(Computation):
    def process_record(self, record: Record, context: Context) -> None: ...


def test_a_run_leaves_the_properties_of_jobs_as_they_were(spark: SparkSession) -> None:
    """Also those that the program has not set."""
    context, names = spark.sparkContext, ("spark.job.description", "spark.scheduler.pool", "mine")
    before = [context.getLocalProperty(name) for name in names]
    topology = Topology()
    topology.injector("in", BoundedInjector([(1, 1)]))
    topology.computation("lonely", Nothing(), {"in": lambda value: value}, [])
    try:
        for values in ([None, None, None], ["monthly report", "slow", "x"]):
            for name, value in zip(names, values, strict=True):
                context.setLocalProperty(name, cast(str, value))
            SparkRunner(spark).run_topology(topology, RunOptions(task_idle_seconds=0))
            assert [context.getLocalProperty(name) for name in names] == values
            with Classic(spark).described("a"), Classic(spark).job_property("mine", "y"):
                assert [context.getLocalProperty(name) for name in names] == ["a", values[1], "y"]
            assert [context.getLocalProperty(name) for name in names] == values
    finally:
        for name, value in zip(names, before, strict=True):
            context.setLocalProperty(name, cast(str, value))
