"""Files that are not what they should be: each is refused by name and line, or read exactly; nothing is passed over."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.runners.local import LocalRunner, Scheduler
from headrace.runners.spark import SparkRunner
from headrace.sdk.io.text.line_ranges import LONGEST_LINE
from headrace.sdk.pipeline.runner_choice import Runner
from headrace.sdk.windows import FixedWindows
from tests.depth import faults
from tests.faults.tally import Tally
from tests.unit.sdk.io.sourcefiles import write

pytestmark = pytest.mark.faults

Rows = list[tuple[object, int]]
Read = Callable[[str], beam.PTransform]
TEXT = b"".join(b"line %d\n" % number for number in range(50_000))
JSON = b"".join(b'{"id": %d, "at": %d}\n' % (number, number) for number in range(5))
CSV = b"id,at\n0,0\n1,1\n"


class Bounded(Scheduler):
    """Gives up where a file keeps the run busy for ever."""

    def step(self, name: str, epoch: int) -> None:
        assert epoch < 50, "a hang"


def read(pattern: str, by: Read, runner: Runner | None = None) -> Rows:
    rows: Rows = []
    with beam.Pipeline(runner or LocalRunner(scheduler=Bounded())) as pipeline:
        pipeline | "read it" >> by(pattern) | beam.io.Write(CallSink(lambda _, its: rows.extend(its)))
    return rows


def text(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromText(pattern)


def timed(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromJson(pattern, timestamp="at")


def whole(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromJson(pattern, lines=False)


def csv(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromCsv(pattern, timestamp="at")


def long_csv(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromCsv(pattern, splittable=False)


def parquet(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromParquet(pattern, timestamp="at")


def without_times(pattern: str) -> beam.PTransform:
    return beam.io.ReadFromParquet(pattern, columns=["id"], timestamp="at")


GOOD: dict[Read, tuple[str, bytes, int]] = {
    text: ("0.txt", b"fine\n", 1),
    timed: ("0.json", JSON, 5),
    whole: ("0.json", b'[{"id": 1}, {"id": 2}]', 2),
    csv: ("0.csv", CSV, 2),
    long_csv: ("0.csv", CSV, 2),
}
"""A file that nothing is wrong with, and its number of records; it is read before the malformed one."""


def table(at: pa.Array) -> bytes:
    """A Parquet file in several pieces."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(len(at))), "at": at}), sink, row_group_size=1000)
    return sink.getvalue().to_pybytes()


def seconds(rows: int, last: int | None) -> pa.Array:
    return pa.array([*range(rows - 1), last], pa.timestamp("s", tz="UTC"))


PARQUET = table(seconds(5000, 4999))
BEYOND = table(seconds(1500, 10**13))


def flipped(data: bytes, begin: int, end: int) -> bytes:
    return data[:begin] + bytes(255 - byte for byte in data[begin:end]) + data[end:]


@dataclass(frozen=True)
class Bad:
    """A malformed file: its ending, what is in it, how it is read, and what the error says behind the file's name."""

    ending: str
    data: bytes
    by: Read
    says: str


