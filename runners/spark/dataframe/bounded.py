"""Injectors for bounded DataFrames (paper §5.2): the rows are written to the checkpoint once and read from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from headrace.lowlevel.injectors.injector import BaseInjector, Delivery
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.stored_names import named
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.spark.cluster.cluster import is_connect
from headrace.runners.spark.dataframe.staged_rows import (
    PieceSplit,
    StagedPiece,
    cut,
    next_ranges,
    read_list,
    stage,
    write_list,
)
from headrace.runners.spark.dataframe.streaming import StreamInjector, StreamOptions
from headrace.runners.spark.session import SparkSetupError
from headrace.sdk.io.dataframe import DataFrameInjector
from headrace.sdk.io.timestamps import TimestampOf

SOURCES = "sources"
"""Folder of the checkpoint in which the rows of DataFrames are stored."""


@named("FrameInjector")
class FrameInjector(BaseInjector):
    """Injector that reads a bounded DataFrame. A position is a pair: index of a piece, and index of a row in it."""

    def __init__(self, frame: DataFrame, store: ObjectStorage, folder: str, wanted: DataFrameInjector) -> None:
        self.max_delay = wanted.max_delay
        self._frame = frame
        self._store = store
        self._folder = folder
        self._timestamp: TimestampOf = wanted.timestamp
        self._tolerant = wanted.tolerant
        self._pieces: Sequence[StagedPiece] | None = None

    def start(self) -> object:
        """Return the position of the first row of the first piece."""
        return (0, 0)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Return splits for up to `limit` rows from the position on."""
        assert isinstance(position, tuple)
        pieces = self._written()
        ranges, (index, row) = next_ranges(pieces, position, limit)
        found = [PieceSplit(self._store, rows, self._timestamp, self._tolerant) for rows in cut(ranges, splits)]
        return Delivery(found, (index, row), done=index >= len(pieces))

    def _written(self) -> Sequence[StagedPiece]:
        """Return the pieces that the checkpoint lists; if there is no list, compute the DataFrame and write them."""
        if self._pieces is None:
            path = f"{self._folder}/list"
            self._pieces = read_list(self._store, path)
            if self._pieces is None:
                self._pieces = write_list(self._store, path, stage(self._frame, self._store, self._folder))
        return self._pieces


def refuse_streams(topology: Topology, session: SparkSession) -> None:
    """Raise `SparkSetupError` for a streaming DataFrame over Spark Connect."""
    if not is_connect(session):
        return
    for stream, wanted in topology.injectors.items():
        if isinstance(wanted, DataFrameInjector) and cast(DataFrame, wanted.frame).isStreaming:
            raise SparkSetupError(
                f"{stream} reads a streaming DataFrame over Spark Connect, where foreachBatch runs on the server and "
                "cannot hand rows to this program; use a session made with a master, read from the source itself "
                "(ReadFromKafka, ReadFromText), or read a bounded DataFrame (spark.read)"
            )


def bound(topology: Topology, store: ObjectStorage, options: StreamOptions) -> Topology:
    """Return the topology with an injector in place of each DataFrame; these injectors store rows in `store`."""
    injectors = dict(topology.injectors)
    for stream, wanted in topology.injectors.items():
        if isinstance(wanted, DataFrameInjector):
            assert isinstance(wanted.frame, DataFrame)
            folder = f"{SOURCES}/{blake2b(stream.encode(), digest_size=8).hexdigest()}"
            kind = StreamInjector(wanted.frame, store, folder, wanted, options) if wanted.frame.isStreaming else None
            injectors[stream] = kind or FrameInjector(wanted.frame, store, folder, wanted)
    return replace(topology, injectors=injectors)
