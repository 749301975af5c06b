"""Files as sources: patterns, cutting, compression, event times, folders that fill up, wrong lines."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.io.filesystem import CompressionTypes
from headrace.lowlevel import StepError
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.files.file_times import FileTimes, NamePattern
from headrace.sdk.io.files.filesystem import MatchedFile, match
from headrace.sdk.io.text.line_ranges import LineRange
from headrace.sdk.io.text.text_files import TextParser
from headrace.transforms import window
from headrace.utils.timestamp import Timestamp
from tests.unit.collected import collect, values
from tests.unit.sdk.io.sourcefiles import OneByOne, planned, write


class TestPatterns:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("a.txt", "b.txt", "_c.txt", ".d", "x/e.txt", "x/_h/f.txt", "x/y/g.txt"):
            write(tmp_path / name, "line\n")
        return tmp_path

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("*.txt", "a.txt b.txt"),
            ("", "a.txt b.txt"),
            ("**/*.txt", "a.txt b.txt x/e.txt x/y/g.txt"),
            ("**", "a.txt b.txt x/e.txt x/y/g.txt"),
            ("**.txt", "a.txt b.txt x/e.txt x/y/g.txt"),
            ("x/**", "x/e.txt x/y/g.txt"),
            ("x**e.txt", "x/e.txt"),
            ("x/*", "x/e.txt"),
            ("[bx].txt", "b.txt"),
            ("?.txt", "a.txt b.txt"),
            ("_c.txt", "_c.txt"),
            ("none/*", ""),
        ],
    )
    def test_what_they_match(self, folder, pattern, names):
        found = match(f"{folder}/{pattern}")
        assert [os.path.relpath(file.path, folder) for file in found] == names.split()
        assert all(file.size == 5 for file in found)

    def test_urls(self, folder):
        assert [file.path for file in match(f"file://{folder}/a*")] == [f"file://{folder}/a.txt"]
        assert values(lambda p: p | beam.io.ReadFromText(f"file://{folder}/a*")) == ["line"]

    def test_a_pattern_without_files_is_refused_when_the_pipeline_is_built(self, folder):
        with pytest.raises(
            FileNotFoundError, match=r"no file matches '.*/nothing\*'; correct it, or give validate=False"
        ):
            beam.io.ReadFromText(f"{folder}/nothing*")
        assert values(lambda p: p | beam.io.ReadFromText(f"{folder}/nothing*", validate=False)) == []


class TestText:
    def test_lines_of_several_files_in_order_of_names(self, tmp_path):
        write(tmp_path / "2.txt", "c\r\nd")
        write(tmp_path / "1.txt", "a\n\nb ü\u2028x\n")
        expected = ["a", "", "b ü\u2028x", "c", "d"]
        rows = collect(lambda p: p | beam.io.ReadFromText(f"{tmp_path}/*.txt"))
        assert rows == [(line, MIN_TIMESTAMP) for line in expected]

    def test_ends_of_lines_and_headers(self, tmp_path):
        path = write(tmp_path / "a.txt", "head\nmore\na\nb\n")
        assert values(lambda p: p | beam.io.ReadFromText(path, skip_header_lines=2)) == ["a", "b"]
        kept = beam.io.ReadFromText(path, strip_trailing_newlines=False)
        assert values(lambda p: p | kept) == ["head\n", "more\n", "a\n", "b\n"]

    @pytest.mark.parametrize(
        ("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", None)]
    )
    def test_compressed_files(self, tmp_path, ending, compress):
        data = b"head\n" + b"".join(b"%d\n" % number for number in range(100_000))
        packed = compress(data) if compress else bytes(pa.compress(data, "zstd", asbytes=True))
        path = write(tmp_path / f"a.txt.{ending}", packed)
        reading = beam.io.ReadFromText(path, skip_header_lines=1)
        assert values(lambda p: p | reading) == [str(number) for number in range(100_000)]
        named = {"gz": "GZIP", "bz2": "BZIP2", "xz": "XZ", "zst": "ZSTD"}[ending]
        other = write(tmp_path / "a.log", packed)
        stated = beam.io.ReadFromText(
            other, compression_type=getattr(CompressionTypes, named), skip_header_lines=99_999
        )
        assert values(lambda p: p | stated) == ["99998", "99999"]

    def test_an_unknown_compression(self, tmp_path):
        path = write(tmp_path / "a.txt", "a\n")
        with pytest.raises(ValueError, match="compression 'rar' is not known; use one of auto"):
            beam.io.ReadFromText(path, compression_type="rar")

    def test_a_file_is_cut_into_epochs_and_tasks(self, tmp_path):
        lines = [f"{number:05d}" * (number % 7 + 1) for number in range(10_000)]
        path = write(tmp_path / "a.txt", "head\n" + "\n".join(lines) + "\n")
        epochs = list(planned(beam.io.ReadFromText(path, skip_header_lines=1), limit=1000, splits=4))
        assert [value for splits, _ in epochs for rows in splits for value, _ in rows] == lines
        assert len(epochs) > 8
        assert all(500 < sum(map(len, splits)) < 2000 for splits, _ in epochs[:-1])
        assert all(len(splits) in (4, 5) for splits, _ in epochs[:-1])

    def test_many_small_files_are_read_together(self, tmp_path):
        for number in range(50):
            write(tmp_path / f"{number:02d}.txt", f"{number}\n" * 10)
        epochs = list(planned(beam.io.ReadFromText(f"{tmp_path}/*"), limit=250, splits=2))
        assert [len(splits) for splits, _ in epochs] == [2] * len(epochs)
        assert len([row for splits, _ in epochs for rows in splits for row in rows]) == 500

    @given(st.text(alphabet="ab\r\nü", max_size=60), st.data())
    def test_ranges_of_bytes_are_a_partition_of_the_lines(self, tmp_path_factory, text, data):
        path = tmp_path_factory.mktemp("cut") / "a.txt"
        raw = text.encode()
        path.write_bytes(raw)
        found = MatchedFile(str(path), len(raw), 0)
        cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=5).map(sorted))
        bounds = [0, *cuts, len(raw)]
        parser = TextParser(False, None, FileTimes(False))
        ranges = [LineRange(found, start, stop, parser, "uncompressed") for start, stop in pairwise(bounds)]
        assert "".join(line for one in ranges for batch in one.read() for line in batch.values) == text

    def test_what_is_no_text(self, tmp_path):
        path = write(tmp_path / "a.txt", b"fine\nfine too\nf\xffne\n")
        with pytest.raises(StepError, match=r"a\.txt, line 3: not UTF-8 text") as caught:
            values(lambda p: p | "read it" >> beam.io.ReadFromText(path))
        assert caught.value.step == "read it"

    def test_files_that_come_after_the_start_are_not_read(self, tmp_path):
        write(tmp_path / "a.txt", "a\n")
        injector = beam.io.ReadFromText(f"{tmp_path}/*.txt").injector()
        position = injector.start()
        write(tmp_path / "b.txt", "b\n")
        assert injector.plan(position, 10, 1).done


class TestEventTimes:
    LINES = "\n".join(json.dumps({"id": number, "at": when}) for number, when in ((1, 5), (2, 3.5), (3, 60))) + "\n"

    def read(self, tmp_path, **options):
        path = write(tmp_path / "a.json", self.LINES)
        return beam.io.ReadFromJson(path, **options)

    def test_by_field_and_by_function(self, tmp_path):
        for timestamp in ("at", lambda row: Timestamp(row.at), lambda row: datetime.fromtimestamp(row.at, UTC)):
            rows = collect(lambda p, by=timestamp: p | self.read(tmp_path, timestamp=by))
            assert [when for _, when in rows] == [5_000_000, 3_500_000, 60_000_000]

    def test_the_watermark_stays_behind_by_the_greatest_delay(self, tmp_path):
        records = [json.dumps({"id": number, "at": at}) for number, at in enumerate((1, 4, 11, 3, 30, 4))]
        lines = "".join(f"{record:24}\n" for record in records)
        path = write(tmp_path / "a.json", lines)

        def build(p):
            rows = p | beam.io.ReadFromJson(path, timestamp="at", max_delay=2)
            keyed = rows | beam.WindowInto(window.FixedWindows(5)) | beam.Map(lambda row: ("k", row.id))
            return keyed | beam.GroupByKey()

        # When 3 comes the watermark is at 9, so it is late and its window closed, as is the last one's.
        assert values(build, scheduler=OneByOne()) == [("k", [0, 1]), ("k", [2]), ("k", [4])]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_delay": 1}, "max_delay is given without timestamp"),
            ({"timestamp": "at", "max_delay": -1}, "max_delay is -1 s; give 0 or more"),
            ({"timestamp": 7}, "must be the name of a field or a function, got 7"),
            ({"until": len}, "for continuous=True only"),
            ({"continuous": True, "timestamp": "at"}, "give max_delay or file_time"),
        ],
    )
    def test_what_does_not_go_together(self, tmp_path, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            self.read(tmp_path, **options)

    @pytest.mark.parametrize(
        ("timestamp", "message"),
        [("none", "row has no field 'none'; it has id, at"), (lambda row: None, "None is no timestamp; give seconds")],
    )
    def test_a_record_without_one(self, tmp_path, timestamp, message):
        with pytest.raises(StepError, match=rf"a\.json, line 1: timestamp of Row\(id=1, at=5\): {message}"):
            values(lambda p: p | self.read(tmp_path, timestamp=timestamp))


class TestFoldersThatFillUp:
    def at(self, folder, name, text, modified):
        path = write(folder / name, text)
        os.utime(path, ns=(modified * 10**9, modified * 10**9))

    def source(self, folder, **options):
        return beam.io.ReadFromText(f"{folder}/*.log", continuous=True, interval=0, validate=False, **options)

    def test_files_are_read_as_they_appear_each_once(self, tmp_path):
        injector = self.source(tmp_path, until=lambda files: len(files) == 3).injector()
        position, seen = injector.start(), []

        def step(limit=1000):
            nonlocal position
            delivery = injector.plan(position, limit, 1)
            position = delivery.position
            seen.extend(row for split in delivery.splits for batch in split.read() for row in batch.rows())
            return delivery

        assert step().idle
        self.at(tmp_path, "b.log", "b1\nb2\n", 20)
        self.at(tmp_path, "_c.log", "unfinished\n", 30)
        delivery = step()
        assert (delivery.watermark, delivery.done, delivery.idle) == (20_000_000, False, False)
        self.at(tmp_path, "a.log", "a1\n", 25)
        (tmp_path / "_c.log").rename(tmp_path / "c.log")
        assert step().watermark == 30_000_000
        assert seen == [("b1", 20_000_000), ("b2", 20_000_000), ("a1", 25_000_000), ("unfinished", 30_000_000)]
        assert step().done

    def test_the_watermark_is_the_time_of_the_oldest_unfinished_file(self, tmp_path):
        """Figure 10 of the MillWheel paper; it does not go back for a file that comes too late."""
        for name, modified in (("a.log", 10), ("b.log", 20)):
            self.at(tmp_path, name, "".join(f"{name}{number}\n" for number in range(100)), modified)
        injector = self.source(tmp_path, until=lambda files: True).injector()
        position, watermarks = injector.start(), []
        for _ in range(100):
            delivery = injector.plan(position, 40, 1)
            position = delivery.position
            watermarks.append(delivery.watermark // 1_000_000)
            if len(watermarks) == 4:
                self.at(tmp_path, "c.log", "late\n", 5)
            if delivery.done:
                break
        assert watermarks == sorted(watermarks)
        assert set(watermarks) == {10, 20}
        assert watermarks[0] == 10

    def test_times_from_names(self, tmp_path):
        self.at(tmp_path, "at-100.log", "x\n", 999)

        def time_of(path):
            return int(path.rpartition("-")[2].removesuffix(".log"))

        source = self.source(tmp_path, file_time=time_of, until=bool)
        ((rows,), delivery), *_ = planned(source)
        assert rows == [("x", 100_000_000)]
        assert delivery.watermark == 100_000_000

    def watermarks(self, injector, folder, steps, limit=1000):
        """In seconds, after each plan; a step is a file to add, or None."""
        position, seen = injector.start(), []
        for name in steps:
            if name is not None:
                self.at(folder, name, "x\n" * 100, 999)
            delivery = injector.plan(position, limit, 1)
            position = delivery.position
            seen.append(delivery.watermark // 1_000_000)
        return seen, position

    def test_a_file_that_is_done_is_over_where_its_end_is_known(self, tmp_path):
        injector = self.source(tmp_path, file_time="%Y-%m-%dT%H%M").injector()
        names = ["x-1970-01-01T0000.log", None, "x-1970-01-01T0002.log", "y-1970-01-01T0001.log", None]
        # The last file is later than what the watermark has reached by then.
        assert self.watermarks(injector, tmp_path, names)[0] == [60, 60, 180, 180, 180]

    def test_a_pair_of_times_and_pieces_of_files(self, tmp_path):
        def span(path):
            start, end = path.rpartition("/")[2].removesuffix(".log").split("-")
            return int(start), int(end)

        injector = self.source(tmp_path, file_time=span).injector()
        self.at(tmp_path, "10-100.log", "x\n" * 100, 1)
        seen, position = self.watermarks(injector, tmp_path, ["20-30.log", None, None, None], 60)
        assert seen == [10, 20, 20, 100]
        again = self.source(tmp_path, file_time=span).injector()
        self.at(tmp_path, "95-99.log", "x\n", 1)
        assert again.plan(position, 60, 1).watermark == 100_000_000

    def test_the_watermark_waits_for_files_that_are_to_come(self, tmp_path):
        def expected(paths):
            minutes = {path.rpartition("T")[2] for path in paths}
            return [f"{tmp_path}/{server}-1970-01-01T{minute}" for minute in minutes for server in "ab"]

        injector = self.source(tmp_path, file_time="%Y-%m-%dT%H%M", expected=expected).injector()
        names = ["a-1970-01-01T0001.log", "b-1970-01-01T0001.log", "b-1970-01-01T0002.log", None]
        seen, position = self.watermarks(injector, tmp_path, names)
        assert seen == [60, 120, 120, 120]
        assert injector.holder(position) == f"file {tmp_path}/a-1970-01-01T0002.log, which is expected"

    def test_a_file_of_which_no_time_can_be_told(self, tmp_path):
        self.at(tmp_path, "today.log", "x\n", 1)
        for file_time, says in (
            ("%Y", "the name does not match file_time '%Y'"),
            (lambda path: (2, 1), "an end before"),
        ):
            injector = self.source(tmp_path, file_time=file_time).injector()
            with pytest.raises(ValueError, match=rf"{tmp_path}/today\.log: .*{says}"):
                injector.plan(injector.start(), 60, 1)

    @pytest.mark.parametrize(
        ("pattern", "name", "first", "last"),
        [
            ("%d.%m.%Y", "x 31.12.2023.log", "2023-12-31T00:00:00Z", "2024-01-01T00:00:00Z"),
            ("%Y", "2023.log", "2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
            (
                *("%Y%m%dT%H%M%SZ-%Y%m%dT%H%M%SZ", "out-20230101T000000Z-20230101T010000Z-0-000001-00000-of-00001"),
                *("2023-01-01T00:00:00Z", "2023-01-01T01:00:00Z"),
            ),
        ],
    )
    def test_times_in_names(self, pattern, name, first, last):
        span = FileTimes(True, NamePattern(pattern)).of_name(f"/some/2000/{name}")
        assert [Timestamp.of_micros(at).to_rfc3339() for at in span] == [first, last]

    @pytest.mark.parametrize("pattern", ["", "%Y-%q", "%d.%m", "%Y %Y %Y", "%H-%Y"])
    def test_patterns_that_are_none(self, tmp_path, pattern):
        with pytest.raises(ValueError, match=r"file_time|expected"):
            self.source(tmp_path, file_time=pattern or None, expected=None if pattern else list)

    def test_a_pipeline_on_a_folder(self, tmp_path):
        for number in range(5):
            self.at(tmp_path, f"{number}.log", f"{number * 10} x\n" * 3, number)
        reading = self.source(
            tmp_path, timestamp=lambda line: int(line.split()[0]), max_delay=5, until=lambda files: len(files) == 5
        )

        def build(p):
            keyed = p | reading | beam.Map(lambda line: ("k", 1)) | beam.WindowInto(window.FixedWindows(20))
            return keyed | beam.CombinePerKey(sum)

        assert values(build) == [("k", 6), ("k", 6), ("k", 3)]
        pipeline = beam.Pipeline("LocalRunner")
        assert not (pipeline | reading).is_bounded


def test_dataframes_are_for_spark(monkeypatch):
    class Frame:
        isStreaming = False

    reading = beam.io.ReadFromDataFrame(Frame(), timestamp="at", max_delay=3)
    injector = reading.injector()
    assert (injector.timestamp, injector.max_delay, reading.is_bounded) == ("at", 3_000_000, True)
    with pytest.raises(TypeError, match="run the pipeline with runner='SparkRunner'"):
        injector.plan(0, 1, 1)
    Frame.isStreaming = True
    with pytest.raises(ValueError, match="needs to know how late rows may be"):
        beam.io.ReadFromDataFrame(Frame(), timestamp="at")
    with pytest.raises(ValueError, match="how late rows may be; give watermark in seconds"):
        beam.io.ReadFromSpark(Frame(), timestamp="at")
    with pytest.raises(TypeError, match="takes a Spark DataFrame, got 7"):
        beam.io.ReadFromDataFrame(7)
    Frame.columns = ["id"]
    with pytest.raises(ValueError, match=r"timestamp names column 'at', but the DataFrame has \['id'\]"):
        beam.io.ReadFromSpark(Frame(), timestamp="at", watermark="1 week")
    for delay in ("soon", "", "1", "1 moon", "interval", "minutes 1"):
        with pytest.raises(ValueError, match=f"watermark '{delay}' is no delay; write it as '10 minutes'"):
            beam.io.ReadFromSpark(Frame(), timestamp="id", watermark=delay)