ONE_JSON = json.dumps([{"id": number} for number in range(10)], indent=1).encode()
REFUSED = {
    "bad UTF-8": Bad("txt", b"fine\nf\xffne\n", text, "line 2: not UTF-8 text"),
    "UTF-16": Bad("txt", "fine\n".encode("utf-16"), text, "line 1: not UTF-8 text"),
    # Of what is cut, the line is told up to which something could be read.
    "cut gzip": Bad("gz", gzip.compress(TEXT)[:-20_000], text, r"line \d{5}: cannot be read on \(EOFError: Compressed"),
    "gzip without its end": Bad("gz", gzip.compress(TEXT)[:-4], text, r"line 50001: cannot be read on \(EOFError"),
    "gzip with a wrong sum": Bad(
        "gz", flipped(gzip.compress(TEXT), -8, -4), text, r"line 50001: cannot be read on \(BadGzipFile: CRC check"
    ),
    "gzip that is none": Bad("gz", b"fine\n", text, r"line 1: cannot be read on \(BadGzipFile: Not a gzipped file"),
    "gzip that is empty": Bad("gz", b"", text, r"line 1: cannot be read on \(EOFError: the file is empty"),
    "cut bzip2": Bad("bz2", bz2.compress(TEXT)[:-100], text, r"line \d+: cannot be read on \(EOFError"),
    "cut xz": Bad("xz", lzma.compress(TEXT)[:-100], text, r"line \d+: cannot be read on \(EOFError"),
    "cut zstd": Bad(
        "zst", pa.compress(TEXT, "zstd", asbytes=True)[:-100], text, r"line \d+: cannot be read on \(OSError"
    ),
    "time is no number": Bad("json", JSON + b'{"at": NaN}\n', timed, "line 6: timestamp of .*not finite"),
    "time is infinite": Bad("json", JSON + b'{"at": -Infinity}\n', timed, r"line 6: timestamp of Row\(at=-inf\): "),
    "time is text": Bad("json", JSON + b'{"at": "noon"}\n', timed, "line 6: timestamp of .*could not parse RFC 3339"),
    "time is true": Bad("json", JSON + b'\n{"at": true}\n', timed, "line 7: timestamp of .*True is no timestamp"),
    "time is beyond all": Bad("json", JSON + b'{"at": 1e30}\n', timed, "line 6: timestamp of .* are beyond the year"),
    "time is missing": Bad("json", JSON + b'{"id": 1}\n', timed, "line 6: timestamp of .*row has no field 'at'"),
    "JSON cut off": Bad("json", JSON + b'{"id": 5, "a', timed, "line 6: not JSON"),
    "JSON with NUL": Bad("json", JSON + b'{"at": 1, "b": "\0"}\n', timed, "line 6: not JSON"),
    "JSON too deep": Bad("json", JSON + b"[" * 100_000 + b"\n", timed, "line 6: cannot be read as JSON"),
    "JSON with a number too long": Bad("json", JSON + b"1" * 5000 + b"\n", timed, "line 6: cannot be read as JSON"),
    "whole JSON cut off": Bad("json", ONE_JSON[:-30], whole, r"line \d+: not JSON"),
    "whole JSON is empty": Bad("json", b"", whole, "line 1: not JSON"),
    "too few columns": Bad("csv", CSV + b"2\n", csv, "line 4: CSV parse error: Expected 2 columns, got 1: 2"),
    "too many columns": Bad("csv", CSV + b"2,3,4\n", csv, "line 4: CSV parse error: Expected 2 columns, got 3"),
    "another type": Bad("csv", CSV + b"x,2\n", csv, "line 4: .*conversion error to int64: invalid value 'x'"),
    "open quotation": Bad("csv", CSV + b'2,"3\n4,5\n', csv, "line 4: a quotation is not closed"),
    "quotation open for ever": Bad(
        "csv", CSV + b'2,"3\n"\n4,"5\n6\n', long_csv, "line 6: a quotation is not closed by the"
    ),
    "CSV is no text": Bad("csv", CSV + b"2,3\n\xff,4\n", csv, "line 5: .*conversion error to int64"),
    "CSV is empty": Bad("csv", b"", csv, "line 1: the columns are not there, but id, at in the first file"),
    "other columns": Bad("csv", b"at,id\n1,2\n", csv, "line 1: the columns are at, id, but id, at in the first file"),
    "duplicate header": Bad(
        "csv", b"id,id\n1,2\n", csv, "line 1: the columns are id, id, but id, at in the first file"
    ),
    "truncated Parquet": Bad("parquet", PARQUET[: len(PARQUET) // 2], parquet, r" is no whole Parquet file"),
    "empty Parquet": Bad("parquet", b"", parquet, r" is no whole Parquet file \(Parquet file size is 0 bytes\)"),
    "flipped Parquet": Bad(
        "parquet", flipped(PARQUET, len(PARQUET) // 2, len(PARQUET) // 2 + 60), parquet, r"row \d{4} on: "
    ),
    "Parquet without a time": Bad(
        "parquet", table(seconds(1500, None)), parquet, "row 1499: timestamp of .*None is no"
    ),
    "Parquet beyond all": Bad(
        "parquet", table(seconds(1500, 10**13)), without_times, "rows from 1000 on: Casting .*bounds"
    ),
    "Parquet beyond all dates": Bad(
        "parquet",
        table(seconds(1500, 10**13)),
        parquet,
        "from 1000 on: column 'at': a column .* has times .*within the years 1 to 9999",
    ),
}


def refused(name: str, folder: Path, runner: Runner | None = None) -> None:
    """The malformed file stops the run, after a good one, and nothing is delivered."""
    bad = REFUSED[name]
    if bad.by in GOOD:
        neighbour, good, _ = GOOD[bad.by]
        write(folder / neighbour, good)
    path = write(folder / f"bad.{bad.ending}", bad.data)
    delivered: Rows = []
    with pytest.raises(Exception, match=rf"(?s){path}.*{bad.says}") as caught:
        delivered = read(str(folder), bad.by, runner)
    assert not delivered
    assert path in str(caught.value).strip().splitlines()[-1], "what is wrong should be the last line"


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(12)
    run.plan()
    refused(name, tmp_path)
    run.fire()


@pytest.mark.spark
def test_what_is_refused_on_spark(spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(12)
    for name in list(dict.fromkeys(["cut gzip", "time is no number", *REFUSED]))[: faults(quick=2, full=len(REFUSED))]:
        run.plan()
        refused(name, tmp_path / name.replace(" ", "-"), SparkRunner(spark, intervals=2))
        run.fire()


@pytest.mark.parametrize("by", GOOD, ids=lambda by: by.__name__)
def test_what_lies_beside_them_is_read(by: Read, tmp_path: Path) -> None:
    name, data, records = GOOD[by]
    write(tmp_path / name, data)
    assert len(read(str(tmp_path), by)) == records


READ: dict[str, tuple[str, bytes, Read, list[object]]] = {
    "empty": ("txt", b"", text, []),
    "byte order mark": ("txt", b"\xef\xbb\xbffine\nso\n", text, ["fine", "so"]),
    "NUL": ("txt", b"a\0b\n\0\n", text, ["a\0b", "\0"]),
    "CR LF": ("txt", b"fine\r\nso\r\n", text, ["fine", "so"]),
    "a byte order mark before JSON": ("json", b'\xef\xbb\xbf{"at": 1}\n', timed, [beam.Row(at=1)]),
    "CR LF in JSON": ("json", b'{"at": 1}\r\n{"at": 2}\r\n', timed, [beam.Row(at=1), beam.Row(at=2)]),
    "blank lines": ("json", b'\n{"at": 1}\n\n \n{"at": 2}', timed, [beam.Row(at=1), beam.Row(at=2)]),
    "a byte order mark before CSV": ("csv", b"\xef\xbb\xbf" + CSV, csv, [beam.Row(id=0, at=0), beam.Row(id=1, at=1)]),
    "CR LF in CSV": ("csv", CSV.replace(b"\n", b"\r\n"), csv, [beam.Row(id=0, at=0), beam.Row(id=1, at=1)]),
    "no record but a header": ("csv", b"id,at\n", csv, []),
    "the last year that dates have": (
        "json",
        b'{"at": "9999-12-31T23:59:59.999999Z"}\n',
        timed,
        [beam.Row(at="9999-12-31T23:59:59.999999Z")],
    ),
}
"""Odd, but nothing is wrong: read exactly."""


@pytest.mark.parametrize("name", READ)
def test_what_is_only_odd(name: str, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(12)
    run.plan()
    ending, data, by, expected = READ[name]
    rows = read(write(tmp_path / f"odd.{ending}", data), by)
    run.fire()
    run.compare(expected, [value for value, _ in rows])
    assert all(time > 0 or by is text or value.at == 0 for value, time in rows)


def test_a_year_9999_makes_others_late_and_they_are_counted(tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    """A watermark that follows the records believes it: all that comes later is dropped, and counted."""
    run = tally(12)
    run.plan()
    lines = [b'{"at": "9999-12-31T23:59:59Z"}' if number == 20 else b'{"at": %d}' % number for number in range(40)]
    path = write(tmp_path / "a.json", b"".join(line.ljust(40) + b"\n" for line in lines))
    rows: Rows = []

    class Fives(Bounded):
        def bundle_size(self, epoch: int, limit: int) -> int:
            return 5

    pipeline = beam.Pipeline(LocalRunner(scheduler=Fives()))
    (
        pipeline
        | beam.io.ReadFromJson(path, timestamp="at", max_delay=3)
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(lambda row: ("all", 1))
        | "sum" >> beam.GroupByKey()
        | beam.io.Write(CallSink(lambda _, its: rows.extend(its)))
    )
    result = pipeline.run()
    run.fire()
    kept = sum(len(ones) for (_, ones), _ in rows)
    assert (kept, result.counters["sum"]["dropped_late"]) == (25, 15)
    assert result.counters["sum"]["records"] == 40


class TestNoFiles:
    def test_an_endless_line(self, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
        run = tally(12)
        run.plan()
        path = tmp_path / "a.txt"
        with path.open("wb") as file:
            file.write(b"fine\n")
            # A hole: no more than this is stored.
            file.truncate(LONGEST_LINE + (2 << 20))
        with pytest.raises(Exception, match=rf"{path}, line 2: longer than 128 MiB, so not read to its end"):
            read(str(path), text)
        run.fire()

    def test_a_pipe(self, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
        """Opening it would wait for ever."""
        run = tally(12)
        os.mkfifo(tmp_path / "pipe.txt")
        for pattern in (tmp_path / "pipe.txt", tmp_path, tmp_path / "*.txt"):
            run.plan()
            with pytest.raises(ValueError, match=rf"{tmp_path}/pipe.txt is neither a file nor a folder"):
                read(str(pattern), text)
            run.fire()

    def test_a_folder(self, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
        """Stands for the files in it; there must be some."""
        run = tally(12)
        run.plan(2)
        (tmp_path / "sub.txt").mkdir()
        with pytest.raises(FileNotFoundError, match=rf"no file is in the folder '{tmp_path}/sub.txt'; correct it"):
            read(f"{tmp_path}/sub.txt", text)
        run.fire()
        write(tmp_path / "sub.txt" / "a", "fine\n")
        run.compare([("fine", MIN_TIMESTAMP)], read(f"{tmp_path}/sub.txt", text))
        run.fire()

    def test_what_shrinks_after_it_was_cut(self, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
        run = tally(12)
        for name, data, by in (("a.txt", TEXT, text), ("a.parquet", PARQUET, parquet)):
            run.plan()
            path = Path(write(tmp_path / name, data))
            injector = by(str(path)).injector()
            (split,) = injector.plan(injector.start(), 1_000_000, 1).splits
            path.write_bytes(TEXT[:700] if by is text else table(seconds(100, 99)))
            with pytest.raises(ValueError, match=r"[Ff]iles must not change"):
                list(split.read())
            run.fire()

    def test_no_permission(self, tally: Callable[[int], Tally]) -> None:
        run = tally(12)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            for file, mode in (("a.txt", 0o644), ("b.txt", 0), ("hidden/c.txt", 0o644)):
                write(folder / file, "fine\n")
                (folder / file).chmod(mode)
            assert len(read(f"{folder}/a.txt", text)) == 1
            for pattern, wrong, said in (
                ("*.txt", "b.txt", "cannot be read: permission denied; give this user the right"),
                ("hidden", "hidden", "Permission denied"),
            ):
                run.plan()
                (folder / "hidden").chmod(0)
                with nobody(), pytest.raises(Exception, match=said) as raised:
                    read(f"{folder}/{pattern}", text)
                assert f"{folder}/{wrong}" in str(raised.value)
                (folder / "hidden").chmod(0o755)
                run.fire()


@contextmanager
def nobody() -> Iterator[None]:
    """As a user to whom permissions apply."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)
