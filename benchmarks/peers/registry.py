"""Every system under comparison, in the order in which tables show them."""

from __future__ import annotations

from benchmarks.peers.beam_direct import BEAM, LOCAL, ON_SPARK
from benchmarks.peers.duckdb_sql import DUCKDB
from benchmarks.peers.frameworks import FRAMEWORKS
from benchmarks.peers.headrace import BOUNDED, IN_MEMORY, STREAMED
from benchmarks.peers.headrace_columns import COLUMNS_BOUNDED, COLUMNS_STREAMED
from benchmarks.peers.loop import LOOP
from benchmarks.peers.spark_sql import SPARK_SQL
from benchmarks.peers.spark_state import STATE_BY_PANDAS, STATE_BY_ROW
from benchmarks.peers.spark_stream import SPARK_STREAM, SPARK_STREAM_DEFAULT

OURS = [IN_MEMORY, BOUNDED, STREAMED, COLUMNS_BOUNDED, COLUMNS_STREAMED, LOCAL, ON_SPARK]
_SPARK = [SPARK_SQL, SPARK_STREAM, SPARK_STREAM_DEFAULT, STATE_BY_ROW, STATE_BY_PANDAS]
PEERS = [*OURS, LOOP, *_SPARK, BEAM, DUCKDB, *FRAMEWORKS]
