"""DataFrames as injectors (paper §5.2): a bounded one is written once and read in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from pyspark.sql import DataFrame

from headrace.lowlevel.injector import BaseInjector, Delivery
from headrace.lowlevel.store import Store
from headrace.lowlevel.topology import Topology
from headrace.runners.spark.pieces import Piece, PieceSplit, cut, next_ranges, read_list, stage, write_list
from headrace.runners.spark.streams import StreamInjector, StreamOptions
from headrace.sdk.io.dataframe import DataFrameInjector
from headrace.sdk.io.timestamps import TimestampOf

SOURCES = "sources"
"""Folder of the checkpoint in which rows of DataFrames are kept."""


class FrameInjector(BaseInjector):
    """Reads a bounded DataFrame. A position is (number of a piece, row in it)."""

    def __init__(self, frame: DataFrame, store: Store, folder: str, wanted: DataFrameInjector) -> None:
        self.max_delay = wanted.max_delay
        self._frame = frame
        self._store = store
        self._folder = folder
        self._timestamp: TimestampOf = wanted.timestamp
        self._tolerant = wanted.tolerant
        self._pieces: Sequence[Piece] | None = None

    def start(self) -> object:
        """The first row of the first piece."""
        return (0, 0)

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next `limit` rows."""
        assert isinstance(position, tuple)
        pieces = self._written()
        ranges, (index, row) = next_ranges(pieces, position, limit)
        found = [PieceSplit(self._store, rows, self._timestamp, self._tolerant) for rows in cut(ranges, splits)]
        return Delivery(found, (index, row), done=index >= len(pieces))

    def _written(self) -> Sequence[Piece]:
        """The rows in the checkpoint; written by the first driver that needs them."""
        if self._pieces is None:
            path = f"{self._folder}/list"
            self._pieces = read_list(self._store, path)
            if self._pieces is None:
                self._pieces = write_list(self._store, path, stage(self._frame, self._store, self._folder))
        return self._pieces


def bound(topology: Topology, store: Store, options: StreamOptions) -> Topology:
    """The topology with readers in the place of its DataFrames, which keep rows in the checkpoint."""
    injectors = dict(topology.injectors)
    for stream, wanted in topology.injectors.items():
        if isinstance(wanted, DataFrameInjector):
            assert isinstance(wanted.frame, DataFrame)
            folder = f"{SOURCES}/{blake2b(stream.encode(), digest_size=8).hexdigest()}"
            kind = StreamInjector(wanted.frame, store, folder, wanted, options) if wanted.frame.isStreaming else None
            injectors[stream] = kind or FrameInjector(wanted.frame, store, folder, wanted)
    return replace(topology, injectors=injectors)
