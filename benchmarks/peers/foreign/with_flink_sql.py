"""Flink SQL through the Table API in Python; everything runs in the JVM.

Argument: "bounded" to keep state in memory, "streaming" for state in RocksDB and a checkpoint every second. Bounded, W1
runs in batch mode; that has no session windows, and W3's running total follows the order of time, so these two are
streams.
"""

from __future__ import annotations

import sys
import tempfile

import pyarrow as pa
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.peers.foreign.flink import (
    CHECKPOINTED,
    Results,
    configuration,
    create_events,
    prepare,
    seconds,
    start_cluster,
)
from benchmarks.peers.foreign.protocol import Job
from benchmarks.peers.foreign.serving import Run, serve

_TYPES = {
    "W1": {"key": "STRING", "start": "TIMESTAMP(3)", "sum": "BIGINT"},
    "W2": {"key": "STRING", "start": "TIMESTAMP(3)", "end": "TIMESTAMP(3)", "count": "BIGINT"},
    "W3": {"key": "STRING", "minute": "TIMESTAMP(3)", "total": "BIGINT"},
}
_QUERIES = {
    "W1": """
        SELECT word, window_start, SUM(number) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(happened), {window}))
        GROUP BY word, window_start, window_end""",
    "W2": """
        SELECT word, window_start, window_end, COUNT(*)
        FROM TABLE(SESSION(TABLE events PARTITION BY word, DESCRIPTOR(happened), {gap}))
        GROUP BY word, window_start, window_end""",
    "W3": """
        SELECT word, window_end, SUM(summed) OVER (PARTITION BY word ORDER BY closed) FROM (
            SELECT word, window_end, window_time AS closed, SUM(number) AS summed
            FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(happened), {window}))
            GROUP BY word, window_start, window_end, window_time)""",
}


class Sql:
    """The workloads on one cluster."""

    def __init__(self, streaming: bool) -> None:
        self._streaming = streaming
        self._cluster = start_cluster()

    def run(self, job: Job) -> pa.Table:
        with (
            tempfile.TemporaryDirectory(prefix="headrace-bench-") as checkpoints,
            Results(_TYPES[job.workload]) as results,
        ):
            tables = self._environment(job, checkpoints)
            create_events(tables, job)
            results.create(tables)
            query = _QUERIES[job.workload].format(window=seconds(job.window), gap=seconds(job.gap))
            tables.execute_sql(f"INSERT INTO results {query}").wait()
            return results.read()

    def _environment(self, job: Job, checkpoints: str) -> TableEnvironment:
        settings = dict(self._cluster)
        if self._streaming:
            settings |= {**CHECKPOINTED, "execution.checkpointing.dir": f"file://{checkpoints}"}
        environment = EnvironmentSettings.new_instance().with_configuration(configuration(settings))
        batch = job.workload == "W1" and not self._streaming
        tables = TableEnvironment.create(
            (environment.in_batch_mode() if batch else environment.in_streaming_mode()).build()
        )
        tables.get_config().set_local_timezone("UTC")
        return tables


def _runs(sql: Sql) -> dict[str, Run]:
    return dict.fromkeys(_QUERIES, sql.run)


if __name__ == "__main__":
    serve(lambda: _runs(Sql(streaming=sys.argv[1] == "streaming")), prepare)
