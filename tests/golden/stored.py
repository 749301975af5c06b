"""One instance of every class whose instances are stored, and the bytes of each as a release has written them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.robotparser import RequestRate
from uuid import SafeUUID

import numpy as np
from apache_beam.transforms import window as beam_window

from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView  # noqa: F401 - it loads the classes of the engine
from headrace.lowlevel.class_lookup import dumps
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.errors import KeyEncodingError, Shown
from headrace.lowlevel.records.column_batch import Named, Single, pair
from headrace.lowlevel.records.column_block import Columns
from headrace.lowlevel.records.record import Record
from headrace.lowlevel.sinks.staged_rows import ColumnPart, Staged, TuplePart, ValuePart
from headrace.lowlevel.time import Duration, Timestamp
from headrace.lowlevel.topology.nodes import DeadLetter
from headrace.lowlevel.topology.timer import TimeDomain, Timer
from headrace.runners.beam.windowings import BeamWindow
from headrace.sdk.combinefns.composite import GlobalWindowMark
from headrace.sdk.combinefns.exact_sums import ExactSum
from headrace.sdk.combinefns.numeric import _Nothing
from headrace.sdk.combinefns.quantile_sketch import QuantileSketch, _Ranked
from headrace.sdk.combinefns.unique_sketch import UniqueSketch
from headrace.sdk.expressions.element_schema import Fields, FieldsKind, Fired, Instant, OrNone
from headrace.sdk.expressions.join_keys import JoinKey
from headrace.sdk.functions.changelog import Change, ChangeKind, RowChange, RowOperation
from headrace.sdk.io.dead_letters import Failure, Unreadable
from headrace.sdk.io.files.fileio import ReadableFile
from headrace.sdk.io.files.filesystems import FileMetadata
from headrace.sdk.io.files.write_to_files import FileResult
from headrace.sdk.io.kafka.record import KafkaRecord
from headrace.sdk.io.kafka.sink import OutgoingRecord
from headrace.sdk.io.parquet.parquet_source import FileRow
from headrace.sdk.io.text.line_ranges import BadLine, FileError, FileLine
from headrace.sdk.io.timestamps import BadTimestamp
from headrace.sdk.model.late_element import LateElement
from headrace.sdk.model.panes import PaneInfoTiming, pane_info
from headrace.sdk.model.row import Row
from headrace.sdk.model.special_outputs import TaggedOutput, TimestampedValue, WindowedValue
from headrace.sdk.operators.combining.aggregates import Reducer, Reducers, SingleInputReducers
from headrace.sdk.operators.combining.combine_buffer import Lifted
from headrace.sdk.operators.combining.list_reducers import (
    CustomReducer,
    DistinctReducer,
    EarliestReducer,
    LatestReducer,
    ListReducer,
    SetReducer,
    TopReducer,
)
from headrace.sdk.operators.combining.moment_reducers import VarianceReducer
from headrace.sdk.operators.combining.quantile_reducer import QuantileReducer
from headrace.sdk.operators.combining.session_lifting import SessionParts
from headrace.sdk.operators.combining.sketch_reducers import UniqueReducer
from headrace.sdk.operators.side_inputs.gate_inputs import SideView, SideWatermark
from headrace.sdk.operators.vectorized.state.window_table import EmittedResult
from headrace.sdk.splittable.offset_range import OffsetRange
from headrace.sdk.transforms.util.group_into_batches import ShardedKey
from headrace.sdk.triggers import AccumulationMode
from headrace.sdk.userstate import timers as timedomain
from headrace.sdk.windows import (
    BoundedWindow,
    CalendarWindows,
    FixedWindows,
    GlobalWindow,
    IntervalWindow,
    SlidingWindows,
    TimestampCombiner,
)
from headrace.sdk.windows.slices import CalendarSlices, FixedSlices, GlobalSlices, SlidingSlices
from headrace.sdk.windows.windowing import ClosingBehavior, OnTimeBehavior

FILE = Path(__file__).parent / "stored.json"
"""Name -> bytes of the instance as a value, and as a key if it can be one; as Latin-1."""
PROTOCOL = 5


def _distribution() -> QuantileSketch:
    made = QuantileSketch(8, 4)
    made.add_plain(range(5), None)
    return made


def _sketch() -> UniqueSketch:
    made = UniqueSketch(5)
    made.add([1, 2])
    return made


PANE = pane_info(False, True, PaneInfoTiming.LATE, 3, 1, True)
TIMES = np.array([5], np.int64).tobytes()
FAILURE = Failure(BadLine, "BadLine('1')", ["line 1"])
INSTANCES: Mapping[str, object] = {
    "AccumulationMode": AccumulationMode.ACCUMULATING,
    "BeamWindow": BeamWindow(beam_window.IntervalWindow(0, 60)),
    "BoundedWindow": BoundedWindow(7),
    "CalendarSlices": CalendarSlices(CalendarWindows.months(3).beginning_on_day(5).with_time_zone("Asia/Kathmandu")),
    "Change": Change(ChangeKind.DELETE, "a"),
    "ChangeKind": ChangeKind.DELETE,
    "ClosingBehavior": ClosingBehavior.FIRE_ALWAYS,
    # Named tuples and dataclasses of the program's; this one is in each process.
    "ClassWithFields": RequestRate(1, 2),
    "Columns": Columns(b"table", Single(0)),
    "CustomReducer": CustomReducer(cast(Any, "combine")),
    "DeadLetter": DeadLetter("step", "key", 7, "error"),
    "DefaultMark": GlobalWindowMark.MARK,
    "DictShape": Named(("a",), (Single(1),)),
    "DistinctReducer": DistinctReducer(),
    "Distribution": _distribution(),
    "DoFnTimeDomain": timedomain.TimeDomain.REAL_TIME,
    "Duration": Duration(1.5),
    "EarliestReducer": EarliestReducer(),
    "EmittedResult": EmittedResult(3),
    # Enumerations of the program's; this one is in each process.
    "EnumMember": SafeUUID.safe,
    "ExactSum": ExactSum((1e16, 1.0)),
    "FieldsKind": FieldsKind.TUPLE,
    "FieldsShape": Fields(("a",), (Single(1),), FieldsKind.ROW),
    "FileLine": FileLine("/in", 7, "text"),
    "FileMetadata": FileMetadata("/in", 7, 1.5),
    "FileResult": FileResult("out", 1, 3, IntervalWindow(0, 60), PANE, "red"),
    "FileRow": FileRow("/in", 7, {"a": 1}),
    "FixedBuckets": FixedSlices(FixedWindows(60, 15)),
    "GlobalBuckets": GlobalSlices(),
    "GlobalWindow": GlobalWindow(),
    "IntervalWindow": IntervalWindow(0, 60),
    "JoinKeyShape": JoinKey((Single(0), Single(1)), 1, 2),
    "KafkaOutgoing": OutgoingRecord(b"key", b"value", (("name", None),), 7),
    "KafkaRecord": KafkaRecord("topic", 1, 7, b"key", b"value", (("name", b"x"),), Timestamp(5)),
    "LiftedShape": Lifted(Single(0), Reducers((Reducer.SUM,), False), GlobalSlices()),
    "LateElement": LateElement("a", 7, IntervalWindow(0, 60), Timestamp(5), Timestamp(60)),
    "LatestReducer": LatestReducer(),
    "ListReducer": ListReducer(),
    "NamedTuple": dynamic_named_tuple("Key", ("a", "b"))(1, "x"),
    "NoExtreme": _Nothing.NOTHING,
    "OffsetRange": OffsetRange(3, 7),
    "OnTimeBehavior": OnTimeBehavior.FIRE_IF_NON_EMPTY,
    "OrNoneShape": OrNone(Single(0), 1),
    "PaneInfo": PANE,
    "PaneInfoTiming": PaneInfoTiming.LATE,
    "PaneShape": Fired(Single(0), 1, 2, PANE),
    "QuantileReducer": QuantileReducer(5, is_reversed=True, k=200),
    "RankedValue": _Ranked(1, "a"),
    "ReadFailure": FAILURE,
    "ReadableFile": ReadableFile(FileMetadata("/in", 7), "gzip"),
    "Record": Record("key", 7, 5, b"id"),
    "Reducer": Reducer.MEAN,
    "Reducers": Reducers((Reducer.SUM, Reducer.COUNT), True),
    "RowChange": RowChange(RowOperation.UPDATE, {"id": 1}, {"id": 1, "city": "oslo"}, (3, 7), ("note",)),
    "RowOperation": RowOperation.TRUNCATE,
    "Row": Row(a=1, b="x"),
    "SetReducer": SetReducer(),
    "SessionPartsShape": SessionParts(Single(0), 2),
    "ShardedKey": ShardedKey("key", b"1"),
    "ShownValue": Shown("<socket>"),
    "SideProgress": SideWatermark(7),
    "SideView": SideView(b"code", b"version", b"data"),
    "SingleInputReducers": SingleInputReducers((Reducer.MAX, Reducer.MIN), True),
    "SingleShape": Single(3),
    "SlidingBuckets": SlidingSlices(SlidingWindows(5, 3)),
    "StagedColumns": ColumnPart(b"tables", Single(0), TIMES),
    "StagedRows": Staged([ValuePart(["a"], [5])]),
    "StagedTuples": TuplePart((["a"], [1]), [5]),
    "StagedValues": ValuePart(["a"], [5]),
    "TaggedOutput": TaggedOutput("late", 7),
    "TimeDomain": TimeDomain.WALL_TIME,
    "Timer": Timer("tag", 5, TimeDomain.LOW_WATERMARK),
    "Timestamp": Timestamp(1.5),
    "TimestampCombiner": TimestampCombiner.OUTPUT_AT_LATEST,
    "TimestampShape": Instant(1),
    "TimestampedValue": TimestampedValue("a", 5),
    "TopReducer": TopReducer(3, least=False),
    "TupleShape": pair(Single(0), Single(1)),
    "UniqueReducer": UniqueReducer(7),
    "UniqueSketch": _sketch(),
    "UnreadableRecord": Unreadable(b"raw", FAILURE),
    "VarianceReducer": VarianceReducer(is_root=True, population=False),
    "WindowedValue": WindowedValue("a", 5, [IntervalWindow(0, 60)], PANE),
}
CLASSES: Mapping[str, type] = {"BadLine": BadLine, "BadTimestamp": BadTimestamp, "FileError": FileError}
"""Those that are stored themselves."""


def as_key(value: object) -> bytes | None:
    """The bytes of a key; None if it cannot be one."""
    try:
        return encode_key(value)
    except KeyEncodingError:
        return None


def written() -> dict[str, list[str | None]]:
    """What belongs into the file."""
    return {
        name: [dumps(value).decode("latin-1"), key and key.decode("latin-1")]
        for name, value in INSTANCES.items()
        for key in [as_key(value)]
    }


def read() -> dict[str, tuple[bytes, bytes | None]]:
    """What is in the file."""
    found: dict[str, tuple[str, str | None]] = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: (value.encode("latin-1"), key and key.encode("latin-1")) for name, (value, key) in found.items()}


def make() -> None:
    """Write the file anew."""
    FILE.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
