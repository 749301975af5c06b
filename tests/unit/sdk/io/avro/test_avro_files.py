"""Avro files as a source and a sink, and both ways between them and Beam's own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import apache_beam
import fastavro
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

import headrace as beam
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.sdk.io.avro import avro_encoding
from headrace.sdk.io.avro.avro_encoding import WriterSchema, schema_of_type
from headrace.sdk.io.avro.avro_files import BlockRange
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.utils.timestamp import Timestamp
from tests.unit.collected import collect, values
from tests.unit.sdk.io.sourcefiles import Crash, CrashAt, OneByOne, all_rows, planned

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "product", "type": "string"},
        {"name": "amount", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)
ORDERS = [{"product": "tea", "amount": 3, "at": NOON}, {"product": "coffee", "amount": None, "at": NOON}]
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}


def avro(path: Path, schema: object, records: Sequence[object], **options: object) -> str:
    """A file that fastavro writes."""
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, **options)
    return str(path)


def numbers(path: Path, count: int, records_in_block: int = 10) -> str:
    """A file of numbers, in blocks of so many records; the numbers below 64 have one byte, the others two."""
    return avro(path, NUMBER, [{"n": number} for number in range(count)], sync_interval=records_in_block)


def read(folder: Path) -> list[object]:
    """The records of all files of a folder, in the order of names, as fastavro reads them."""
    found: list[object] = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found += fastavro.reader(file)
    return found


def write(elements: Sequence[object], transform: beam.PTransform, **runner: object) -> None:
    with beam.Pipeline(LocalRunner(**runner)) as pipeline:
        pipeline | beam.Create(elements) | "Write" >> transform


class TestReading:
    def test_dicts_or_rows(self, tmp_path):
        path = avro(tmp_path / "a.avro", ORDER, ORDERS)
        assert values(lambda p: p | beam.io.ReadFromAvro(path)) == ORDERS
        rows = values(lambda p: p | beam.io.ReadFromAvro(path, as_rows=True))
        assert rows == [beam.Row(product="tea", amount=3, at=NOON), beam.Row(product="coffee", amount=None, at=NOON)]

    def test_values_that_are_no_records(self, tmp_path):
        path = avro(tmp_path / "a.avro", {"type": "array", "items": "string"}, [["a", "b"], []])
        assert values(lambda p: p | beam.io.ReadFromAvro(path)) == [["a", "b"], []]
        assert values(lambda p: p | beam.io.ReadFromAvro(path, as_rows=True))[0] == beam.Row(record=["a", "b"])

    @pytest.mark.parametrize("limit", [1, 7, 100, 250, 5000])
    @pytest.mark.parametrize("splits", [1, 3])
    @pytest.mark.parametrize("codec", ["null", "deflate"])
    def test_cut_between_blocks(self, tmp_path, limit, splits, codec):
        records = [{"n": number} for number in range(1000)]
        path = avro(tmp_path / "a.avro", NUMBER, records, codec=codec, sync_interval=30)
        assert [value for value, _ in all_rows(beam.io.ReadFromAvro(path), limit, splits)] == records

    def test_a_large_file_is_cut_for_tasks(self, tmp_path):
        path = numbers(tmp_path / "a.avro", 1000)
        [(splits, _), *_] = planned(beam.io.ReadFromAvro(path), limit=900, splits=4)
        assert min(map(len, splits)) > 100
        assert len(splits) == 4

    def test_a_marker_that_begins_before_the_range_is_the_end_of_anothers_block(self, tmp_path, monkeypatch):
        path = numbers(tmp_path / "a.avro", 60)
        with open(path, "rb") as file:
            blocks = [(block.offset, block.size, block.num_records) for block in fastavro.block_reader(file)]
        assert len(blocks) > 2
        source = beam.io.ReadFromAvro(path).file_format()
        [file] = beam.io.filesystems.FileSystems.match([path])[0].metadata_list
        matched = MatchedFile(path, file.size_in_bytes, 0)
        # What is searched at once ends within markers, too.
        monkeypatch.setattr(avro_encoding, "_CHUNK", 23)
        for start in range(blocks[0][0], file.size_in_bytes):
            piece = BlockRange(matched, start, file.size_in_bytes, False, None, source.times.default(matched))
            expected = sum(records for offset, _, records in blocks if offset >= start)
            assert sum(len(batch) for batch in piece.read()) == expected, start

    def test_a_piece_is_not_smaller_than_a_block(self, tmp_path):
        path = numbers(tmp_path / "a.avro", 1000, records_in_block=200)
        with open(path, "rb") as file:
            blocks = len([*fastavro.block_reader(file)])
        assert 2 * blocks > len([*planned(beam.io.ReadFromAvro(path), limit=1)]) >= blocks > 5

    def test_several_files_cut_into_epochs(self, tmp_path):
        for part in range(3):
            numbers(tmp_path / f"{part}.avro", 500)
        found = values(lambda p: p | beam.io.ReadFromAvro(f"{tmp_path}/*.avro"), scheduler=OneByOne())
        assert [record["n"] for record in found] == [*range(500)] * 3

    def test_event_times(self, tmp_path):
        path = avro(tmp_path / "a.avro", ORDER, ORDERS)
        at = int(NOON.timestamp()) * 1_000_000
        rows = collect(lambda p: p | beam.io.ReadFromAvro(path, timestamp="at", max_delay=1))
        assert [micros for _, micros in rows] == [at, at]

    def test_patterns_as_elements(self, tmp_path):
        one, other = numbers(tmp_path / "1.avro", 30), numbers(tmp_path / "2.avro", 3)
        patterns = [f"{tmp_path}/*.avro"]
        found = patterns | beam.io.ReadAllFromAvro()
        assert sorted(record["n"] for record in found) == sorted([*range(30), *range(3)])
        pairs = patterns | beam.io.ReadAllFromAvro(with_filename=True)
        assert sorted(path for path, _ in pairs) == [one] * 30 + [other] * 3

    def test_a_file_without_records(self, tmp_path):
        path = avro(tmp_path / "a.avro", NUMBER, [])
        assert values(lambda p: p | beam.io.ReadFromAvro(path)) == []


class TestUnreadable:
    def test_what_is_not_avro(self, tmp_path):
        (tmp_path / "a.avro").write_bytes(b"product,amount\n")
        with pytest.raises(ValueError, match=r"a\.avro is no whole Avro file \(cannot read header.*; write it again"):
            values(lambda p: p | beam.io.ReadFromAvro(f"{tmp_path}/a.avro"))

    def test_a_codec_whose_package_is_not_here(self, tmp_path):
        path = Path(avro(tmp_path / "a.avro", NUMBER, [{"n": 1}], codec="bzip2"))
        path.write_bytes(path.read_bytes().replace(b"\x0abzip2", b"\x0csnappy"))
        with pytest.raises(ImportError, match=r"a\.avro cannot be read here: snappy.*install.*; workers need it too"):
            values(lambda p: p | beam.io.ReadFromAvro(path))

    def test_a_file_that_was_cut_off_anywhere_within_a_block(self, tmp_path):
        path = Path(avro(tmp_path / "a.avro", NUMBER, [{"n": number} for number in range(300)], sync_interval=300))
        whole = path.read_bytes()
        with path.open("rb") as file:
            ends = [block.offset + block.size for block in fastavro.block_reader(file)]
        assert len(ends) > 1
        for size in range(ends[0] + 1, len(whole)):
            path.write_bytes(whole[:size])
            if size in ends:
                continue
            with pytest.raises(ValueError, match=r"a\.avro, cannot be read from byte \d+ on: .*; the file was cut off"):
                all_rows(beam.io.ReadFromAvro(path))

    def test_a_file_that_has_become_shorter_since_it_was_cut(self, tmp_path):
        path = Path(numbers(tmp_path / "a.avro", 300))
        injector = beam.io.ReadFromAvro(path).injector()
        [split] = injector.plan(injector.start(), 1000, 1).splits
        with path.open("rb") as file:
            first = next(iter(fastavro.block_reader(file)))
        path.write_bytes(path.read_bytes()[: first.offset + first.size])
        with pytest.raises(ValueError, match=r"cannot be read from byte \d+ on: the file ends within a block"):
            list(split.read())

    def test_a_damaged_block_names_its_offset_and_the_step(self, tmp_path):
        path = Path(avro(tmp_path / "a.avro", NUMBER, [{"n": 1}], codec="deflate"))
        data = bytearray(path.read_bytes())
        with path.open("rb") as file:
            [block] = fastavro.block_reader(file)
        data[block.offset + 2] ^= 255
        path.write_bytes(data)
        with pytest.raises(StepError, match=rf"'Read' raised(.|\n)*cannot be read from byte {block.offset} on"):
            values(lambda p: p | "Read" >> beam.io.ReadFromAvro(path))

    def test_a_record_without_event_time(self, tmp_path):
        schema = {"type": "record", "name": "A", "fields": [{"name": "at", "type": ["null", "long"]}]}
        path = avro(tmp_path / "a.avro", schema, [{"at": 1}, {"at": None}])
        with pytest.raises(StepError, match=r"a\.avro, record 1 of the block at byte \d+: timestamp of \{'at': None\}"):
            values(lambda p: p | beam.io.ReadFromAvro(path, timestamp="at"))

    def test_no_pattern(self):
        with pytest.raises(TypeError, match="takes the path of a file, or a pattern, got None"):
            beam.io.ReadFromAvro()


class Order(NamedTuple):
    product: str
    amount: int | None
    at: datetime


def _same_name():
    class Order(NamedTuple):
        product: int

    return Order


@dataclass
class Basket:
    kind: ClassVar[str] = "basket"
    orders: list[Order]
    prices: dict[str, float]
    first: Order
    day: date


BASKET = {"prices": {"tea": 1.5}, "first": ORDERS[0], "day": NOON.date()}


class TestWriting:
    def test_what_has_named_fields_within_what_has_named_fields(self, tmp_path):
        order = Order("tea", 3, Timestamp.of(NOON))
        basket = Basket([order], {"tea": 1.5}, order, NOON.date())
        with beam.Pipeline(LocalRunner()) as pipeline:
            typed = pipeline | beam.Create([basket]) | beam.Map(_same).with_output_types(Basket)
            typed | beam.io.WriteToAvro(f"{tmp_path}/out")
            rows = pipeline | "Rows" >> beam.Create([beam.Row(orders=(beam.Row(**ORDERS[0]),), **BASKET)])
            rows | "Write" >> beam.io.WriteToAvro(f"{tmp_path}/rows", schema_of_type(Basket))
        assert read(tmp_path) == [{"orders": [ORDERS[0]], **BASKET}] * 2

    @pytest.mark.parametrize(
        ("record", "unknown"),
        [
            ({}, None),
            ({"name": "a", "parts": [{"name": "b"}, {"name": "c", "parts": []}]}, None),
            ({"parts": [{"parts": [{"nmae": "b"}]}]}, "nmae"),
            ({"by": {"x": {"name": "b"}}, "either": {"n": 1}}, None),
            ({"by": {"x": {"naem": "b"}}}, "naem"),
            ({"either": {"n": 1, "m": 2}}, None),
            ({"either": {"n": 1, "o": 2}}, "o"),
        ],
    )
    def test_fields_that_a_schema_does_not_have_within_it(self, record, unknown):
        n, m = {"name": "n", "type": "long"}, {"name": "m", "type": "long"}
        either = [{"type": "record", "name": "N", "fields": [n]}, {"type": "record", "name": "M", "fields": [n, m]}]
        part = {
            "type": "record",
            "name": "Part",
            "fields": [
                {"name": "name", "type": ["null", "string"]},
                {"name": "parts", "type": ["null", {"type": "array", "items": "Part"}]},
                {"name": "by", "type": ["null", {"type": "map", "values": "Part"}]},
                {"name": "either", "type": ["null", *either]},
            ],
        }
        if unknown is None:
            assert WriterSchema(part).fitting(record) == record
        else:
            with pytest.raises(ValueError, match=rf"the schema has no field '{unknown}', whose value would be lost"):
                WriterSchema(part).fitting(record)

    def test_times_without_a_zone_are_in_utc_wherever_the_task_runs(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        try:
            write([{**ORDERS[0], "at": NOON.replace(tzinfo=None)}], beam.io.WriteToAvro(f"{tmp_path}/out", ORDER))
        finally:
            monkeypatch.undo()
            time.tzset()
        assert read(tmp_path) == ORDERS[:1]

    @pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
    def test_what_has_named_fields(self, tmp_path, codec):
        elements = [ORDERS[0], beam.Row(**ORDERS[0]), Order(**ORDERS[0]), {**ORDERS[0], "at": Timestamp.of(NOON)}]
        write(elements, beam.io.WriteToAvro(f"{tmp_path}/out", ORDER, codec, ".avro"))
        assert read(tmp_path) == [ORDERS[0]] * 4
        [path] = tmp_path.iterdir()
        with path.open("rb") as file:
            assert fastavro.reader(file).codec == codec

    def test_the_schema_of_the_type(self, tmp_path):
        orders = [Order("tea", 3, NOON), Order("coffee", None, NOON)]
        with beam.Pipeline(LocalRunner()) as pipeline:
            typed = pipeline | beam.Create(orders) | beam.Map(_same).with_output_types(Order)
            typed | beam.io.WriteToAvro(f"{tmp_path}/orders/")
        assert read(tmp_path / "orders") == ORDERS

    def test_files_are_named_as_those_of_other_formats_and_hold_each_record_once(self, tmp_path):
        records = [{"n": number} for number in range(5)]
        write(records, beam.io.WriteToAvro(f"{tmp_path}/out", NUMBER), scheduler=OneByOne())
        assert sorted(os.listdir(tmp_path)) == [f"out-0000{number}-of-00005" for number in range(5)]
        assert read(tmp_path) == records

    @pytest.mark.parametrize("step", ["plan", "run level 0 task 0", "commit", "committed", "deliver", "delivered"])
    def test_killed_and_started_again(self, tmp_path, step):
        numbers(tmp_path / "in.avro", 400)

        def life(scheduler):
            options = PipelineOptions([f"--checkpoint={tmp_path}/state"])
            with beam.Pipeline(LocalRunner(scheduler=scheduler), options) as pipeline:
                records = pipeline | beam.io.ReadFromAvro(f"{tmp_path}/in.avro")
                records | beam.io.WriteToAvro(f"{tmp_path}/out/n", NUMBER)

        with pytest.raises(Crash):
            life(CrashAt(step))
        life(OneByOne())
        assert [record["n"] for record in read(tmp_path / "out")] == [*range(400)]

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            (
                {**ORDERS[0], "amount": "x"},
                r"Order\.amount is <x> of type <class 'str'> expected null, .*long",
            ),
            ({**ORDERS[0], "amount": 1.5}, r"Order\.amount is <1\.5> of type <class 'float'>"),
            ({"amount": 1, "at": NOON}, r"Field\(Order\.product\) is None expected string"),
            ({**ORDERS[0], "prize": 3}, r"the schema has no field 'prize', whose value would be lost"),
            ({**ORDERS[0], "product": "\ud800"}, r"'utf-8' codec can't encode"),
        ],
    )
    def test_a_record_that_does_not_fit_names_step_value_field_and_remedy(self, tmp_path, record, message):
        expected = rf"(?s)'Write' raised.*element \{{.*does not fit the schema: {message}.*; correct the elements"
        with pytest.raises(StepError, match=expected):
            write([ORDERS[0], record], beam.io.WriteToAvro(f"{tmp_path}/out/", ORDER))
        assert not [path for path in tmp_path.glob("out/*") if path.is_file()]

    @pytest.mark.parametrize(
        ("kind", "fits", "other", "message"),
        [
            ("float", 1.5, 1e300, "1e.300 would become infinite"),
            ("double", 2**53, 2**53 + 1, "9007199254740993 would be rounded"),
            (["null", {"type": "array", "items": "float"}], [0.5], [0.5, 1e99], "1e.99 would become infinite"),
            ({"type": "map", "values": "float"}, {"a": 0.5}, {"a": 1e99}, "1e.99 would become infinite"),
            (
                {"type": "long", "logicalType": "timestamp-millis"},
                NOON,
                NOON.replace(microsecond=1),
                "a part of .* would be lost",
            ),
            (
                {"type": "int", "logicalType": "time-millis"},
                NOON.time(),
                NOON.time().replace(microsecond=1),
                "a part of .* would be lost",
            ),
            ({"type": "int", "logicalType": "date"}, NOON.date(), NOON, "a part of .* would be lost"),
            (LOCAL, NOON.replace(tzinfo=None), NOON, "the time zone of .* would be lost; write .replace"),
            (["null", LOCAL], None, NOON, "the time zone of .* would be lost"),
            ([LOCAL, ORDER["fields"][2]["type"]], NOON.replace(tzinfo=None), NOON, "the time zone of .* would be lost"),
            ([LOCAL, DECIMAL], NOON.replace(tzinfo=None), NOON, "the time zone of .* would be lost"),
            ({"type": "array", "items": LOCAL}, [NOON.replace(tzinfo=None)], [NOON], "the time zone of .* be lost"),
            (
                DECIMAL,
                Decimal("-999.99"),
                Decimal(1000),
                ".* needs 6 digits with 2 .*, and its type has 5",
            ),
            (["null", DECIMAL], Decimal("0.00"), Decimal("0.001"), ".* has 3 digits behind .* has 2; round it"),
            (DECIMAL, Decimal("1E+2"), Decimal("NaN"), r"Decimal\('NaN'\) is no number"),
        ],
    )
    def test_no_value_is_cut_to_fit(self, tmp_path, kind, fits, other, message):
        schema = {"type": "record", "name": "Row", "fields": [{"name": "it", "type": kind}]}
        write([{"it": fits}], beam.io.WriteToAvro(f"{tmp_path}/out/", schema))
        assert read(tmp_path / "out") == [{"it": fits}]
        with pytest.raises(StepError, match=f"(?s)does not fit the schema: {message}.*; correct the elements"):
            write([{"it": other}], beam.io.WriteToAvro(f"{tmp_path}/more/", schema))

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ({"schema": 5}, TypeError, r"schema is 5; give a dict"),
            ({"schema": '{"type": "record"}'}, TypeError, r"give a dict as json.load makes it"),
            ({"schema": {"type": "recrd"}}, ValueError, r"is no schema of Avro \(UnknownType"),
            ({"schema": ORDER, "codec": "rar"}, ValueError, r"codec 'rar' is not available \(unrecognized"),
            ({"schema": ORDER, "codec": "snappy"}, ValueError, r"install one of.*; use 'deflate' or 'null'"),
            ({"schema": ORDER, "shard_name_template": ""}, TypeError, "has no shard_name_template"),
            ({}, ValueError, r"WriteToAvro has no schema, and elements of type int do not give one; give schema="),
        ],
    )
    def test_wrong_arguments(self, tmp_path, arguments, error, message):
        with pytest.raises(error, match=message):
            write([1], beam.io.WriteToAvro(f"{tmp_path}/out", **arguments))

    def test_a_field_without_a_certain_type(self, tmp_path):
        class Odd(NamedTuple):
            price: Decimal

        with pytest.raises(ValueError, match=r"field Odd\.price has the type Decimal, for which Avro has no certain"):
            schema_of_type(Odd)

    def test_two_types_with_one_name(self):
        other = make_dataclass("Other", [("order", Order), ("orders", list[_same_name()])])

        with pytest.raises(ValueError, match=r"Order'> and .*Order'> would have one name in the schema; rename one"):
            schema_of_type(other)

    def test_a_named_tuple_without_types(self):
        with pytest.raises(ValueError, match=r"field Bare\.a has no type, for which Avro has no certain type; give"):
            schema_of_type(namedtuple("Bare", "a"))

    def test_without_the_package(self, monkeypatch, tmp_path):
        monkeypatch.setitem(sys.modules, "fastavro", None)
        write, read = partial(beam.io.WriteToAvro, "out", ORDER), partial(beam.io.ReadFromAvro, "a")
        for make in (write, read, beam.io.ReadAllFromAvro):
            with pytest.raises(ImportError, match=r"pip install 'headrace\[avro\]'"):
                make()

    def test_nothing_is_imported_before_it_is_used(self):
        program = "import sys, headrace, headrace.io.avroio; sys.exit('fastavro' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def _same(element):
    return element


class TestBeam:
    def test_what_beam_writes_is_read(self, tmp_path):
        with apache_beam.Pipeline(FnApiRunner()) as pipeline:
            orders = pipeline | apache_beam.Create(ORDERS * 50)
            orders | apache_beam.io.WriteToAvro(f"{tmp_path}/out", ORDER, file_name_suffix=".avro")
        found = values(lambda p: p | beam.io.ReadFromAvro(f"{tmp_path}/out*.avro"))
        assert sorted(found, key=str) == sorted(ORDERS * 50, key=str)

    def test_beam_reads_what_is_written(self, tmp_path):
        write(ORDERS * 50, beam.io.WriteToAvro(f"{tmp_path}/out", ORDER), scheduler=OneByOne())
        with apache_beam.Pipeline(FnApiRunner()) as pipeline:
            read = pipeline | apache_beam.io.ReadFromAvro(f"{tmp_path}/out*")
            told = read | apache_beam.Map(lambda order: str(sorted(order.items())))
            told | apache_beam.io.WriteToText(f"{tmp_path}/told", shard_name_template="")
        expected = [str(sorted(order.items())) for order in ORDERS * 50]
        assert sorted((tmp_path / "told").read_text().splitlines()) == sorted(expected)


def test_records_within_records_are_rows(tmp_path):
    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    node = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "line", "type": ["null", line]},
            {"name": "lines", "type": {"type": "array", "items": "shop.Line"}},
            {"name": "by_day", "type": {"type": "map", "values": "Line"}},
            {"name": "next", "type": ["null", "Order"]},
        ],
    }
    last = {"line": None, "lines": [], "by_day": {}, "next": None}
    order = {"line": {"sku": "a"}, "lines": [{"sku": "b"}], "by_day": {"line": {"sku": "c"}}, "next": last}
    with beam.Pipeline("LocalRunner") as pipeline:
        pipeline | beam.Create([order]) | beam.io.WriteToAvro(f"{tmp_path}/orders", node)
    path = f"{tmp_path}/orders*"
    assert values(lambda p: p | beam.io.ReadFromAvro(path)) == [order]
    sku = lambda text: beam.Row(sku=text)  # noqa: E731
    inner = beam.Row(line=None, lines=[], by_day={}, next=None)
    rows = [beam.Row(line=sku("a"), lines=[sku("b")], by_day={"line": sku("c")}, next=inner)]
    assert values(lambda p: p | beam.io.ReadFromAvro(path, as_rows=True)) == rows


@pytest.mark.parametrize("everything", [False, True], ids=["read", "read all"])
def test_a_lost_byte_that_hides_itself(everything, tmp_path):
    """If a marker ends with the byte behind it, the loss of one shows in the length of the next block only."""
    fields = [{"name": "a", "type": "long"}]
    file, schema = io.BytesIO(), fastavro.parse_schema({"type": "record", "name": "A", "fields": fields})
    numbers = ({"a": number * 7919} for number in range(6000))
    fastavro.writer(file, schema, numbers, "deflate", sync_interval=4000, sync_marker=bytes(15) + b"\xd0")
    data = file.getvalue()
    file.seek(0)
    behind = [block.offset for block in fastavro.block_reader(file)][3]
    assert data[behind - 1 : behind + 1] == b"\xd0\xd0"
    path = tmp_path / "a.avro"
    path.write_bytes(data[: behind - 1] + data[behind:])
    assert sum(1 for _ in fastavro.reader(io.BytesIO(path.read_bytes()))) < 6000, "fastavro sees nothing"
    expected = rf"{path}, cannot be read from byte \d+ on: a block states -8 as the number"
    with pytest.raises(StepError, match=expected), beam.Pipeline(LocalRunner()) as pipeline:
        given = pipeline | beam.Create([str(path)])
        _ = given | beam.io.ReadAllFromAvro() if everything else pipeline | beam.io.ReadFromAvro(str(path))


def test_text_that_is_no_uuid_is_refused_where_one_is_declared(tmp_path):
    """Its file could not be read."""
    kind = {"type": "string", "logicalType": "uuid"}
    schema = {"type": "record", "name": "Id", "fields": [{"name": "id", "type": ["null", kind]}]}
    with pytest.raises(StepError, match="'abc' is no UUID, so the file could not be read; write a UUID, or the type"):
        write([{"id": "abc"}], beam.io.WriteToAvro(f"{tmp_path}/out", schema))
