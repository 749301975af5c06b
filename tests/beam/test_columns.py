"""Programs that read Parquet files give the same by columns, element by element with encoded keys, and with Beam."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runners.beam import HeadraceRunner, parquet_rows
from headrace.runners.beam.functions import keys
from headrace.runners.beam.functions.keys import NoKeys
from headrace.sdk.model.function_ast import CALLED
from tests.depth import examples

LEAST = 2


class Told(beam.DoFn):
    """Writes elements to a file at the end of a bundle; it looks at no window."""

    def __init__(self, file):
        self._file = file

    def start_bundle(self):
        self._rows = []

    def process(self, element, at=beam.DoFn.TimestampParam):
        # Beam's own runner has the ends of windows in milliseconds.
        self._rows.append(f"{element} {at.micros // 1000}")

    def finish_bundle(self):
        with open(self._file, "a", encoding="utf-8") as rows:
            rows.writelines(f"{row}\n" for row in self._rows)


class Highest(beam.CombineFn):
    """The greatest numbers, with a way of its own for many."""

    def create_accumulator(self):
        return []

    def add_input(self, accumulator, element):
        return sorted([*accumulator, element])[-2:]

    def add_inputs(self, accumulator, elements):
        return sorted([*accumulator, *elements])[-2:]

    def merge_accumulators(self, accumulators):
        return sorted(number for accumulator in accumulators for number in accumulator)[-2:]

    def extract_output(self, accumulator):
        return accumulator


class Wrong(Highest):
    """One whose ways differ, so that it shows which was taken."""

    def add_inputs(self, accumulator, elements):
        return ["many at once"]


class Sums(beam.DoFn):
    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(self, pair, window=beam.DoFn.WindowParam, bag=beam.DoFn.StateParam(BAG), end=beam.DoFn.TimerParam(END)):
        bag.add(pair[1])
        end.set(window.end)

    @userstate.on_timer(END)
    def tell(self, key=beam.DoFn.KeyParam, bag=beam.DoFn.StateParam(BAG)):
        yield key, sum(bag.read())


def timed(rows):
    return rows | "Time" >> beam.Map(lambda row: TimestampedValue(row, Timestamp(micros=row["at"])))


def in_seconds(rows):
    return rows | beam.Map(lambda row: beam.window.TimestampedValue((row["word"], row["number"]), row["number"]))


def counted(rows):
    words = timed(rows) | beam.Filter(lambda row: row["number"] >= LEAST) | beam.Map(lambda row: row["word"])
    return words | beam.WindowInto(FixedWindows(5)) | beam.combiners.Count.PerElement()


def in_sessions(rows):
    pairs = timed(rows) | beam.Map(lambda row: ((row["number"], row["word"]), 1)) | beam.WindowInto(Sessions(3))
    return pairs | beam.CombinePerKey(sum)


def grouped(rows):
    pairs = timed(rows) | beam.WindowInto(SlidingWindows(10, 5)) | beam.Map(lambda row: (row["share"], row["number"]))
    groups = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, numbers: (key, sorted(numbers)))
    return groups | beam.Map(lambda group, at=beam.DoFn.WindowParam: (*group, at.start.micros))


def greatest(rows):
    numbers = timed(rows) | beam.Map(lambda row: row["number"]) | beam.WindowInto(FixedWindows(5))
    return numbers | beam.CombineGlobally(Highest()).without_defaults()


def with_state(rows):
    pairs = timed(rows) | beam.Map(lambda row: (row["word"], row["number"])) | beam.WindowInto(FixedWindows(5))
    return pairs | beam.ParDo(Sums())


def kept(rows):
    every = rows | "Every" >> beam.Filter(lambda row: True)
    none = rows | "None" >> beam.Filter(lambda row: False)
    return (every, none) | beam.Flatten() | beam.Map(lambda row: (row["word"], row["number"] * LEAST, row["share"]))


PROGRAMS = (in_seconds, counted, in_sessions, grouped, greatest, with_state, kept)
SCHEMA = pa.schema([("word", pa.string()), ("number", pa.int64()), ("share", pa.float64()), ("at", pa.int64())])
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.integers(0, 3), st.sampled_from([0.5, 1.0]), st.integers(0, 20_000_000)
    ),
    max_size=8,
)


def results(runner: object, build: Callable[..., object], folder: str) -> list[str]:
    """What a program tells of the rows in a folder, in any order."""
    told = Path(folder, "told")
    told.write_text("", encoding="utf-8")
    with beam.Pipeline(runner=runner) as pipeline:
        _ = build(pipeline | beam.io.ReadFromParquet(f"{folder}/*.parquet")) | "Tell" >> beam.ParDo(Told(str(told)))
    return sorted(told.read_text(encoding="utf-8").splitlines())


def one_by_one(build: Callable[..., object], folder: str) -> list[str]:
    """The same without columns: every function is called, and keys are encoded."""
    with (
        patch.dict("os.environ", {CALLED: "1"}),
        patch.object(parquet_rows, "shape_of_rows", lambda table, as_rows: None),
        patch.object(keys, "plain_keys", lambda coder: NoKeys()),
    ):
        return results(HeadraceRunner("LocalRunner"), build, folder)


@pytest.mark.parametrize("build", PROGRAMS)
@settings(max_examples=examples(3, 200))
@given(rows=ROWS)
def test_in_both_ways(build: Callable[..., object], rows: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        columns = list(zip(*rows, strict=True)) or [[]] * 4
        pq.write_table(pa.table(list(columns), schema=SCHEMA), f"{folder}/rows.parquet", row_group_size=3)
        assert results(HeadraceRunner("LocalRunner"), build, folder) == one_by_one(build, folder)


@pytest.mark.parametrize("build", PROGRAMS)
def test_as_with_beams_own_runner(build: Callable[..., object], tmp_path: Path) -> None:
    numbers = range(12)
    columns = [["ab"[n % 2] for n in numbers], [n % 4 for n in numbers], [n / 4 for n in numbers]]
    table = pa.table([*columns, [n * 1_700_000 for n in numbers]], schema=SCHEMA)
    pq.write_table(table, tmp_path / "rows.parquet")
    ours = results(HeadraceRunner("LocalRunner"), build, str(tmp_path))
    assert ours
    assert ours == results(FnApiRunner(), build, str(tmp_path))


def test_a_combine_fn_has_its_own_way_for_many_elements(tmp_path: Path) -> None:
    pq.write_table(pa.table([["a"] * 4, [1, 2, 3, 4], [0.5] * 4, [0] * 4], schema=SCHEMA), tmp_path / "rows.parquet")
    build = lambda rows: rows | beam.Map(lambda row: row["number"]) | beam.CombineGlobally(Wrong())  # noqa: E731 - one line
    [told] = results(HeadraceRunner("LocalRunner"), build, str(tmp_path))
    assert told.startswith("['many at once'] ")
