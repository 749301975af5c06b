"""What stored data names: no module of ours but one; every class by a name that no move and no rename changes."""

from __future__ import annotations

import importlib
import json
import pickle
import pkgutil
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

import headrace as beam
from headrace import lowlevel, runners, sdk
from headrace.lowlevel import (
    BaseInjector,
    Batch,
    BoundedInjector,
    CallSink,
    ColumnComputation,
    ColumnContext,
    Computation,
    InjectorProcess,
    InlineComputation,
    RecordColumns,
    Topology,
    stored_names,
)
from headrace.lowlevel.coders.coder import decode_key, encode_key
from headrace.lowlevel.sinks.sink import SendSink
from headrace.lowlevel.stored_names import MODULE, address, maker, public_name, stored_as
from headrace.lowlevel.topology.computation import IntervalComputation
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner, Scheduler
from headrace.sdk import stored_classes
from headrace.sdk.coders.coder import Coder
from headrace.sdk.io.kafka.sink import KafkaSink
from headrace.sdk.userstate.state_spec import StateSpec
from headrace.sdk.windows import NonMergingWindowFn
from headrace.transforms import trigger, userstate, window
from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from headrace.utils.sharded_key import ShardedKey
from tests.golden import stored
from tests.recorded import short_pipeline

GOLDEN = stored.FILE.parent
OURS = re.compile(rb"headrace\.[A-Za-z_]\w*(?:\.\w+)*")
COMPRESSED = re.compile(rb"x[\x01\x5e\x9c\xda]")


def unpacked(data: bytes) -> Iterator[bytes]:
    """Bytes as they are, and what is compressed in them."""
    yield data
    for at in COMPRESSED.finditer(data):
        try:
            yield from unpacked(zlib.decompressobj().decompress(data[at.start() :]))
        except zlib.error:
            continue


def modules_in(data: bytes) -> set[str]:
    """Modules of ours that stored bytes name. Strings of pickles, JSON and Arrow lie in them as they are."""
    return {match.decode() for whole in unpacked(data) for match in OURS.findall(whole)}


def names_in(data: bytes) -> set[str]:
    """The stored names in them, of pickles and of keys."""
    names = {name: name.encode() for name in stored_names._MAKERS}
    return {
        name
        for whole in unpacked(data)
        for name, text in names.items()
        if b"\x8c" + bytes([len(text)]) + text in whole or f"{MODULE}:{name}".encode() in whole
    }


# The bytes of every class


@pytest.mark.parametrize("name", stored.INSTANCES)
def test_what_was_stored_is_read(name: str) -> None:
    value, (data, key) = stored.INSTANCES[name], stored.read()[name]
    found = pickle.loads(data)
    assert type(found) is type(value)
    assert found == value or pickle.dumps(found, stored.PROTOCOL) == pickle.dumps(value, stored.PROTOCOL)
    assert modules_in(data) <= {MODULE}
    assert stored.as_key(value) == key, "the bytes of a key are where its state lies"
    if key is not None:
        assert decode_key(key) == value and modules_in(key) <= {MODULE}


def test_the_bytes_are_those_of_today() -> None:
    """What is stored may change with a new format; then `stored.make()` writes them down."""
    assert json.loads(stored.FILE.read_text(encoding="utf-8")) == stored.written()


def test_every_class_that_is_registered_has_an_instance() -> None:
    assert {*stored.INSTANCES, *stored.CLASSES} == set(stored_names._MAKERS)
    for name, value in stored.INSTANCES.items():
        kind = stored_names._MAKERS[name].kind
        assert kind in (None, type(value)), name


def test_a_process_that_has_loaded_nothing_reads_all() -> None:
    """As `headrace inspect` and workers do, each class by itself."""
    program = (
        "import json, pickle, sys\n"
        "from headrace.lowlevel.coders.coder import decode_key\n"
        "data, key = json.loads(sys.stdin.read())\n"
        "assert 'headrace.sdk.stored_classes' not in sys.modules\n"
        "if key: decode_key(key.encode('latin-1'))\n"
        "pickle.loads(data.encode('latin-1'))\n"
    )
    told = json.loads(stored.FILE.read_text(encoding="utf-8"))
    for name in ("Row", "LiftedShape"):
        subprocess.run([sys.executable, "-c", program], input=json.dumps(told[name]), text=True, check=True)
    others = [(data, key) for data, key in told.values()]
    loop = program.replace("data, key = json", "both = json").replace("if key:", "for data, key in both:\n  if key:")
    loop = loop.replace("\npickle.loads", "\n  pickle.loads")
    subprocess.run([sys.executable, "-c", loop], input=json.dumps(others), text=True, check=True)


