"""Files that a program opens and changes, and files as elements."""

from __future__ import annotations

import io
import lzma
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import headrace as beam
from headrace.io import fileio
from headrace.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from headrace.io.filesystems import FileSystems
from headrace.lowlevel.errors import StepError
from headrace.sdk.io.files import filesystem


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"head\n1\r\n2\n")
    (tmp_path / "b.txt").write_bytes(b"head\n3|4")
    (tmp_path / "_hidden.txt").write_bytes(b"5\n")
    with FileSystems.create(f"{tmp_path}/c.txt.gz") as file:
        file.write(b"head\n6\n")
    return tmp_path


def test_files_are_written_and_read(folder: Path) -> None:
    assert (folder / "c.txt.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert FileSystems.open(f"{folder}/c.txt.gz").read() == b"head\n6\n"
    assert FileSystems.open(f"{folder}/c.txt.gz", compression_type=CompressionTypes.UNCOMPRESSED).read(2) == b"\x1f\x8b"
    with FileSystems.open(f"{folder}/a.txt") as file:
        assert file.readline() == b"head\n"
        assert [*file] == [b"1\r\n", b"2\n"]
        assert file.seek(1) == file.tell() == 1
    assert [*io.TextIOWrapper(FileSystems.open(f"{folder}/a.txt"))] == ["head\n", "1\n", "2\n"]
    made = FileSystems.create(f"{folder}/new/d.txt")
    made.write(b"7")
    made.close()
    assert (folder / "new/d.txt").read_bytes() == b"7"


def test_compressions_have_beams_names(folder: Path) -> None:
    with FileSystems.create(f"{folder}/x", compression_type=CompressionTypes.LZMA) as file:
        file.write(b"packed")
    assert lzma.decompress((folder / "x").read_bytes()) == b"packed"
    (folder / "y.lzma").write_bytes(lzma.compress(b"alone", lzma.FORMAT_ALONE))
    assert FileSystems.open(f"{folder}/y.lzma").read() == b"alone"
    assert CompressionTypes.is_valid_compression_type("lzma")
    assert not CompressionTypes.is_valid_compression_type("zip")


def test_patterns_match_files(folder: Path) -> None:
    found, limited, one, none = FileSystems.match(
        [f"{folder}/*.txt", f"{folder}/*", f"{folder}/b.txt", f"{folder}/z"], [None, 1, None, None]
    )
    assert [Path(file.path).name for file in found.metadata_list] == ["a.txt", "b.txt"]
    assert [file.size_in_bytes for file in found.metadata_list] == [10, 8]
    assert found.metadata_list[0].last_updated_in_seconds == pytest.approx((folder / "a.txt").stat().st_mtime)
    assert (len(limited.metadata_list), len(one.metadata_list), none.metadata_list) == (1, 1, [])
    assert FileSystems.match([str(folder)])[0].metadata_list == []


def test_files_are_copied_renamed_and_deleted(folder: Path) -> None:
    FileSystems.copy([f"{folder}/a.txt"], [f"{folder}/x.txt"])
    FileSystems.rename([f"{folder}/x.txt"], [f"{folder}/y.txt"])
    assert not FileSystems.exists(f"{folder}/x.txt") and FileSystems.exists(f"{folder}/y.txt")
    assert FileSystems.checksum(f"{folder}/y.txt") == "10"
    assert FileSystems.last_updated(f"{folder}/y.txt") > 0
    FileSystems.mkdirs(f"{folder}/in/ner")
    FileSystems.delete([f"{folder}/y.txt", f"{folder}/in"])
    assert not FileSystems.exists(f"{folder}/y.txt") and not FileSystems.exists(f"{folder}/in")


def test_what_fails_is_named_and_the_rest_is_done(folder: Path) -> None:
    with pytest.raises(BeamIOError, match="delete failed") as raised:
        FileSystems.delete([f"{folder}/none", f"{folder}/a.txt"])
    assert list(raised.value.exception_details or ()) == [f"{folder}/none"]
    assert not FileSystems.exists(f"{folder}/a.txt")
    with pytest.raises(BeamIOError, match="rename failed"):
        FileSystems.rename([f"{folder}/none"], [f"{folder}/other"])
    with pytest.raises(BeamIOError, match="as many names as files"):
        FileSystems.copy([f"{folder}/b.txt"], [])
    with pytest.raises(FileExistsError, match="exists"):
        FileSystems.mkdirs(str(folder))
    with pytest.raises(FileNotFoundError):
        FileSystems.open(f"{folder}/none")


def test_paths_and_urls_are_joined_and_split() -> None:
    assert FileSystems.join("/a", "b", "c.txt") == "/a/b/c.txt"
    assert FileSystems.join("s3://bucket/a", "/b/", "c/") == "s3://bucket/a/b/c/"
    assert FileSystems.split("/a/b") == ("/a", "b")
    assert FileSystems.split("gs://bucket") == ("gs://", "bucket")
    assert (FileSystems.get_scheme("gs://bucket/a"), FileSystems.get_scheme("/a")) == ("gs", None)


def names(files: object) -> list[str]:
    return sorted(Path(str(path)).name for path in files | beam.Map(lambda file: file.metadata.path))  # type: ignore[operator]  # a list on the left of a transform


def test_files_are_elements(folder: Path) -> None:
    files = [f"{folder}/*.txt", f"{folder}/c.*"] | fileio.MatchAll() | fileio.ReadMatches()
    assert names(files) == ["a.txt", "b.txt", "c.txt.gz"]
    assert sorted(files | beam.Map(lambda file: file.read_utf8().split()[-1])) == ["2", "3|4", "6"]
    assert [f"{folder}/a.txt", f"{folder}/"] | fileio.ReadMatches() | beam.Map(lambda file: file.read()) == [
        b"head\n1\r\n2\n"
    ]
    assert [FileMetadata(f"{folder}/a.txt", 10)] | fileio.ReadMatches("uncompressed") | beam.Map(
        lambda file: file.open().readline()
    ) == [b"head\n"]
    with pytest.raises(StepError, match="is a folder"):
        [f"{folder}/"] | fileio.ReadMatches(skip_directories=False)


def test_a_pattern_without_files_may_be_an_error(folder: Path) -> None:
    none, wildcard = f"{folder}/none", f"{folder}/none*"
    assert [none, wildcard] | fileio.MatchAll() == []
    with beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | fileio.MatchFiles(wildcard)
    for pattern, treatment in ((none, "ALLOW_IF_WILDCARD"), (wildcard, "DISALLOW")):
        with pytest.raises(StepError, match="no file matches"), beam.Pipeline("LocalRunner") as pipeline:
            _ = pipeline | fileio.MatchFiles(pattern, treatment)
    with pytest.raises(ValueError, match="EmptyMatchTreatment"):
        fileio.MatchAll("NEVER")


def test_text_files_of_patterns_are_read(folder: Path) -> None:
    patterns = [f"{folder}/*.txt", f"{folder}/c.*"]
    assert sorted(patterns | beam.io.ReadAllFromText(skip_header_lines=1)) == ["1", "2", "3|4", "6"]
    assert [f"{folder}/a.txt"] | beam.io.ReadAllFromText(strip_trailing_newlines=False) == ["head\n", "1\r\n", "2\n"]
    assert [f"{folder}/b.txt"] | beam.io.ReadAllFromText(delimiter=b"|", with_filename=True) == [
        (f"{folder}/b.txt", "head\n3"),
        (f"{folder}/b.txt", "4"),
    ]
    with beam.Pipeline("LocalRunner") as pipeline:
        lines = pipeline | beam.io.ReadFromTextWithFilename(f"{folder}/b*", coder=beam.coders.BytesCoder())
        _ = lines | beam.Map(lambda pair: pair[1].decode()) | beam.io.WriteToText(f"{folder}/out")
    assert (folder / "out-00000-of-00001").read_text() == "head\n3|4\n"
    with pytest.raises(ValueError, match="delimiter is b''"):
        beam.io.ReadAllFromText(delimiter=b"")


@pytest.mark.parametrize("delimiter", [None, b"|"])
def test_a_byte_order_mark_is_left_out(tmp_path: Path, delimiter: bytes | None) -> None:
    """As `ReadFromText` does: the first line began with it."""
    for name, text in {"a": "\ufeffone|two\n", "b": "\ufeff", "c": "\ufeff\n", "d": "x\ufeff"}.items():
        (tmp_path / name).write_text(text)
    found = {name: [f"{tmp_path}/{name}"] | beam.io.ReadAllFromText(delimiter=delimiter) for name in "abcd"}
    first = ["one|two"] if delimiter is None else ["one", "two\n"]
    assert found == {"a": first, "b": [], "c": ["" if delimiter is None else "\n"], "d": ["x\ufeff"]}


def test_parquet_files_with_equal_names_are_refused(tmp_path: Path) -> None:
    table = pa.table([[1], [2]], names=["a", "a"])
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(Exception, match=r"t.parquet has several columns named 'a', of which an element could have"):
        _ = [f"{tmp_path}/t.parquet"] | beam.io.ReadAllFromParquet()
    assert [f"{tmp_path}/t.parquet"] | beam.io.ReadAllFromParquetBatched() == [table]


def test_parquet_files_of_patterns_are_read(folder: Path) -> None:
    table = pa.table({"x": [1, 2], "y": ["a", "b"]})
    parquet.write_table(table, folder / "t.parquet")
    patterns = [f"{folder}/*.parquet"]
    assert patterns | beam.io.ReadAllFromParquet() == table.to_pylist()
    assert patterns | beam.io.ReadAllFromParquet(with_filename=True, columns=["x"]) == [
        (f"{folder}/t.parquet", {"x": 1}),
        (f"{folder}/t.parquet", {"x": 2}),
    ]
    assert patterns | beam.io.ReadAllFromParquetBatched(columns=["y"]) == [table.select(["y"])]


class Forbidding:
    """A file system in which this user must not read or make anything."""

    def open_input_file(self, path: str) -> None:
        raise PermissionError(13, f"Failed to open local file '{path}'")

    def create_dir(self, path: str, recursive: bool) -> None:
        raise PermissionError(13, f"Cannot create directory '{path}'")


def test_a_file_that_must_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "filesystem_of", lambda path: (Forbidding(), path))
    with (
        pytest.raises(PermissionError, match=r"/a.txt cannot be read: permission denied; give this user the right"),
        filesystem.open_input("/a.txt"),
    ):
        pass


def test_a_parquet_file_that_must_not_be_read_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    parquet.write_table(pa.table({"a": [1]}), folder / "a.parquet")
    source = beam.io.ReadFromParquet(f"{folder}/a.parquet")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Failed to open local file")

    monkeypatch.setattr(parquet, "read_metadata", refuse)
    with (
        pytest.raises(StepError, match=r"a.parquet cannot be read: permission denied; give this user the right"),
        beam.Pipeline("LocalRunner") as pipeline,
    ):
        _ = pipeline | source


def test_a_folder_that_must_not_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "filesystem_of", lambda path: (Forbidding(), path))
    with (
        pytest.raises(PermissionError, match=r"folder /out cannot be made: permission denied; choose another place"),
        filesystem.open_output("/out/a.txt"),
    ):
        pass
