"""Joins over columns are joins key by key: the same rows, types and counters, whatever way each life takes."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.checkpoint import Checkpoint
from headrace.lowlevel.coders.coder import encode_key
from headrace.lowlevel.records.column_batch import pair
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.vectorized import segment_store
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.compiler import execution_strategy
from headrace.sdk.compiler.collection_graph import CollectionGraph
from headrace.sdk.expressions.element_schema import Single
from headrace.sdk.expressions.join_keys import JoinKeyOf, key_in
from headrace.sdk.operators.vectorized import column_group_by_key, column_join
from headrace.transforms.schemas import Join
from headrace.transforms.window import FixedWindows, GlobalWindows
from headrace.utils.timestamp import Timestamp
from tests.depth import seeds

KINDS = ("inner", "left", "right", "outer")
JOIN, LISTS, BY_KEY = "join", "lists", "by key"
"""All at once; the groups of all keys at once; key by key."""
_KEYS: list[tuple[pa.DataType, list[object]]] = [
    (pa.int64(), [0, 1, -2, 2**62]),
    (pa.int8(), [0, 1, 2]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.string(), ["", "a", "é", "n", "1:n"]),
    (pa.large_string(), ["a", "b", "é"]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
    (pa.bool_(), [True, False]),
    (pa.float64(), [0.0, -0.0, 1.5, float("nan")]),
    (pa.date32(), [datetime.date(2020, 2, 29), datetime.date(1969, 12, 31)]),
    (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.00")]),
    (pa.binary(), [b"", b"a", b"\xff"]),
    (pa.null(), [None]),
]
_COLUMNS = [*_KEYS, (pa.timestamp("us", "UTC"), [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)])]
MINUTES = 6


class Case:
    """Two tables, and how they are joined."""

    grouping = "Join/CoGroupByKey/GroupByKey"

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self.on = [("k", "k"), ("l", "m")][: rng.choice([1, 1, 2])]
        self.how = rng.choice(KINDS)
        self.names = rng.choice([("left", "right"), ("one", "other")])
        self.windows = rng.choice([FixedWindows(60), FixedWindows(7 * 60, 3), GlobalWindows()])
        self.max_delay = rng.choice([0, 30, 3600])
        self.limit = rng.choice([3, 10, 1000])
        kinds = [rng.choice(_KEYS[:6] if rng.random() < 0.7 else _KEYS) for _ in self.on]
        others = [kind if rng.random() < 0.8 else rng.choice(_KEYS) for kind in kinds]
        same = rng.random() < 0.3
        extra = rng.choice(_COLUMNS)
        self.folders = []
        for number, its in enumerate((kinds, others)):
            names = [pair[number] for pair in self.on]
            columns = dict(zip(names, kinds if same else its, strict=True))
            columns["x"] = extra if same else rng.choice(_COLUMNS)
            self.folders.append(_written(rng, folder / f"side{number}", columns))

    def rows(self, pipeline: beam.Pipeline) -> beam.PCollection[Any]:
        """The joined rows."""
        left, right = self.sides(pipeline)
        return left | Join(right, self.on, self.how, self.names)

    def sides(self, pipeline: beam.Pipeline) -> list[beam.PCollection[Any]]:
        """The rows of both tables."""
        return [
            pipeline
            | f"Read{number}" >> beam.io.ReadFromParquet(f"{folder}/*", timestamp="at", max_delay=self.max_delay)
            | f"Windows{number}" >> beam.WindowInto(self.windows)
            for number, folder in enumerate(self.folders)
        ]

    @property
    def show(self) -> Callable[..., Any]:
        """Makes text of a row."""
        return shown


class Groups(Case):
    """Two tables, one of them possibly twice, whose rows go through `CoGroupByKey`."""

    grouping = "Join/GroupByKey"

    def rows(self, pipeline: beam.Pipeline) -> beam.PCollection[Any]:
        """Groups of rows with the same first field; the values of some sides are no columns."""
        rng, (left, right) = random.Random(self.seed), self.sides(pipeline)
        pairs = [
            left | "Left" >> beam.Map(lambda row: (row["k"], row)),
            right | "Right" >> rng.choice([_PAIRS, _OBJECTS]),
            left | "Ids" >> beam.Map(lambda row: (row["k"], row["id"])),
        ][: rng.randint(2, 3)]
        by_tag = rng.random() < 0.5
        return (dict(zip("abc", pairs, strict=False)) if by_tag else tuple(pairs)) | "Join" >> beam.CoGroupByKey()

    @property
    def show(self) -> Callable[..., Any]:
        """See `Case`."""
        return group_shown


_PAIRS = beam.Map(lambda row: (row["k"], row["x"]))
_OBJECTS = beam.Map(lambda row: (row["k"], (repr(row), row)))


def _written(rng: random.Random, folder: Path, columns: dict[str, tuple[pa.DataType, list[object]]]) -> Path:
    """A folder of files with some rows, in several row groups."""
    folder.mkdir(parents=True)
    count, nulls = rng.choice([0, 1, 5, 30]), rng.choice([0.0, 0.0, 0.2])
    start, disorder = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), rng.choice([0, 40, 400])
    for number in range(rng.choice([1, 2])):
        times = [start + _at(rng, row, count, disorder) for row in range(count)]
        table = {"at": pa.array(times, pa.timestamp("us", "UTC"))}
        for name, (kind, values) in columns.items():
            drawn = [None if rng.random() < nulls else rng.choice(values) for _ in range(count)]
            table[name] = _column(drawn, kind)
        table["id"] = pa.array(range(count), pa.int64())
        pq.write_table(pa.table(table), folder / f"{number}.parquet", row_group_size=7)
    return folder


def _column(values: list[object], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def _at(rng: random.Random, row: int, count: int, disorder: int) -> datetime.timedelta:
    return datetime.timedelta(seconds=max(0, row * MINUTES * 60 // max(count, 1) - rng.randint(0, disorder)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that come together soon and are due part by part, and batches of a few rows."""
    for name, number in (("SMALL", 2), ("MANY", 3), ("GROWTH", 2)):
        monkeypatch.setattr(segment_store, name, number)
    for name, number in (("_PORTION", 3), ("_LARGEST", 20), ("_DUE_AT_ONCE", 3_000)):
        monkeypatch.setattr(column_group_by_key, name, number)
    monkeypatch.setattr(column_join, "_PORTION", 4)
    monkeypatch.setattr(column_join, "_FEW", 3)