def test_all_that_register_are_loaded_for_a_reader() -> None:
    own = {
        kind.__module__
        for found in stored_names._MAKERS.values()
        if (kind := found.kind or found.func) and kind.__module__.startswith("headrace.sdk.")
    }
    assert own == {module.__name__ for module in stored_classes.MODULES}


def test_an_unknown_name_says_so() -> None:
    data = pickle.dumps(beam.Row(a=1), stored.PROTOCOL).replace(b"\x8c\x03Row", b"\x8c\x03Roe")
    with pytest.raises(AttributeError, match="Roe"):
        pickle.loads(data)


def test_a_name_has_one_class() -> None:
    class Another(NamedTuple):
        a: int

    with pytest.raises(AssertionError, match=r"'Row' is the stored name of .*Row"):
        stored_as("Row")(Another)


# Classes of users


class OwnRow(beam.Row):
    pass


class OwnKey(ShardedKey):
    pass


class OwnValue(TimestampedValue[int]):
    pass


class OwnWindow(IntervalWindow):
    pass


@dataclass(frozen=True)
class Place:
    x: int


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    "value", [OwnRow(a=1), OwnKey(1, b"2"), OwnValue(1, 2), OwnWindow(0, 60), Place(1), Pair(1)], ids=repr
)
def test_classes_of_users_have_their_own_names(value: object) -> None:
    data = pickle.dumps(value)
    assert type(value).__module__.encode() in data and names_in(data) <= {"Timestamp"}
    found = pickle.loads(data)
    assert type(found) is type(value) and found == value
    assert address(type(value)) == f"{__name__}:{type(value).__name__}"
    assert public_name(type(value)) == type(value).__name__


# Fingerprints


def _below(kind: type) -> Iterator[type]:
    for found in kind.__subclasses__():
        yield found
        yield from _below(found)


def test_whatever_a_fingerprint_may_name_has_a_name() -> None:
    for package in (lowlevel, sdk, runners):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    bases: list[type] = [beam.CombineFn, window.WindowFn, window.BoundedWindow, trigger.Trigger, Computation]
    bases += [InlineComputation, IntervalComputation, BaseInjector, Coder, StateSpec, CallSink]
    abstract = {
        "_ExtremeFn _VotesFn _CountingCombineFn _ByTimeCombineFn _DispersionFn NonMergingWindowFn "
        "_Calendar Composite Parallel "
        "_Deterministic _TextCoder _Composite _ListCombineFn Stateless VectorizedCombineFn "
        "_ReadElsewhere DoFnComputation"  # in tasks only
    }
    skipped = set(" ".join(abstract).split())
    unnamed = {
        kind.__qualname__
        for base in bases
        for kind in _below(base)
        if kind.__module__.startswith("headrace.")
        and kind.__qualname__ not in skipped
        # A class with slots is made twice.
        and getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
        and kind not in stored_names._NAMES
    }
    assert not unnamed
    assert issubclass(window.FixedWindows, NonMergingWindowFn)


# Runs


class Reads(Scheduler):
    """Reads every object of a checkpoint when an epoch is delivered."""

    def __init__(self, *places: Path) -> None:
        self._places, self.seen = places, dict[Path, bytes]()

    def step(self, name: str, epoch: int) -> None:
        self.look()

    def look(self) -> None:
        for place in self._places:
            for path in place.rglob("*"):
                if path.is_file() and path not in self.seen:
                    self.seen[path] = path.read_bytes()

    def check(self, *expected: str) -> None:
        """No module of ours but the one is named, and these classes are there."""
        wrong = {str(path): found for path, data in self.seen.items() if (found := modules_in(data) - {MODULE})}
        assert not wrong
        missing = set(expected).difference(*map(names_in, self.seen.values()))
        assert self.seen and not missing, missing


