"""Other Python frameworks. Each has an environment of its own: `python -m benchmarks.peers.install`."""

from __future__ import annotations

from benchmarks.peers.environment import BYTEWAX, FLINK, PATHWAY, POLARS, STREAMZ
from benchmarks.peers.process import foreign_peer
from benchmarks.session import CORES
from benchmarks.workload import W1, W2, W3

_ALL = (W1.name, W2.name, W3.name)

BYTEWAX_ONE = foreign_peer(
    "Bytewax", BYTEWAX, "with_bytewax", _ALL, events=500_000, arguments=["1"], note="one worker, in memory"
)
BYTEWAX_TWO = foreign_peer(
    "Bytewax, two workers", BYTEWAX, "with_bytewax", _ALL, events=500_000, arguments=["2"], note="two processes"
)
BYTEWAX_DURABLE = foreign_peer(
    "Bytewax, recovery",
    BYTEWAX,
    "with_bytewax",
    _ALL,
    events=200_000,
    arguments=["1", "recovery"],
    note="one worker, its recovery store written every second",
)
PATHWAY_STATIC = foreign_peer(
    "Pathway static",
    PATHWAY,
    "with_pathway",
    _ALL,
    events=500_000,
    fewer={W2.name: 100_000},
    arguments=["static"],
    note="one worker, in memory",
)
PATHWAY_STREAMING = foreign_peer(
    "Pathway streaming",
    PATHWAY,
    "with_pathway",
    (W1.name, W3.name),
    events=200_000,
    arguments=["streaming"],
    note="one worker, in memory, file by file",
)
FLINK_SQL = foreign_peer(
    "Flink SQL",
    FLINK,
    "with_flink_sql",
    _ALL,
    events=1_000_000,
    arguments=["bounded"],
    note="no Python code, two slots, state in memory",
    warm_whole=True,
)
FLINK_SQL_STREAMING = foreign_peer(
    "Flink SQL, checkpoints",
    FLINK,
    "with_flink_sql",
    _ALL,
    events=500_000,
    arguments=["streaming"],
    note="no Python code, two slots, RocksDB, a checkpoint every second",
    warm_whole=True,
)
FLINK_PROCESS = foreign_peer(
    "PyFlink DataStream, process mode",
    FLINK,
    "with_flink_stream",
    _ALL,
    events=20_000,
    arguments=["process"],
    note="two slots, Python workers beside the JVM that each job starts anew, state in memory",
)
FLINK_THREAD = foreign_peer(
    "PyFlink DataStream, thread mode",
    FLINK,
    "with_flink_stream",
    _ALL,
    events=50_000,
    arguments=["thread"],
    note="two slots, Python in the JVM, state in memory",
)
STREAMZ_LOCAL = foreign_peer(
    "streamz", STREAMZ, "with_streamz", (W1.name, W3.name), events=500_000, note="one thread; windows written by hand"
)
POLARS_BATCH = foreign_peer(
    "Polars",
    POLARS,
    "with_polars",
    (W1.name,),
    events=10_000_000,
    arguments=[str(CORES)],
    note=f"a lazy query on its streaming engine, {CORES} threads, in memory; the result is an Arrow table",
    warm_whole=True,
)
_BYTEWAX = [BYTEWAX_ONE, BYTEWAX_TWO, BYTEWAX_DURABLE]
_PATHWAY = [PATHWAY_STATIC, PATHWAY_STREAMING]
_FLINK = [FLINK_SQL, FLINK_SQL_STREAMING, FLINK_PROCESS, FLINK_THREAD]
FRAMEWORKS = [*_BYTEWAX, *_PATHWAY, *_FLINK, STREAMZ_LOCAL, POLARS_BATCH]