pytestmark = pytest.mark.usefixtures("small")


@contextmanager
def taken(way: str) -> Iterator[None]:
    """Compile joins in this way."""
    with pytest.MonkeyPatch.context() as patch:
        if way != JOIN:
            patch.setattr(CollectionGraph, "joining", lambda graph, step, count: None)
        if way == BY_KEY:
            patch.setattr(execution_strategy, "obstacle", lambda *args, **options: "the test wants it so")
        yield


class Dies(Scheduler):
    """Ends the driver after an epoch; None for never. Epochs are as large as they may be, so each life has the same."""

    def __init__(self, epoch: int | None) -> None:
        self._epoch = epoch

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", self._epoch):
            raise Crash("as planned")


def shown(
    row: beam.Row,
    at: Any = beam.DoFn.TimestampParam,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> tuple[str, str]:
    """Key and window of a row, and all that there is to know of it."""
    (left, right), names = row._asdict().values(), ("k", "l") if next(iter(row._asdict().values())) else ("k", "m")
    one = left or right
    key = [one.get(name) for name in names], left is None, right is None
    return repr((key, window)), repr((row, at, window, pane))


def group_shown(
    group: tuple[Any, Any],
    at: Any = beam.DoFn.TimestampParam,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> tuple[str, str]:
    """As `shown`, of a group."""
    return repr((group[0], window)), repr((group, at, window, pane))


def ids(row: beam.Row) -> tuple[object, object]:
    """The numbers of both elements."""
    left, right = row._asdict().values()
    return left and left["id"], right and right["id"]


Life = tuple[str, int, int | None]
"""Way of the join, number of intervals, and last epoch."""


def run(
    case: Case, lives: list[Life], place: Path, show: Callable[..., Any] | None = None
) -> tuple[list[Any], dict[str, int]]:
    """The rows in order of arrival, and the counters of the join; each life goes on with the checkpoint."""
    rows: dict[int, list[Any]] = {}
    sink = CallSink(lambda epoch, its: rows.__setitem__(epoch, [value for value, _ in its]))
    for way, intervals, last in lives:
        with taken(way):
            options = PipelineOptions([], checkpoint=str(place), max_records_per_epoch=case.limit)
            pipeline = beam.Pipeline(LocalRunner(intervals=intervals, scheduler=Dies(last)), options)
            _ = case.rows(pipeline) | "Shown" >> beam.Map(show or case.show) | "Keep" >> beam.io.Write(sink)
            try:
                result = pipeline.run()
            except Crash:
                continue
            break
    left = Checkpoint.read(ObjectStore(str(place)))
    assert not any(left.load(case.grouping).count().values()), "a closed window leaves no state"
    counted = {name: count for name, count in result.counters[case.grouping].items() if count and name != "timers"}
    metrics: Counter[str] = Counter(counted)
    for counter in result.metrics().query(beam.metrics.MetricsFilter().with_namespace("headrace"))["counters"]:
        # What leaves the grouping is rows in one way, and groups in another; elements are taken in either way.
        step, name = counter.key.step, counter.key.metric.name
        if step.startswith("Join/") and step != case.grouping:
            metrics[f"{step} {'taken' if name in ('by_column', 'one_by_one') else name}"] += counter.committed
    return [row for epoch in sorted(rows) for row in rows[epoch]], metrics


def of_each_window(rows: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The rows of each key and window, in their order."""
    found: dict[str, list[str]] = {}
    for group, row in rows:
        found.setdefault(group, []).append(row)
    return found


SEEDS = seeds(25, 1_000)


@pytest.mark.parametrize("kind", [Case, Groups])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_ways_give_the_same(seed: int, kind: type[Case], tmp_path: Path) -> None:
    """Rows of a key and window in the same order."""
    case = kind(seed, tmp_path)
    expected, counted = run(case, [(BY_KEY, 2, None)], tmp_path / BY_KEY)
    found, its = run(case, [(JOIN, 2, None)], tmp_path / JOIN)
    assert of_each_window(found) == of_each_window(expected)
    assert its == counted


@pytest.mark.parametrize("kind", [Case, Groups])
@pytest.mark.parametrize("seed", SEEDS)
def test_ways_and_intervals_that_change_between_lives(seed: int, kind: type[Case], tmp_path: Path) -> None:
    """The sides of a window come in several lives, each with a way and a number of intervals of its own."""
    case, rng = kind(seed, tmp_path), random.Random(-seed)
    stops = [*range(1, 12, rng.randint(1, 4)), None]
    lives = [(rng.choice([JOIN, JOIN, LISTS, BY_KEY]), rng.randint(1, 4), epoch) for epoch in stops]
    expected, counted = run(case, [(BY_KEY, 2, None)], tmp_path / BY_KEY)
    found, its = run(case, lives, tmp_path / "changing")
    assert Counter(found) == Counter(expected), lives
    assert its == counted


def joined_by_hand(case: Case) -> Counter[object]:
    """The numbers of the left and the right element of each row."""
    sides: list[dict[object, list[object]]] = [{}, {}]
    for number, folder in enumerate(case.folders):
        rows = [row for file in sorted(folder.iterdir()) for row in pq.read_table(file).to_pylist()]
        for row in rows:
            values = tuple(row[pair[number]] for pair in case.on)
            (window,) = case.windows.assign_all([Timestamp.from_utc_datetime(row["at"]).micros], [None])[0]
            key = encode_key(values), str(window), number if None in values else None
            sides[number].setdefault(key, []).append(row["id"])
    found: Counter[object] = Counter()
    for key in {**sides[0], **sides[1]}:
        left, right = (side.get(key) for side in sides)
        if (left or case.how in ("right", "outer")) and (right or case.how in ("left", "outer")):
            found.update(product(left or [None], right or [None]))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_those_of_a_join_by_hand(seed: int, tmp_path: Path) -> None:
    case = Case(seed, tmp_path)
    case.max_delay = 3600
    rows, counted = run(case, [(JOIN, 2, None)], tmp_path / JOIN, ids)
    assert not counted.get("dropped_late")
    assert Counter(rows) == joined_by_hand(case)


def test_most_rows_go_by_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would compare nothing."""
    rows: Counter[str] = Counter()

    def counted(name: str) -> Any:
        plain = getattr(column_join.ColumnJoin, name)

        def emit(join: Any, left: Any, right: Any, matches: Any, context: Any) -> None:
            rows[name] += len(matches.starts)
            plain(join, left, right, matches, context)

        return emit

    for name in ("_emit_columns", "_emit_values"):
        monkeypatch.setattr(column_join.ColumnJoin, name, counted(name))
    for seed in range(10):
        run(Case(seed, tmp_path / str(seed)), [(JOIN, 2, None)], tmp_path / f"{seed} {JOIN}")
    assert rows["_emit_columns"] > 10 * rows["_emit_values"]


@pytest.mark.parametrize("seed", seeds(40, 2_000))
def test_keys_are_encoded_as_they_are_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    fields = []
    for kind, values in rng.choices(_KEYS[:6], k=rng.randint(1, 3)):
        fields.append(_column([rng.choice([*values, None]) for _ in range(6)], kind))
    names, added = [str(number) for number in range(len(fields))], list(fields)
    shapes, side = list(map(Single, range(len(fields)))), rng.randint(0, 1)

    def add(column: pa.Array) -> int:
        added.append(column)
        return len(added) - 1

    key = key_in(list(zip(shapes, fields, strict=True)), side, add)
    table = pa.record_batch(added, [*names, "identity"][: len(added)])
    encoded = JoinKeyOf().shape_in(pair(key, Single(0)))
    assert encoded is not None and encoded != key
    keys = key.values(table)
    assert encoded.values(table) == list(map(encode_key, keys))
    [identity] = encoded.columns()
    assert len(set(zip(table.column(identity).to_pylist(), keys, strict=True))) == len(set(keys))
    assert len(set(table.column(identity).to_pylist())) == len(set(keys))