def test_golden_checkpoints_name_no_module() -> None:
    reads = Reads(*(path for path in GOLDEN.iterdir() if path.is_dir() and path.name.startswith("format")))
    reads.look()
    reads.check("PaneInfo", "StagedRows", "StagedTuples")


VALUES = [value for name, value in stored.INSTANCES.items() if name != "UniqueSketch"]
KEYS = [value for value in VALUES if stored.as_key(value) is not None]
Out = list[object]


class Keeps(beam.DoFn):
    LAST = userstate.ReadModifyWriteStateSpec("last")
    BAG = userstate.BagStateSpec("bag")
    SET = userstate.SetStateSpec("set")
    MOST = userstate.CombiningValueStateSpec("most", max)
    LIST = userstate.OrderedListStateSpec("list")
    END = userstate.TimerSpec("end", beam.transforms.timeutil.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        time=beam.DoFn.TimestampParam,
        where=beam.DoFn.WindowParam,
        last=beam.DoFn.StateParam(LAST),
        bag=beam.DoFn.StateParam(BAG),
        values=beam.DoFn.StateParam(SET),
        most=beam.DoFn.StateParam(MOST),
        ordered=beam.DoFn.StateParam(LIST),
        end=beam.DoFn.TimerParam(END),
    ):
        key, value = pair
        last.write(value), bag.add(value), values.add(type(key).__name__), most.add(1), ordered.add((time, value))
        end.set(where.end)
        return ()

    @userstate.on_timer(END)
    def on_end(self):
        return ()


def run(pipeline: beam.Pipeline, place: Path, **options: object) -> Reads:
    reads = Reads(place)
    topology = pipeline.topology()
    made = RunOptions(str(place), max_records_per_epoch=7, **options)
    LocalRunner(ManualClock(), reads, intervals=2).run_topology(topology, made)
    return reads


def test_keys_and_values_of_every_class(tmp_path: Path) -> None:
    rows = [((key, value), at * 10) for at, value in enumerate(VALUES) for key in (KEYS[at % len(KEYS)],)]
    pipeline = beam.Pipeline()
    pairs = pipeline | "read" >> beam.io.Read(BoundedInjector([(pair, at * 1_000_000) for pair, at in rows]))
    early = trigger.AfterWatermark(early=trigger.AfterCount(1))
    mode = trigger.AccumulationMode
    windows = {
        "fixed": beam.WindowInto(FixedWindows(60)),
        "sessions": beam.WindowInto(window.Sessions(30)),
        "global": beam.WindowInto(window.GlobalWindows()),
        "again": beam.WindowInto(FixedWindows(60), early, mode.ACCUMULATING),
    }
    for name, into in windows.items():
        groups = pairs | f"into {name}" >> into | f"group {name}" >> beam.GroupByKey()
        groups | f"out {name}" >> beam.io.Write(CallSink(lambda epoch, rows: None))
    fixed = pairs | "minutes" >> beam.WindowInto(FixedWindows(60))
    fixed | "keep" >> beam.ParDo(Keeps())
    numbered = fixed | "number" >> beam.Map(lambda pair: (type(pair[1]).__name__, 1))
    numbered | "sum" >> beam.CombinePerKey(sum) | "out sum" >> beam.io.Write(CallSink(lambda epoch, rows: None))
    numbered | "quantiles" >> beam.ApproximateQuantiles.PerKey(3, key=lambda number: -number)
    # Sessions with several panes are combined key by key.
    panes = numbered | "panes" >> beam.WindowInto(window.Sessions(30), early, mode.ACCUMULATING)
    panes | "unique" >> beam.ApproximateUnique.PerKey(16)
    numbered | "most" >> beam.CombinePerKey(max)
    fixed | "look up" >> beam.Map(
        lambda pair, values: (pair, values), beam.pvalue.AsList(fixed | "side" >> beam.Values())
    )
    reads = run(pipeline, tmp_path)
    outside = ("LiftedShape", "Columns", "ClassWithFields", "EnumMember")
    reads.check(*(name for name in stored.INSTANCES if name not in outside))


