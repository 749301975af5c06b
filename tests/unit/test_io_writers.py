"""Files as sinks: their contents, and that each epoch's rows appear once, whole, and only when it is committed."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import Batch, StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.runners.local.scheduler import Crash, RandomScheduler, Scheduler
from headrace.sdk.io.filesink import FileSink
from headrace.sdk.io.textwriters import TextWriter
from headrace.utils.timestamp import Timestamp
from tests.unit.collected import values


class Named(NamedTuple):
    name: str
    age: int


@dataclass
class Classed:
    name: str
    age: int


class Unnamed:
    pass


PEOPLE = [{"name": "ann", "age": 31}, beam.Row(name="bob", age=42), Named("cid", 53), Classed("dee", 64)]


def run(elements, transform, **kwargs):
    with beam.Pipeline(LocalRunner(**kwargs)) as p:
        p | beam.Create(elements) | transform


def names(folder):
    """Visible files."""
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def hidden(folder):
    return sorted(path.name for path in folder.rglob("_unfinished/*"))


class TestContents:
    def test_text(self, tmp_path):
        run(["a", 7, "ü".encode()], beam.io.WriteToText(f"{tmp_path}/out", ".txt", header="head", footer="foot"))
        assert names(tmp_path) == ["out-000001-00000.txt"]
        assert (tmp_path / "out-000001-00000.txt").read_text() == "head\na\n7\nü\nfoot\n"

    def test_text_without_ends_of_lines(self, tmp_path):
        run([b"a", b"b"], beam.io.WriteToText(f"{tmp_path}/", append_trailing_newlines=False))
        assert (tmp_path / "part-000001-00000").read_bytes() == b"ab"

    @pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
    def test_compressed_text_comes_back(self, tmp_path, ending):
        run(["a", "b"], beam.io.WriteToText(f"{tmp_path}/out", f".txt.{ending}"))
        assert values(lambda p: p | beam.io.ReadFromText(f"{tmp_path}/out*")) == ["a", "b"]

    def test_compression_stated(self, tmp_path):
        run(["a"], beam.io.WriteToText(f"{tmp_path}/out", compression_type="gzip"))
        assert gzip.decompress((tmp_path / "out-000001-00000").read_bytes()) == b"a\n"

    def test_json(self, tmp_path):
        when = datetime(2013, 1, 1, tzinfo=UTC)
        run([*PEOPLE, 7, {"at": Timestamp(1.5), "on": when, "in": {1}}], beam.io.WriteToJson(f"{tmp_path}/out"))
        lines = (tmp_path / "out-000001-00000.json").read_text().splitlines()
        assert [json.loads(line) for line in lines[:5]] == [
            {"name": "ann", "age": 31}, {"name": "bob", "age": 42}, {"name": "cid", "age": 53},
            {"name": "dee", "age": 64}, 7,
        ]  # fmt: skip
        assert json.loads(lines[5]) == {"at": "1970-01-01T00:00:01.500000Z", "on": when.isoformat(), "in": [1]}

    def test_csv(self, tmp_path):
        run(PEOPLE, beam.io.WriteToCsv(f"{tmp_path}/out"))
        assert (tmp_path / "out-000001-00000.csv").read_text() == "name,age\nann,31\nbob,42\ncid,53\ndee,64\n"

    def test_csv_with_columns(self, tmp_path):
        run(PEOPLE[:1], beam.io.WriteToCsv(f"{tmp_path}/out", columns=["age", "name"], sep=";", header=False))
        assert (tmp_path / "out-000001-00000.csv").read_text() == "31;ann\n"

    def test_parquet(self, tmp_path):
        schema = pa.schema({"name": pa.string(), "age": pa.int32()})
        run(PEOPLE, beam.io.WriteToParquet(f"{tmp_path}/out", schema, codec="zstd", file_name_suffix=".parquet"))
        table = pq.read_table(tmp_path / "out-000001-00000.parquet")
        assert table.schema == schema
        assert table.to_pylist() == [
            {"name": name, "age": age} for name, age in (("ann", 31), ("bob", 42), ("cid", 53), ("dee", 64))
        ]

    def test_parquet_without_a_schema(self, tmp_path):
        run(PEOPLE, beam.io.WriteToParquet(f"{tmp_path}/out"))
        assert pq.read_table(tmp_path / "out-000001-00000").schema.field("age").type == pa.int64()

    @pytest.mark.parametrize(
        ("make", "element", "message"),
        [
            (lambda: beam.io.WriteToJson("out"), Unnamed(), "has no named fields; map it to a dict"),
            (lambda: beam.io.WriteToCsv("out"), 7, "element 7 of type int has no named fields"),
            (
                lambda: beam.io.WriteToCsv("out", columns=["a"]),
                {"b": 1},
                r"\{'b': 1\} does not have the columns \['a'\]",
            ),
            (
                lambda: beam.io.WriteToParquet("out", pa.schema({"a": pa.int64()})),
                {"a": "x"},
                r"element \{'a': 'x'\} does not fit the schema",
            ),
        ],
    )
    def test_what_cannot_be_written(self, tmp_path, monkeypatch, make, element, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StepError, match=message) as caught:
            run([element], "write it" >> make())
        assert caught.value.step == "write it"

    def test_arguments_that_make_no_sense(self):
        with pytest.raises(TypeError, match=r"must be a pyarrow.Schema, got \['a'\]"):
            beam.io.WriteToParquet("out", ["a"])
        with pytest.raises(ValueError, match="codec 'rar' is not available"):
            beam.io.WriteToParquet("out", codec="rar")
        with pytest.raises(ValueError, match="compression 'rar' is not known"):
            beam.io.WriteToText("out", compression_type="rar")


class TestExactlyOnce:
    def sink(self, folder):
        return FileSink(f"{folder}/out", ".txt", TextWriter(b"\n", None, None, "auto"))

    def test_nothing_is_seen_before_delivery(self, tmp_path):
        sink = self.sink(tmp_path)
        receipt = sink.stage(Batch(["a"], [0]), 7, 0, "token")
        assert names(tmp_path) == []
        sink.deliver(7, [receipt])
        assert names(tmp_path) == ["out-000007-00000.txt"]

    def test_a_delivery_may_be_repeated(self, tmp_path):
        sink = self.sink(tmp_path)
        receipts = [sink.stage(Batch([text], [0]), 7, number, f"t{number}") for number, text in enumerate("ab")]
        sink.deliver(7, receipts)
        sink.deliver(7, receipts)
        assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["a\n", "b\n"]

    def test_a_delivery_goes_on_where_it_was_interrupted(self, tmp_path):
        sink = self.sink(tmp_path)
        receipts = [sink.stage(Batch([text], [0]), 7, number, f"t{number}") for number, text in enumerate("ab")]
        (tmp_path / "_unfinished" / "out-000007-0-t0.txt").rename(tmp_path / "out-000007-00000.txt")
        sink.deliver(7, receipts)
        assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["a\n", "b\n"]

    def test_attempts_that_came_to_nothing_are_removed_but_not_those_under_way(self, tmp_path):
        sink, other = self.sink(tmp_path), FileSink(f"{tmp_path}/out-two", "", TextWriter(b"\n", None, None, "auto"))
        lost = sink.stage(Batch(["lost"], [0]), 7, 0, "first")
        kept = sink.stage(Batch(["kept"], [0]), 7, 0, "second")
        sink.stage(Batch(["next"], [0]), 8, 0, "third")
        other.stage(Batch(["other's"], [0]), 6, 0, "fourth")
        assert lost != kept
        sink.deliver(7, [kept])
        assert hidden(tmp_path) == ["out-000008-0-third.txt", "out-two-000006-0-fourth"]
        assert (tmp_path / "out-000007-00000.txt").read_text() == "kept\n"

    def test_an_empty_part_is_no_file(self, tmp_path):
        assert self.sink(tmp_path).stage(Batch(), 7, 0, "token") is None
        run([], beam.io.WriteToText(f"{tmp_path}/out"))
        assert names(tmp_path) == []

    @pytest.mark.parametrize("step", ["run level 0 task 0", "commit", "committed", "deliver", "delivered"])
    def test_a_crash_anywhere_loses_and_doubles_nothing(self, tmp_path, step):
        class CrashOnce(Scheduler):
            def __init__(self):
                self.left = 2

            def bundle_size(self, epoch, limit):
                return 10

            def step(self, name, epoch):
                if name == step and epoch == 3 and self.left:
                    self.left = 0
                    raise Crash(name)

        scheduler = CrashOnce()
        out = tmp_path / "out"

        def attempt():
            options = PipelineOptions([f"--checkpoint={tmp_path}/checkpoint"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as p:
                p | beam.Create(range(100)) | beam.io.WriteToText(f"{out}/part")

        with pytest.raises(Crash):
            attempt()
        attempt()
        lines = [int(line) for name in names(out) for line in (out / name).read_text().split()]
        assert sorted(lines) == list(range(100))
        assert names(out) == [f"part-{epoch:06d}-00000" for epoch in range(1, 11)]
        assert hidden(out) == []

    def test_many_tasks_write_many_files(self, tmp_path):
        run(range(100), beam.io.WriteToText(f"{tmp_path}/out"), parallelism=4, scheduler=RandomScheduler(3))
        lines = [int(line) for name in names(tmp_path) for line in (tmp_path / name).read_text().split()]
        assert sorted(lines) == list(range(100))
        assert any(name.endswith("-00003") for name in names(tmp_path))


def test_a_relative_place_stays_where_the_program_was_when_it_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers are where Spark was started, which need not be where the program has gone since."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create(["a"]) | beam.io.WriteToText("letters")
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert [path.name for path in tmp_path.glob("letters*")] == ["letters-000001-00000"]
