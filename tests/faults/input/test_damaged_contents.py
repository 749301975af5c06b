"""Each codec, damaged at each place, read by each reader: an error that names the file, or every record; never some."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

import headrace as beam
from headrace.io import fileio
from headrace.lowlevel import CallSink
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.sdk.pipeline.runner_choice import Runner
from tests.faults.tally import Tally
from tests.unit.sdk.io.sourcefiles import write

pytestmark = pytest.mark.faults

Damage = Callable[[bytes, bytes], bytes]
"""Makes a damaged file of its two streams."""
RECORDS = 3000
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def flipped(data: bytes, at: int, length: int = 4) -> bytes:
    """The data with some bytes turned over."""
    at %= len(data)
    return data[:at] + bytes(255 - byte for byte in data[at : at + length]) + data[at + length :]


DAMAGES: dict[str, Damage] = {
    "header": lambda one, two: flipped(one, 0) + two,
    "middle": lambda one, two: flipped(one, len(one) // 2) + two,
    "sum": lambda one, two: flipped(one, -8 if one[:2] == b"\x1f\x8b" else -4) + two,
    "second header": lambda one, two: one + flipped(two, 0),
    "second middle": lambda one, two: one + flipped(two, len(two) // 2),
    "second sum": lambda one, two: one + flipped(two, -8 if one[:2] == b"\x1f\x8b" else -4),
    "text behind": lambda one, two: one + two + b"garbage",
    "text between": lambda one, two: one + b"garbage" + two,
    "byte behind": lambda one, two: one + two + b"\1",
    "half of the first": lambda one, two: one[: len(one) // 2],
    "first without its end": lambda one, two: one[:-1] + two,
    "a byte of the second": lambda one, two: one + two[:1],
    "header of the second": lambda one, two: one + two[:6],
    "half of the second": lambda one, two: one + two[: len(two) // 2],
    "second without its end": lambda one, two: one + two[:-1],
    "nothing": lambda one, two: b"",
}
ODD: dict[str, Damage] = {
    "two streams": lambda one, two: one + two,
    "zeros behind": lambda one, two: one + two + bytes(8),
    "zeros between": lambda one, two: one + bytes(8) + two,
    "as many zeros as are read at once": lambda one, two: one + bytes(-len(one) % 8192 + 8192 + 4) + two,
    "three zeros": lambda one, two: one + two + bytes(3),
}
"""Whether a file is damaged depends on its codec; of what no reader sees something may not be left out either."""
PADDED = {"gz": {"zeros behind", "zeros between", "as many zeros as are read at once", "three zeros"}} | {
    "xz": {"zeros behind", "zeros between", "as many zeros as are read at once"}
}
"""Zeros between and behind streams that the format has."""


def numbers(first: int, step: str) -> bytes:
    """Records of a format; incompressible enough that a stream has a middle."""
    return b"".join(step.replace("#", str(number * 7919 % 10**6)).encode() for number in range(first, first + RECORDS))


def texts(**options: object) -> Callable[[str], beam.PTransform]:
    return lambda pattern: beam.io.ReadFromText(pattern, **options)


def read_all(pattern: str) -> beam.PTransform:
    return _Chained(beam.Create([pattern]), beam.io.ReadAllFromText())


def by_function(pattern: str) -> beam.PTransform:
    read = beam.FlatMap(lambda file: file.read_utf8().splitlines())
    return _Chained(fileio.MatchFiles(pattern), fileio.ReadMatches(), read)


class _Chained(beam.PTransform):
    def __init__(self, *steps: beam.PTransform) -> None:
        super().__init__()
        self._steps = steps

    def expand(self, inputs: beam.pvalue.PBegin) -> beam.PCollection:
        for step in self._steps:
            inputs = inputs | step
        return inputs


READERS: dict[str, tuple[Callable[[str], beam.PTransform], str, str]] = {
    "text": (texts(), "", "#\n"),
    "text with a delimiter": (texts(delimiter=b"\n"), "", "#\n"),
    "text as it appears": (texts(continuous=True, until=len), "", "#\n"),
    "JSON": (beam.io.ReadFromJson, "", '{"a": #}\n'),
    "JSON as it appears": (lambda path: beam.io.ReadFromJson(path, continuous=True, until=len), "", '{"a": #}\n'),
    "CSV": (lambda path: beam.io.ReadFromCsv(path, names=["a"], dtype={"a": "int64"}), "", "#\n"),
    "CSV of long records": (
        lambda path: beam.io.ReadFromCsv(path, names=["a"], dtype={"a": "int64"}, splittable=False),
        "",
        "#\n",
    ),
    "all text": (read_all, "", "#\n"),
    "fileio": (by_function, "", "#\n"),
}
"""Reader, beginning of the file, and form of a record."""


def count(path: str, read: Callable[[str], beam.PTransform], runner: Runner | None = None) -> int:
    """How many records come."""
    found: list[object] = []
    with beam.Pipeline(runner or LocalRunner()) as pipeline:
        pipeline | "read it" >> read(path) | beam.io.Write(CallSink(lambda _, rows: found.extend(rows)))
    return len(found)


def check(path: str, reader: str, is_damaged: bool, runner: Runner | None = None) -> None:
    if not is_damaged:
        assert count(path, READERS[reader][0], runner) == 2 * RECORDS
        return
    with pytest.raises(Exception, match=path):
        count(path, READERS[reader][0], runner)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", CODECS)
def test_streams_are_read_whole_or_refused(
    codec: str, reader: str, tmp_path: Path, tally: Callable[[int], Tally]
) -> None:
    run, (_, begin, form) = tally(12), READERS[reader]
    one, two = (CODECS[codec](begin.encode() + numbers(first, form)) for first in (0, RECORDS))
    for name, damage in (DAMAGES | ODD).items():
        run.plan()
        path = write(tmp_path / name / f"a.{codec}", damage(one, two))
        check(path, reader, name in DAMAGES or (name != "two streams" and name not in PADDED.get(codec, ())))
        run.fire()


@pytest.mark.spark
def test_streams_are_read_whole_or_refused_on_spark(
    spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]
) -> None:
    run = tally(12)
    for codec, reader in (("bz2", "JSON"), ("xz", "all text")):
        one, two = (CODECS[codec](numbers(first, READERS[reader][2])) for first in (0, RECORDS))
        for name, damage in {"second header": DAMAGES["second header"], "two streams": ODD["two streams"]}.items():
            run.plan()
            path = write(tmp_path / name / f"a.{codec}", damage(one, two))
            check(path, reader, name in DAMAGES, SparkRunner(spark, intervals=2))
            run.fire()


def avro(codec: str) -> tuple[bytes, bytes]:
    """A file of several blocks in two halves, the second of which begins with a block."""
    schema = fastavro.parse_schema({"type": "record", "name": "A", "fields": [{"name": "a", "type": "long"}]})
    file = io.BytesIO()
    fastavro.writer(file, schema, ({"a": n * 7919} for n in range(2 * RECORDS)), codec, sync_interval=4000)
    data = file.getvalue()
    file.seek(0)
    offsets = [block.offset for block in fastavro.block_reader(file)]
    assert len(offsets) > 2
    return data[: offsets[len(offsets) // 2]], data[offsets[len(offsets) // 2] :]


AVRO: Mapping[str, set[str]] = {"null": {"middle", "second middle"}, "deflate": {"middle"}, "bzip2": set(), "xz": set()}
"""Codecs, and damages within a value that such a file cannot show, as it has no sum of its bytes."""


@pytest.mark.parametrize("codec", AVRO)
@pytest.mark.parametrize("everything", [False, True], ids=["read", "read all"])
def test_blocks_of_avro(codec: str, everything: bool, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(12)
    one, two = avro(codec)

    def read(path: str) -> beam.PTransform:
        if everything:
            return _Chained(beam.Create([path]), beam.io.ReadAllFromAvro())
        return beam.io.ReadFromAvro(path)

    # The first bytes of a header are the same in all files, and nobody needs them.
    damages = {name: damage for name, damage in DAMAGES.items() if name not in AVRO[codec]}
    for name, damage in (damages | ODD).items():
        run.plan()
        path = write(tmp_path / name / "a.avro", damage(one, two))
        if name in ("two streams", "header"):
            assert count(path, read) == 2 * RECORDS
        else:
            with pytest.raises(Exception, match=path):
                count(path, read)
        run.fire()


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("reader", ["rows", "all rows", "all tables"])
def test_pages_of_parquet(codec: str, reader: str, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """Pages have sums here; without them damage within an uncompressed page cannot be seen by any reader."""
    run = tally(12)
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [number * 7919 for number in range(2 * RECORDS)]})
    pq.write_table(
        table, sink, RECORDS, compression=codec, use_dictionary=False, write_page_checksum=True, data_page_size=2000
    )
    data = sink.getvalue().to_pybytes()
    second = pq.read_metadata(io.BytesIO(data)).row_group(1).column(0).data_page_offset
    one, two = data[:second], data[second:]
    steps: dict[str, Callable[[str], beam.PTransform]] = {
        "rows": beam.io.ReadFromParquet,
        "all rows": lambda path: _Chained(beam.Create([path]), beam.io.ReadAllFromParquet()),
        "all tables": lambda path: _Chained(
            beam.Create([path]), beam.io.parquetio.ReadAllFromParquetBatched(), beam.FlatMap(lambda t: t.to_pylist())
        ),
    }
    assert count(write(tmp_path / "whole" / "a.parquet", data), steps[reader]) == 2 * RECORDS
    # The magic at the beginning is not looked at; the footer says where pages are.
    damages = {name: damage for name, damage in DAMAGES.items() if name not in ("header", "sum")}
    for name, damage in damages.items():
        run.plan()
        path = write(tmp_path / name / "a.parquet", damage(one, two))
        with pytest.raises(Exception, match=path):
            count(path, steps[reader])
        run.fire()