def test_rows_that_no_sink_has_taken(tmp_path: Path) -> None:
    class Weak(Computation):
        strong_productions = False

        def process_record(self, record, context):
            context.produce("out", beam.Row(a=record.value))

    taken: Out = []

    def send(epoch: int, rows: object) -> bool:
        taken.append(rows)
        return len(taken) > 8

    made = Topology()
    made.injector("in", BoundedInjector([(number, number) for number in range(5)]))
    made.computation("weak", Weak(), {"in": lambda number: number}, ["out"])
    made.sink("service", "out", SendSink(send))
    reads = Reads(tmp_path)
    options = RunOptions(str(tmp_path), max_records_per_epoch=1)
    LocalRunner(ManualClock(), reads, intervals=2).run_topology(made, options)
    reads.check("Row")


class Around(ColumnComputation):
    """Sends numbers round a circle, as columns."""

    state_fields: ClassVar = {"seen": int}

    def process_columns(self, batch: RecordColumns, context: ColumnContext) -> None:
        context.state["seen"] += 1
        left = np.flatnonzero(batch[1] > 0)
        context.produce_columns("again", (batch.key_values(left), batch[1][left] - 1), batch.timestamps[left])


def test_columns_on_a_circle(tmp_path: Path) -> None:
    made = Topology()
    made.injector("in", BoundedInjector([((f"key {number}", number), number) for number in range(5)]))
    made.computation("around", Around(), {"in": itemgetter(0), "again": itemgetter(0)}, ["again"])
    reads = Reads(tmp_path)
    options = RunOptions(str(tmp_path), max_records_per_epoch=50)
    LocalRunner(ManualClock(), reads, intervals=2).run_topology(made, options)
    reads.check("Columns", "TupleShape", "SingleShape")


def test_what_processes_hand_over(tmp_path: Path) -> None:
    process = InjectorProcess.open(str(tmp_path), "one")
    process.write([(value, 1) for value in VALUES], None, 1)
    process.close()
    reads = Reads(tmp_path)
    reads.look()
    reads.check("Row", "WindowedValue", "PaneInfo")


def test_what_kafka_is_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaSink, "_ask_ends", lambda self: {0: 7})
    sink = KafkaSink({"bootstrap.servers": "localhost:9", "transactional.id": "x"}, "topic", bytes, bytes)
    receipt = sink.stage(Batch([(b"key", b"value")], [5]), 1, 0, "token")
    assert receipt is not None
    assert modules_in(receipt) == {MODULE} and "KafkaOutgoing" in names_in(receipt)


def test_files_of_windows(tmp_path: Path) -> None:
    pipeline = beam.Pipeline()
    lines = pipeline | beam.io.Read(BoundedInjector([(str(at), at * 1_000_000) for at in range(200)]))
    lines | beam.WindowInto(FixedWindows(60)) | "windowed" >> beam.io.WriteToText(f"{tmp_path}/out/windowed")
    lines | "whole" >> beam.io.WriteToText(f"{tmp_path}/out/whole")
    run(pipeline, tmp_path / "checkpoint").check()


def test_recordings(tmp_path: Path) -> None:
    recording = short_pipeline("LocalRunner", record=True).run().recording
    recording.save(tmp_path / "recording.json")
    assert not modules_in((tmp_path / "recording.json").read_bytes())
    options = PipelineOptions([], checkpoint=str(tmp_path / "checkpoint"))
    short_pipeline("LocalRunner", record=True, options=options).run()
    reads = Reads(tmp_path / "checkpoint")
    reads.look()
    reads.check()


def test_the_walk_finds_what_is_hidden() -> None:
    inner = pickle.dumps(("headrace.sdk.model.row", 1))
    for data in (inner, pickle.dumps([inner]), zlib.compress(inner, 1), b"junk x\x9c" + zlib.compress(inner)):
        assert modules_in(data) == {"headrace.sdk.model.row"}
    assert not modules_in(b"headrace inspect") and maker("Row") is not None and encode_key(beam.Row(a=1))
