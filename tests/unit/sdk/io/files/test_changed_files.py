"""Files that change between their being found and being read to their end, and programs that change meanwhile."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.sdk.io.files.file_source import FileSource
from headrace.sdk.io.files.pieces import MissingFileError, _say_changed
from headrace.sdk.transforms.core.low_level import Source

MANY, FEW = 4000, 500


def text(path: Path, values: list[str]) -> None:
    path.write_text("".join(f"{value}\n" for value in values))


def of_json(path: Path, values: list[str]) -> None:
    text(path, [json.dumps({"a": value}) for value in values])


def of_csv(path: Path, values: list[str]) -> None:
    text(path, ["a", *values])


def parquet(path: Path, values: list[str]) -> None:
    pq.write_table(pa.table({"a": values}), path, row_group_size=100)


def avro(path: Path, values: list[str]) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"a": value} for value in values], sync_interval=1000, sync_marker=b"s" * 16)


KINDS: dict[str, tuple[Callable[[Path, list[str]], None], type[FileSource]]] = {
    "text": (text, beam.io.ReadFromText),
    "json": (of_json, beam.io.ReadFromJson),
    "csv": (of_csv, beam.io.ReadFromCsv),
    "parquet": (parquet, beam.io.ReadFromParquet),
    "avro": (avro, beam.io.ReadFromAvro),
}


def values(name: str, count: int) -> list[str]:
    return [f"{name}{number:06d}" for number in range(count)]


def plain(value: object) -> str:
    if isinstance(value, dict):
        return str(value["a"])
    return str(getattr(value, "a", value))


def some_of(source: Source, position: object) -> tuple[list[str], object]:
    """Some hundred records from a position on, read by an injector that is new, and the position behind them."""
    injector = source.injector()
    delivery = injector.plan(injector.start() if position is None else position, FEW, 1)
    return [plain(each) for split in delivery.splits for batch in split.read() for each in batch.values], (
        None if delivery.done else delivery.position
    )


def rest_of(source: Source, position: object) -> list[str]:
    found: list[str] = []
    while position is not None:
        read, position = some_of(source, position)
        found += read
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("continuous", [False, True])
class TestFiles:
    def source(self, folder: Path, kind: str, continuous: bool) -> Source:
        options = {"continuous": True, "until": lambda paths: len(paths) > 1, "interval": 0.0} if continuous else {}
        return KINDS[kind][1](f"{folder}/*", **options)

    def begun(self, folder: Path, kind: str, continuous: bool) -> tuple[Source, list[str], object]:
        for name in "ab":
            KINDS[kind][0](folder / name, values(name, MANY))
        source = self.source(folder, kind, continuous)
        read, position = some_of(source, None)
        assert 0 < len(read) < MANY
        return source, read, position

    def test_a_file_that_is_replaced_before_it_is_begun_is_read_whole(self, tmp_path, kind, continuous, caplog):
        """It was read to the size of the earlier one."""
        source, read, position = self.begun(tmp_path, kind, continuous)
        KINDS[kind][0](tmp_path / "b", values("y", MANY + FEW))
        assert read + rest_of(source, position) == [*values("a", MANY), *values("y", MANY + FEW)]
        assert not caplog.text

    def test_a_begun_file_that_a_copy_has_replaced_with_its_size_and_time_is_an_error_at_a_restart(
        self, tmp_path, kind, continuous
    ):
        """As `rsync --times` and `cp -p` do. A Parquet file of the same types and sizes had the same mark."""
        source, _, position = self.begun(tmp_path, kind, continuous)
        before = (tmp_path / "a").stat()
        KINDS[kind][0](tmp_path / "a", values("x", MANY))
        assert (tmp_path / "a").stat().st_size == before.st_size
        os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(ValueError, match=r"/a has other contents than when its reading began"):
            rest_of(source, position)

    def test_a_folder_in_the_place_of_a_file_is_named_as_a_file_that_is_gone(self, tmp_path, kind, continuous):
        source, _, position = self.begun(tmp_path, kind, continuous)
        for name in "ab":
            (tmp_path / name).unlink()
            (tmp_path / name).mkdir()
        with pytest.raises(MissingFileError, match=r"/a is gone: it was found, and removed"):
            rest_of(source, position)

    def test_a_file_that_is_shorter_than_when_it_was_begun_is_an_error(self, tmp_path, kind, continuous):
        """Parquet and Avro files were at their end then."""
        source, _, position = self.begun(tmp_path, kind, continuous)
        size = (tmp_path / "a").stat().st_size
        KINDS[kind][0](tmp_path / "a", values("x", FEW))
        with pytest.raises(ValueError, match=rf"/a has .* bytes, and had {size} when its reading began: it was"):
            rest_of(source, position)

    def test_a_file_that_is_touched_goes_on(self, tmp_path, kind, continuous, caplog):
        source, read, position = self.begun(tmp_path, kind, continuous)
        _say_changed.cache_clear()
        os.utime(tmp_path / "a")
        assert read + rest_of(source, position) == [*values("a", MANY), *values("b", MANY)]
        assert "since its reading began" not in caplog.text

    def test_other_contents_of_the_part_that_was_read_are_an_error(self, tmp_path, kind, continuous):
        """A record in front: what stands behind the offset was read before."""
        source, _, position = self.begun(tmp_path, kind, continuous)
        KINDS[kind][0](tmp_path / "a", ["new", *values("a", MANY)])
        with pytest.raises(ValueError, match=r"/a has other contents than .* in the part that is read \(before offset"):
            rest_of(source, position)

    def test_a_position_without_a_mark_goes_on_with_a_warning(self, tmp_path, kind, continuous, caplog):
        """Of an earlier release."""
        source, _, position = self.begun(tmp_path, kind, continuous)
        _say_changed.cache_clear()
        before = (tmp_path / "a").stat().st_size
        KINDS[kind][0](tmp_path / "a", values("x", MANY))
        assert isinstance(position, tuple)
        unmarked = (position[0], tuple(each[:4] for each in position[1]), *position[2:])
        with caplog.at_level(logging.WARNING):
            rest_of(source, unmarked)
        assert f"/a has changed since its reading began (it had {before} bytes, and has " in caplog.text
        assert caplog.text.count("since its reading began") == 1


@pytest.mark.parametrize("make", [text, of_json, of_csv])
def test_a_file_that_is_appended_to_while_it_is_read_is_named(tmp_path, make, caplog):
    make(tmp_path / "a", values("a", MANY))
    source = next(source for maker, source in KINDS.values() if maker is make)(f"{tmp_path}/*")
    read, position = some_of(source, None)
    _say_changed.cache_clear()
    before = (tmp_path / "a").stat().st_size
    with (tmp_path / "a").open("a") as file:
        file.write("\n")
    with caplog.at_level(logging.WARNING):
        assert read + rest_of(source, position) == values("a", MANY)
    assert f"/a has changed since its reading began (it had {before} bytes, and has {before + 1})" in caplog.text


def test_fewer_rows_than_were_read_are_an_error(tmp_path):
    """A Parquet file that is no smaller, as its values are larger."""
    parquet(tmp_path / "a", values("a", MANY))
    source = beam.io.ReadFromParquet(f"{tmp_path}/*")
    _, position = some_of(source, None)
    parquet(tmp_path / "a", [f"{value}{value * 100}{number}" for number, value in enumerate(values("x", FEW - 1))])
    assert isinstance(position, tuple)
    of_an_earlier_release = (position[0], tuple(each[:4] for each in position[1]), *position[2:])
    with pytest.raises(ValueError, match="/a has 499 rows, of which 500 were read before: it was replaced by another"):
        rest_of(source, of_an_earlier_release)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (beam.io.ReadFromCsv, lambda path: beam.io.ReadFromCsv(path, splittable=False)),
        (beam.io.ReadFromJson, lambda path: beam.io.ReadFromJson(path, lines=False)),
        (beam.io.ReadFromText, lambda path: beam.io.ReadFromText(path, compression_type="gzip")),
    ],
)
def test_a_begun_file_is_not_read_anew_as_a_whole(tmp_path, before, after):
    """With the changed source the lines that had been read came again."""
    of_json(tmp_path / "a", values("a", MANY))
    _, position = some_of(before(f"{tmp_path}/*"), None)
    with pytest.raises(ValueError, match=r"/a was read to byte .*, and cannot be read on from there if its lines are"):
        some_of(after(f"{tmp_path}/*"), position)


@pytest.mark.parametrize("count", [1, MANY])
def test_a_pattern_that_has_changed_is_named(tmp_path, caplog, count):
    """The files of the new one are not read, whether or not those of the earlier one are."""
    for folder in "xy":
        (tmp_path / folder).mkdir()
        text(tmp_path / folder / "a", values(folder, count))
    source = beam.io.ReadFromText(f"{tmp_path}/x/*")
    position = source.injector().plan(source.injector().start(), FEW, 1).position
    injector = beam.io.ReadFromText(f"{tmp_path}/y/*").injector()
    for _ in range(3):
        position = injector.plan(position, FEW, 1).position
    said = f"reads the files that {tmp_path}/x/* matched when the run began, to their end, and none of {tmp_path}/y/*"
    assert caplog.text.count(said) == 1
    caplog.clear()
    source.injector().plan(position, FEW, 1)
    assert not caplog.text
