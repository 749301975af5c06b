"""Files as sinks: their contents, and that each epoch's rows appear once, whole, and only when it is committed."""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.coders import BytesCoder, StrUtf8Coder
from headrace.lowlevel import Batch, StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Crash, Scheduler
from headrace.sdk.io.files.file_sink import EpochFileSink
from headrace.sdk.io.text.text_writers import TextWriter
from headrace.utils.timestamp import Timestamp
from tests.schedulers import RandomScheduler
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
        assert names(tmp_path) == ["out-00000-of-00001.txt"]
        assert (tmp_path / "out-00000-of-00001.txt").read_text() == "head\na\n7\nü\nfoot\n"

    def test_text_without_ends_of_lines(self, tmp_path):
        run([b"a", b"b"], beam.io.WriteToText(f"{tmp_path}/", append_trailing_newlines=False))
        assert (tmp_path / "part-00000-of-00001").read_bytes() == b"ab"

    @pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zst"])
    def test_compressed_text_comes_back(self, tmp_path, ending):
        run(["a", "b"], beam.io.WriteToText(f"{tmp_path}/out", f".txt.{ending}"))
        assert values(lambda p: p | beam.io.ReadFromText(f"{tmp_path}/out*")) == ["a", "b"]

    def test_compression_stated(self, tmp_path):
        run(["a"], beam.io.WriteToText(f"{tmp_path}/out", compression_type="gzip"))
        assert gzip.decompress((tmp_path / "out-00000-of-00001").read_bytes()) == b"a\n"

    def test_json(self, tmp_path):
        when = datetime(2013, 1, 1, tzinfo=UTC)
        run([*PEOPLE, 7, {"at": Timestamp(1.5), "on": when, "in": {1}}], beam.io.WriteToJson(f"{tmp_path}/out"))
        lines = (tmp_path / "out-00000-of-00001.json").read_text().splitlines()
        assert [json.loads(line) for line in lines[:5]] == [
            {"name": "ann", "age": 31}, {"name": "bob", "age": 42}, {"name": "cid", "age": 53},
            {"name": "dee", "age": 64}, 7,
        ]  # fmt: skip
        assert json.loads(lines[5]) == {"at": "1970-01-01T00:00:01.500000Z", "on": when.isoformat(), "in": [1]}

    def test_csv(self, tmp_path):
        run(PEOPLE, beam.io.WriteToCsv(f"{tmp_path}/out"))
        assert (tmp_path / "out-00000-of-00001.csv").read_text() == "name,age\nann,31\nbob,42\ncid,53\ndee,64\n"

    def test_csv_with_columns(self, tmp_path):
        run(PEOPLE[:1], beam.io.WriteToCsv(f"{tmp_path}/out", columns=["age", "name"], sep=";", header=False))
        assert (tmp_path / "out-00000-of-00001.csv").read_text() == "31;ann\n"

    def test_parquet(self, tmp_path):
        schema = pa.schema({"name": pa.string(), "age": pa.int32()})
        run(PEOPLE, beam.io.WriteToParquet(f"{tmp_path}/out", schema, codec="zstd", file_name_suffix=".parquet"))
        table = pq.read_table(tmp_path / "out-00000-of-00001.parquet")
        assert table.schema == schema
        assert table.to_pylist() == [
            {"name": name, "age": age} for name, age in (("ann", 31), ("bob", 42), ("cid", 53), ("dee", 64))
        ]

    def test_parquet_without_a_schema(self, tmp_path):
        run(PEOPLE, beam.io.WriteToParquet(f"{tmp_path}/out"))
        assert pq.read_table(tmp_path / "out-00000-of-00001").schema.field("age").type == pa.int64()

    @pytest.mark.parametrize(
        ("make", "element", "message"),
        [
            (
                lambda: beam.io.WriteToJson("out"),
                Unnamed(),
                "is no JSON: it is .*; map it to text, a number, a list or a dict",
            ),
            (
                lambda: beam.io.WriteToJson("out"),
                {"a": [Decimal(1)]},
                r"is no JSON: \['a'\]\[0\] is Decimal\('1'\), which JSON",
            ),
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


class TestArgumentsInTheOrderOfBeams:
    """What Beam's have and these have not is refused by name, so that no argument passes for another."""

    def test_lines_read(self, tmp_path):
        (tmp_path / "a.txt").write_text("head\na\n")
        read = beam.io.ReadFromText(f"{tmp_path}/a.txt", 0, "auto", True, StrUtf8Coder(), True, 1, None, None)
        assert values(lambda p: p | read) == ["a"]
        with pytest.raises(FileNotFoundError, match="no file matches"):
            beam.io.ReadFromText(f"{tmp_path}/b.txt", 0, "auto", True, None, True)
        assert values(lambda p: p | beam.io.ReadFromText(f"{tmp_path}/b.txt", 0, "auto", True, None, False)) == []

    def test_rows_read(self, tmp_path):
        pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a")
        assert values(lambda p: p | beam.io.ReadFromParquet(f"{tmp_path}/a", 0, True, ["b"], True)) == [beam.Row(b=2)]
        assert values(lambda p: p | beam.io.ReadFromParquet(f"{tmp_path}/no", 0, False)) == []

    def test_lines_written(self, tmp_path):
        run(["a"], beam.io.WriteToText(f"{tmp_path}/out", ".txt", True, 0, None, None, "gzip", "head", "foot"))
        assert gzip.decompress((tmp_path / "out-00000-of-00001.txt").read_bytes()) == b"head\na\nfoot\n"

    def test_rows_written(self, tmp_path):
        schema = pa.schema({"at": pa.timestamp("us"), "list": pa.list_(pa.int64())})
        beams = (
            schema,
            64 * 1024 * 1024,
            1000,
            "zstd",
            True,
            False,
            ".parquet",
            0,
            None,
            "application/x-parquet",
            None,
        )
        run([{"at": datetime(2013, 1, 1), "list": [1]}], beam.io.WriteToParquet(f"{tmp_path}/out", *beams))
        file = pq.ParquetFile(tmp_path / "out-00000-of-00001.parquet")
        assert [column.physical_type for column in map(file.schema.column, range(2))] == ["INT96", "INT64"]
        assert file.schema.column(1).path == "list.list.item"
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"

    def test_the_names_of_lists_as_the_specification_has_them(self, tmp_path):
        run([{"list": [1]}], beam.io.WriteToParquet(f"{tmp_path}/out", use_compliant_nested_type=True))
        assert pq.ParquetFile(tmp_path / "out-00000-of-00001").schema.column(0).path == "list.list.element"

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            # As they were once called here, by position.
            (
                lambda: beam.io.ReadFromText("x", 0, "auto", True, 1),
                "coder is 1; give an instance of a Coder",
            ),
            (
                lambda: beam.io.ReadFromParquet("x", 0, ["a"]),
                r"validate is True or False, got \['a'\]; .* order of Beam",
            ),
            (
                lambda: beam.io.WriteToParquet("x", None, "zstd"),
                "WriteToParquet has no row_group_buffer_size, got 'zstd'",
            ),
            # As Beam's are called.
            (lambda: beam.io.ReadFromText("x", coder=BytesCoder), "give an instance of a Coder"),
            (
                lambda: beam.io.ReadFromText("x", delimiter=b"|", validate=False, max_delay=1),
                "with a delimiter takes no max_delay",
            ),
            (
                lambda: beam.io.ReadFromText("x", delimiter=b"|", validate=False, encoding="latin-1"),
                "with a delimiter takes no encoding",
            ),
            (lambda: beam.io.ReadFromText("x", escapechar=b"!"), "has no escapechar, got b'!'"),
            (
                lambda: beam.io.ReadFromText("x", skip_header_lines="1"),
                "skip_header_lines is a number of lines, got '1'",
            ),
            (lambda: beam.io.WriteToText("x", coder=BytesCoder), "give an instance of a Coder"),
            (lambda: beam.io.WriteToParquet("x", row_group_buffer_size=1024), "got 1024 for it; give row_group_size"),
            (
                lambda: beam.io.WriteToParquet("x", record_batch_size="1"),
                "record_batch_size is a number of records, got '1'",
            ),
            (lambda: beam.io.WriteToParquet("x", shard_name_template="-SS"), "has no shard_name_template, got '-SS'"),
            (lambda: beam.io.WriteToParquet("x", mime_type="text/plain"), "has no mime_type, got 'text/plain'"),
            (lambda: beam.io.WriteToParquet("x", triggering_frequency=5), "has no triggering_frequency, got 5"),
            (lambda: beam.io.WriteToText("x", max_records_per_shard=5), "argument 'max_records_per_shard'"),
        ],
    )
    def test_what_is_not_here(self, make, message):
        with pytest.raises(TypeError, match=message):
            make()

    @pytest.mark.parametrize("name", ["ReadFromText", "WriteToText", "ReadFromParquet", "WriteToParquet"])
    def test_the_order_is_beams(self, name):
        beams = importlib.import_module("apache_beam.io.textio" if "Text" in name else "apache_beam.io.parquetio")
        theirs = inspect.signature(getattr(beams, name).__init__).parameters.values()
        ours = inspect.signature(getattr(beam.io, name).__init__).parameters.values()
        assert self.positional(ours) == self.positional(theirs)

    def positional(self, parameters):
        return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


class TestExactlyOnce:
    def sink(self, folder):
        return EpochFileSink(f"{folder}/out", ".txt", TextWriter(b"\n", None, None, "auto"))

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
        sink, other = (
            self.sink(tmp_path),
            EpochFileSink(f"{tmp_path}/out-two", "", TextWriter(b"\n", None, None, "auto")),
        )
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
        assert names(out) == [f"part-{shard:05d}-of-00010" for shard in range(10)]
        assert hidden(out) == []

    def test_many_tasks_write_many_files(self, tmp_path):
        run(range(100), beam.io.WriteToText(f"{tmp_path}/out"), parallelism=4, scheduler=RandomScheduler(3))
        lines = [int(line) for name in names(tmp_path) for line in (tmp_path / name).read_text().split()]
        assert sorted(lines) == list(range(100))
        assert any("-00003-of-" in name for name in names(tmp_path))


def test_a_relative_place_stays_where_the_program_was_when_it_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers are where Spark was started, which need not be where the program has gone since."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create(["a"]) | beam.io.WriteToText("letters")
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert [path.name for path in tmp_path.glob("letters*")] == ["letters-00000-of-00001"]
