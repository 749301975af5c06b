"""A small Flink cluster that stays from job to job, tables over the events, and how results come out of it.

Flink's Python package reads no Parquet, so the events are CSV for it, made once for a dataset and not timed; one file,
since its source takes several in no order, which a watermark would not survive. Results go through Flink's own file
sink, as CSV too, which is quicker than to hand them over row by row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import TableEnvironment

from benchmarks.peers.foreign.protocol import Job

SLOTS = 2
CHECKPOINTED = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
}
"""With `execution.checkpointing.dir`: durable state."""
_ARROW = {"STRING": pa.string(), "BIGINT": pa.int64(), "TIMESTAMP(3)": pa.timestamp("us")}
_SECOND, _MILLISECOND = 1_000_000, 1_000


def start_cluster() -> dict[str, str]:
    """Start it; the settings by which a job goes to it."""
    java = get_gateway().jvm
    settings = java.org.apache.flink.configuration.Configuration()
    for name, value in {"rest.address": "localhost", "rest.bind-port": "0", "rest.port": "0"}.items():
        settings.setString(name, value)
    package = java.org.apache.flink.runtime.minicluster
    builder = getattr(package, "MiniClusterConfiguration$Builder")()
    builder = builder.setConfiguration(settings).setNumTaskManagers(1).setNumSlotsPerTaskManager(SLOTS)
    cluster = package.MiniCluster(builder.build())
    cluster.start()
    return {
        "execution.target": "remote",
        "rest.address": "localhost",
        "rest.port": str(cluster.getRestAddress().get().getPort()),
        "parallelism.default": str(SLOTS),
    }


def stream_environment(settings: Mapping[str, str]) -> StreamExecutionEnvironment:
    """For the cluster that the settings name; the usual way to one would start a cluster for itself."""
    made = configuration(settings)._j_configuration
    return StreamExecutionEnvironment(
        get_gateway().jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment(made)
    )


def configuration(settings: Mapping[str, str]) -> Configuration:
    """The settings as Flink wants them."""
    made = Configuration()
    for name, value in settings.items():
        made.set_string(name, value)
    return made


def _csv(job: Job) -> Path:
    """Beside the dataset, so that it goes with it."""
    return Path(job.one).parents[1] / "csv" / "events.csv"


def prepare(job: Job) -> None:
    """Make the job's events CSV: key, value, milliseconds."""
    target = _csv(job)
    if target.exists():
        return
    keys, values, timestamps = pq.read_table(job.one).columns
    milliseconds = pc.divide(timestamps.cast(pa.int64()), _MILLISECOND)
    events = pa.table([keys, values, milliseconds], names=["word", "number", "ms"])
    target.parent.mkdir()
    pyarrow.csv.write_csv(events, target, pyarrow.csv.WriteOptions(include_header=False, quoting_style="none"))


def seconds(microseconds: int) -> str:
    """An interval in SQL.

    >>> seconds(30_000_000)
    "INTERVAL '30' SECOND(3)"
    """
    return f"INTERVAL '{microseconds // _SECOND}' SECOND(3)"


def create_events(tables: TableEnvironment, job: Job) -> None:
    """The table `events`, with a watermark that makes nothing late. Names are such as SQL does not have for itself."""
    tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS events")
    tables.execute_sql(f"""
        CREATE TEMPORARY TABLE events (
            word STRING, number BIGINT, ms BIGINT,
            happened AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR happened AS happened - {seconds(job.delay)}
        ) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{_csv(job)}')""")


class Results:
    """A folder for what one job puts out, in a `with` block. `types` are those of SQL, by the column's name."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-bench-")

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def create(self, tables: TableEnvironment) -> None:
        """The table `results`."""
        columns = ", ".join(f"`{name}` {kind}" for name, kind in self._types.items())
        tables.execute_sql("DROP TEMPORARY TABLE IF EXISTS results")
        tables.execute_sql(f"""
            CREATE TEMPORARY TABLE results ({columns})
            WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{self._folder.name}')""")

    def read(self) -> pa.Table:
        """What is in it."""
        reading = pyarrow.csv.ReadOptions(column_names=list(self._types))
        types = {name: _ARROW[kind] for name, kind in self._types.items()}
        converting = pyarrow.csv.ConvertOptions(column_types=types)
        # A task that had no rows leaves an empty file, which the reader would not take.
        files = (file for file in Path(self._folder.name).glob("part-*") if file.stat().st_size)
        return pa.concat_tables([pyarrow.csv.read_csv(file, reading, convert_options=converting) for file in files])
