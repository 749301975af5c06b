"""A stream beside a job of the program's own, with settings of others: `python -m tests.spark.settings FOLDER NAME...`.

Each name of `SETTINGS` gets a Spark context of its own, all in one Java process. Prints a line of JSON for each.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import NamedTuple, cast

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

import headrace as beam
from headrace.lowlevel import BaseInjector, CallSink, Computation, Context, Delivery, Record, Topology
from headrace.lowlevel.injectors.injector import MemorySplit
from headrace.lowlevel.records.record import Batch
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.runners.spark import SparkRunner, WriteToSpark

KEYS, RECORDS, BEFORE, AFTER = 3, 5, 6, 6
PATIENCE_SECONDS = 60.0
"""How long the job of the program's own may take beside the stream; without a slot it would wait for ever."""
_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "3"}

_SECRET = {"spark.authenticate": "true", "spark.authenticate.secret": "a secret of the test"}


class Setting(NamedTuple):
    """Settings of a session, and its master."""

    master: str
    settings: Mapping[str, str] = MappingProxyType({})


BROKEN = {
    "two cores for a task": Setting("local[2]", {"spark.task.cpus": "2"}),
    "more parallelism than cores": Setting("local[1]", {"spark.default.parallelism": "4"}),
    "an executor of one core": Setting("local-cluster[1,1,1024]"),
    "a zone of a few letters": Setting("local[2]", {"spark.sql.session.timeZone": "PST"}),
    "a zone that is an offset": Setting("local[2]", {"spark.sql.session.timeZone": "UTC+8"}),
}
"""Settings with which something did not work once."""
SETTINGS = BROKEN | {
    "a third of a core": Setting("local[3]", {"spark.task.cpus": "3"}),
    "one core": Setting("local"),
    "all cores": Setting("local[*]"),
    "parallelism of SQL": Setting("local[1]", {"spark.sql.leafNodeDefaultParallelism": "8"}),
    "two executors, two cores for a task": Setting("local-cluster[2,2,1024]", {"spark.task.cpus": "2"}),
    "dynamic allocation": Setting(
        "local-cluster[2,1,1024]",
        {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "1",
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
        },
    ),
    "fair scheduling": Setting("local[2]", {"spark.scheduler.mode": "FAIR"}),
    "kryo": Setting("local[2]", {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"}),
    "speculation": Setting("local-cluster[2,1,1024]", {"spark.speculation": "true"}),
    "workers that are not reused": Setting("local[2]", {"spark.python.worker.reuse": "false"}),
    "sockets of TCP": Setting("local[2]", {"spark.python.unix.domain.socket.enabled": "false"}),
    "Unix sockets": Setting("local[2]", {"spark.python.unix.domain.socket.enabled": "true"}),
    "adaptive execution": Setting("local[2]", {"spark.sql.adaptive.enabled": "true"}),
    "no code generation": Setting("local[2]", {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
    "batches of one row": Setting("local[2]", {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}),
    "large types of Arrow": Setting("local[2]", {"spark.sql.execution.arrow.useLargeVarTypes": "true"}),
    "Arrow for pandas": Setting("local[2]", {"spark.sql.execution.arrow.pyspark.enabled": "true"}),
    "a small result": Setting("local[2]", {"spark.driver.maxResultSize": "1m"}),
    "many partitions": Setting("local[2]", {"spark.sql.shuffle.partitions": "64"}),
    "case matters": Setting("local[2]", {"spark.sql.caseSensitive": "true"}),
    "no ANSI": Setting("local[2]", {"spark.sql.ansi.enabled": "false"}),
    "times without a zone": Setting("local[2]", {"spark.sql.timestampType": "TIMESTAMP_NTZ"}),
    "Java's old calendar": Setting("local[2]", {"spark.sql.datetime.java8API.enabled": "true"}),
    "one failure": Setting("local[2]", {"spark.task.maxFailures": "1"}),
    "encrypted shuffles": Setting("local[2]", {"spark.io.encryption.enabled": "true"}),
    "authentication": Setting("local-cluster[1,2,1024]", _SECRET),
    "encryption": Setting("local-cluster[1,2,1024]", _SECRET | {"spark.network.crypto.enabled": "true"}),
    "a profiler": Setting("local[2]", {"spark.sql.pyspark.udf.profiler": "perf"}),
    "logs of workers": Setting("local[2]", {"spark.sql.pyspark.worker.logging.enabled": "true"}),
    "short tracebacks": Setting("local[2]", {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true"}),
    "locality": Setting("local[2]", {"spark.locality.wait": "3s"}),
    "references of shuffles": Setting("local[2]", {"spark.cleaner.referenceTracking": "false"}),
    "no adaptive execution": Setting("local[2]", {"spark.sql.adaptive.enabled": "false"}),
    "a zone with half hours": Setting("local[2]", {"spark.sql.session.timeZone": "Asia/Kolkata"}),
    "little memory for Python": Setting("local-cluster[1,2,1024]", {"spark.executor.pyspark.memory": "1g"}),
    "idle workers are killed": Setting(
        "local[2]", {"spark.python.worker.idleTimeoutSeconds": "10", "spark.python.worker.killOnIdleTimeout": "true"}
    ),
    "a fault handler": Setting("local[2]", {"spark.sql.execution.pyspark.udf.faulthandler.enabled": "true"}),
    "tasks are reaped": Setting("local[2]", {"spark.task.reaper.enabled": "true"}),
    "one attempt at a stage": Setting("local-cluster[2,1,1024]", {"spark.stage.maxConsecutiveAttempts": "1"}),
    "hosts are excluded": Setting("local-cluster[2,1,1024]", {"spark.excludeOnFailure.enabled": "true"}),
    "executors leave in order": Setting("local-cluster[2,1,1024]", {"spark.decommission.enabled": "true"}),
    "memory off the heap": Setting(
        "local[2]", {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "256m"}
    ),
    "zstandard": Setting("local[2]", {"spark.io.compression.codec": "zstd", "spark.rdd.compress": "true"}),
    "short messages": Setting("local-cluster[1,2,1024]", {"spark.rpc.message.maxSize": "1"}),
    "the old parser of times": Setting("local[2]", {"spark.sql.legacy.timeParserPolicy": "LEGACY"}),
    "Arrow for Python's functions": Setting(
        "local[2]",
        {
            "spark.sql.execution.pythonUDF.arrow.enabled": "true",
            "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "true",
        },
    ),
    "state in RocksDB": Setting(
        "local[2]",
        {
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
            "RocksDBStateStoreProvider"
        },
    ),
}
"""Settings that users have."""


class Stream(BaseInjector):
    """Small epochs until the job has ended, and some more."""

    def __init__(self) -> None:
        self.epochs, self.end = 0, sys.maxsize

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        self.epochs = epoch = cast(int, position or 0)
        time.sleep(0.02)
        numbers = [epoch * RECORDS + place for place in range(RECORDS)]
        return Delivery([MemorySplit(Batch(numbers, [epoch] * RECORDS))], epoch + 1, epoch, epoch + 1 >= self.end)


class Count(Computation):
    """Counts the records of each key."""

    def process_record(self, record: Record, context: Context) -> None:
        context.state = cast(int, context.state or 0) + 1
        context.produce("counts", (cast(int, record.value), context.state))


def job(session: SparkSession) -> list[object]:
    """A job with a shuffle, times and Python; what it sees of the workers and of its own settings."""
    context = session.sparkContext
    context.setLocalProperty("mine", "kept")

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"gc": [gc.get_threshold()[0]], "pool": [pa.default_memory_pool().backend_name]}
            )

    frame = session.range(0, 40, 1, 2).selectExpr("id % 4 AS key", "timestamp_seconds(id) AS at")
    groups = frame.groupBy("key", "at").count().count()
    workers = {tuple(row) for row in session.range(0, 4, 1, 1).mapInArrow(seen, "gc bigint, pool string").collect()}
    return [groups, sorted(workers), context.getLocalProperty("mine")]


JOB: list[object] = [40, [[gc.get_threshold()[0], pa.default_memory_pool().backend_name]], "kept"]
"""What the job gives with every setting: workers are as Spark has made them."""


def frames(session: SparkSession, place: str) -> list[object]:
    """A pipeline that reads times from a DataFrame and writes them to one: what arrives, and its types."""
    got: list[object] = []

    def take(frame: DataFrame, epoch: int) -> None:
        rows = frame.selectExpr("id", "unix_micros(at) AS at", "CAST(local AS STRING) AS local").collect()
        got.extend([*map(list, rows), dict(frame.dtypes)["local"]])

    expressions = ["id", "timestamp_seconds(id) AS at", "TIMESTAMP_NTZ '2024-03-10 02:30:00' AS local"]
    frame = session.range(0, 2, 1, 1).selectExpr(*expressions)
    with beam.Pipeline(SparkRunner(session, intervals=1), PipelineOptions([f"--checkpoint={place}"])) as pipeline:
        rows = pipeline | beam.io.ReadFromSpark(frame, timestamp="at", watermark="1 second")
        rows | WriteToSpark(take, session=session)
    return got


FRAMES: list[object] = [
    [0, 0, "2024-03-10 02:30:00"],
    [1, 1_000_000, "2024-03-10 02:30:00"],
    "timestamp_ntz",
]
"""What the pipeline gives with every setting."""


def beside(session: SparkSession, place: str) -> dict[str, object]:
    """Run the job beside a stream; what both gave, and how many seconds the job took."""
    rows: list[tuple[int, int]] = []
    stream, done = Stream(), list[object]()
    made = Topology()
    made.injector("numbers", stream)
    made.computation("count", Count(), {"numbers": lambda number: number % KEYS}, ["counts"])
    made.sink("seen", "counts", CallSink(lambda epoch, each: rows.extend(value for value, _ in each)))
    running = SparkRunner(session, intervals=2).start(made, RunOptions(place, task_idle_seconds=60.0))
    while stream.epochs < BEFORE and not running.is_over:
        time.sleep(0.05)
    worker = Thread(target=lambda: done.append(job(session)), daemon=True)
    began = time.monotonic()
    worker.start()
    worker.join(PATIENCE_SECONDS)
    seconds = time.monotonic() - began
    stream.end = stream.epochs + AFTER
    running.wait()
    worker.join(PATIENCE_SECONDS)
    is_right = sorted(rows) == [(number, number // KEYS + 1) for number in range(len(rows))]
    return {"stream": is_right and len(rows) >= BEFORE * RECORDS, "seconds": seconds, "job": done and done[0]}


def main(folder: str, *names: str) -> None:
    SparkContext._ensure_initialized()  # so that no setting becomes one of the Java process
    for number, name in enumerate(names):
        master, settings = SETTINGS[name]
        conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
        try:
            session = SparkSession(SparkContext(conf=conf.setAll([*(_QUIET | dict(settings)).items()])))
            place = str(Path(folder, str(number)))
            found = beside(session, place) | {"frames": frames(session, f"{place}-frames")}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"name": name} | found), flush=True)
        with suppress(Exception):
            session.sparkContext.stop()
        SparkSession._instantiatedSession = SparkSession._activeSession = None  # as `SparkSession.stop` does


if __name__ == "__main__":
    main(*sys.argv[1:])
