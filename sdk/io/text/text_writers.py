"""Writers of lines: text, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import fspath
from typing import Any, BinaryIO, cast

import pyarrow as pa

from headrace.lowlevel.records.record import Batch
from headrace.sdk.coders.coder import Coder, ToBytesCoder
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.columns.run_schema import RunSchema
from headrace.sdk.io.files.file_naming import ShardTemplate
from headrace.sdk.io.files.file_sink import EpochFileSink, IfExists, PartWriter
from headrace.sdk.io.files.filesystem import CompressionTypes, Path, absolute, compression_of, open_input, open_output
from headrace.sdk.io.files.filesystems import FileSystems
from headrace.sdk.io.files.windowed_files import WriteFiles
from headrace.sdk.io.files.write_to_files import FileMetadata, FileResult, FileSink, WriteToFiles
from headrace.sdk.io.records import as_record, json_of
from headrace.sdk.transforms.core.par_do import Map
from headrace.sdk.transforms.core.window_into import WindowInto
from headrace.sdk.windows import GlobalWindows


@dataclass(frozen=True, slots=True)
class TextWriter(PartWriter):
    """Writes elements as lines."""

    newline: bytes
    header: str | None
    footer: str | None
    compression: str
    coder: Coder = field(default_factory=ToBytesCoder)

    def write(self, path: str, batch: Batch) -> None:
        """See `PartWriter`."""
        lines = [self.encoded(value) for value in batch.values]
        if self.header is not None:
            lines.insert(0, self.header.encode())
        if self.footer is not None:
            lines.append(self.footer.encode())
        with open_output(path, compression_of(path, self.compression)) as file:
            file.write(self.newline.join([*lines, b""]))

    def encoded(self, value: object) -> bytes:
        """The bytes of a line. Raises `ValueError` for text that the coder cannot encode."""
        return encoded_text(value, self.coder.encode)


def encoded_text(value: object, encode: Callable[[Any], bytes] = str.encode) -> bytes:
    """The bytes of a text. Raises `ValueError` that names one that cannot be encoded."""
    try:
        return encode(value)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{value!r:.200} has a character that {error.encoding} cannot encode ({error.reason}); map it to other "
            "text, such as text.encode('utf-8', 'replace'), before it is written"
        ) from error


class WriteToText(WriteFiles):
    r"""Writes elements as lines of text files: by default bytes unchanged, other elements as `str(element)`.

    Files appear when the input has ended, or with their epoch if it has no end or is in windows; see `WriteFiles`
    for their names.

    Args:
        file_path_prefix: Folder and beginning of the names.
        file_name_suffix: End of the names; `.gz`, `.bz2`, `.xz` and `.zst` also mean compression.
        append_trailing_newlines: Whether each element ends with LF.
        num_shards: Number of files: of the whole input if it has an end, and otherwise of each window and pane, or of
            each epoch. 0 leaves it to the engine. See `WriteFiles`.
        compression_type: One of `CompressionTypes`.
        shard_name_template: What stands between prefix and suffix, as `-SSSSS-of-NNNNN`: runs of S stand for the number
            of the shard, N for the number of shards, W or V for the window, U for a random number. Files are then
            written as `WriteToFiles` does: they appear with their epoch, `num_shards` is the number of files of a
            window (0 for as many as the engine has bundles), and the output of the transform is a collection of the
            paths of the files. With an empty template each window has one file. None for the names of `WriteFiles`.
        coder: Encodes an element as the bytes of a line; by default `ToBytesCoder`.
        header: A first line for each file.
        footer: A last line for each file.
        windowed_writes: Whether each window has files of its own; False for files as in the global window.
        if_exists: What a run with an empty checkpoint does with files of an earlier run: `replace` removes them, as
            Beam does, `error` raises `FileExistsError`, `append` leaves them, and writes names that no other run
            writes. With a template only files of equal names are replaced.

    Raises:
        ValueError: `shard_name_template` has no letter S, or `if_exists` is given with it.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create(["tea"]) | beam.io.WriteToText(f"{folder}/words", ".txt")
    ...     print(*((path.name, path.read_text()) for path in Path(folder).iterdir()))
    ('words-00000-of-00001.txt', 'tea\n')
    """

    def __init__(
        self,
        file_path_prefix: Path,
        file_name_suffix: str = "",
        append_trailing_newlines: bool = True,
        num_shards: int = 0,
        shard_name_template: str | None = None,
        coder: Coder | None = None,
        compression_type: str = CompressionTypes.AUTO,
        header: str | None = None,
        footer: str | None = None,
        *,
        windowed_writes: bool = True,
        if_exists: IfExists = "replace",
    ) -> None:
        if coder is not None and not isinstance(coder, Coder):
            raise TypeError(f"coder is {coder!r:.200}; give an instance of a Coder, such as StrUtf8Coder()")
        compression_of("", compression_type)
        end = b"\n" if append_trailing_newlines else b""
        writer = TextWriter(end, header, footer, compression_type, coder or ToBytesCoder())
        super().__init__(
            EpochFileSink(file_path_prefix, file_name_suffix, writer, if_exists), num_shards, windowed_writes
        )
        self._named: _NamedFiles | None = None
        if shard_name_template is not None:
            if if_exists != "replace":
                raise ValueError(
                    f"if_exists is {if_exists!r:.200}, which files with a shard_name_template cannot have; leave it out"
                )
            folder, name = FileSystems.split(absolute(fspath(file_path_prefix)))
            names = ShardTemplate(name, shard_name_template, file_name_suffix)
            compression = compression_of(f"{name}{shard_name_template}{file_name_suffix}", compression_type)
            self._named = _NamedFiles(folder, names, partial(LineSink, writer, compression), num_shards)

    def is_whole(self, inputs: Sequence[PValue]) -> bool:
        """See `Write.is_whole`."""
        return self._named is None and super().is_whole(inputs)

    def expand(self, inputs: PCollection[object]) -> PValue:
        """The end of a branch, or with a `shard_name_template` the paths of the files."""
        if self._named is None:
            return super().expand(inputs)
        return (inputs if self._windowed else inputs | "Whole" >> WindowInto(GlobalWindows())) | self._named


class LineSink(FileSink):
    """Writes elements as lines of a file of `WriteToFiles`."""

    def __init__(self, writer: TextWriter, compression: str, destination: object) -> None:
        self._writer, self._compression = writer, compression

    def create_metadata(self, destination: object, full_file_name: str) -> FileMetadata:
        """Compressed as the final name states."""
        return FileMetadata("text/plain", self._compression)

    def open(self, fh: BinaryIO) -> None:
        """Begin with the header."""
        self._file = fh
        self._write(self._writer.header)

    def _write(self, line: str | None) -> None:
        if line is not None:
            self._file.write(line.encode() + self._writer.newline)

    def write(self, record: object) -> None:
        """Write a line."""
        self._file.write(self._writer.encoded(record) + self._writer.newline)

    def flush(self) -> None:
        """End with the footer."""
        self._write(self._writer.footer)
        self._file.flush()


class _NamedFiles(PTransform[PCollection[object], PCollection[object]]):
    """Files with names by a template; the output is their paths."""

    def __init__(self, folder: str, names: ShardTemplate, sink: Callable[[object], LineSink], shards: int) -> None:
        super().__init__("Files")
        shards = shards if names.template else 1
        self._folder, self._names = folder, names
        most = 0 if shards else WriteToFiles.MAX_NUM_WRITERS_PER_BUNDLE
        self._write = WriteToFiles(folder, names, sink=sink, shards=shards, max_writers_per_bundle=most)

    def expand(self, inputs: PCollection[object]) -> PCollection[object]:
        """The paths. Raises `ValueError` if files of several windows would have equal names."""
        if not isinstance(inputs.windowing.window_fn, GlobalWindows) and not self._names.tells_windows():
            raise ValueError(
                f"step {inputs.pipeline.current_label!r} writes windows, but shard_name_template "
                f"{self._names.template!r:.200} gives all windows the same names; add W or V for the window"
            )
        files = cast("PCollection[object]", inputs | "Write" >> self._write)
        return files | "Path" >> Map(_path_of, self._folder).with_output_types(str)


def _path_of(file: FileResult, folder: str) -> str:
    return FileSystems.join(folder, file.file_name)


@dataclass(frozen=True, slots=True)
class JsonWriter(PartWriter):
    """Writes elements as lines of JSON."""

    compression: str

    def write(self, path: str, batch: Batch) -> None:
        """See `PartWriter`."""
        with open_output(path, compression_of(path, self.compression)) as file:
            for value in batch.values:
                file.write(json_of(value).encode() + b"\n")


class WriteToJson(WriteFiles):
    """Writes elements as lines of JSON: dicts, `Row`s, named tuples and dataclasses as objects, others as JSON values.

    NaN and infinity, which JSON does not have, are refused.

    Args:
        path: Folder and beginning of the files' names; see `WriteToText`.
        num_shards: As for `WriteToText`.
        file_name_suffix: End of the names.
        compression_type: One of `CompressionTypes`.
        windowed_writes: As for `WriteToText`.
        if_exists: As for `WriteToText`.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         sales = pipeline | beam.Create([beam.Row(item="tea", count=3)])
    ...         _ = sales | beam.io.WriteToJson(f"{folder}/sales")
    ...     print(*(path.read_text().strip() for path in Path(folder).iterdir()))
    {"item": "tea", "count": 3}
    """

    def __init__(
        self,
        path: Path,
        *,
        num_shards: int | None = None,
        file_name_suffix: str = ".json",
        compression_type: str = CompressionTypes.AUTO,
        windowed_writes: bool = True,
        if_exists: IfExists = "replace",
    ) -> None:
        compression_of("", compression_type)
        files = EpochFileSink(path, file_name_suffix, JsonWriter(compression_type), if_exists)
        super().__init__(files, num_shards, windowed_writes)


class ColumnNames(RunSchema):
    """The names of the columns of a sink of CSV: stated, or those of the first element of the run."""

    def settled(self, parts: Iterable[pa.Schema]) -> pa.Schema | None:
        """See `RunSchema`: a row has all columns, so the parts have the same ones, in any order."""
        found = [part.names for part in parts]
        for names in found:
            if {*names} != {*found[0]}:
                raise ValueError(
                    f"some elements have the columns {found[0]} and others {names}, so that files of one run would "
                    "have other columns; map the elements to the same ones"
                )
        return super().settled([_named(found[0])] if found else [])

    @property
    def names(self) -> list[str] | None:
        """The names, as far as they are known."""
        known = self.stated or self.agreed
        return None if known is None else known.names


def _named(names: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


_MARK = "\ue000"
"""Stands for an empty text, where no other text has this character of the private use area."""


@dataclass(frozen=True, slots=True)
class CsvWriter(PartWriter):
    """Writes elements as lines of fields, below a line of their names if `header` is set."""

    columns: ColumnNames
    """The columns of all files."""
    delimiter: str
    header: bool
    compression: str

    def run_schema(self) -> RunSchema:
        """See `PartWriter`."""
        return self.columns

    def write(self, path: str, batch: Batch) -> pa.Schema:
        """See `PartWriter`. The first element defines the columns if they are not known.

        Raises `ValueError` for other columns.
        """
        records = [as_record(value) for value in batch.values]
        known = self.columns.names
        columns = list(records[0]) if known is None else known
        if not columns:
            raise ValueError(f"element {records[0]!r:.200} has no fields, so that CSV has no columns; filter it out")
        if len(set(map(str, columns))) < len(columns):
            raise ValueError(f"element {records[0]!r:.200} has two columns of one name in CSV; map it to others before")
        for record in records:
            if record.keys() != set(columns):
                raise ValueError(
                    f"element {record!r:.200} does not have the columns {columns}"
                    f"{'' if self.columns.stated else ' of the first element of this run'}; map it to them"
                )
        self._write(path, columns, [[record[name] for name in columns] for record in records])
        return _named(map(str, columns))

    def rewrite(self, path: str, old: str, found: pa.Schema, schema: pa.Schema) -> None:
        """See `PartWriter`: the same columns in another order."""
        from pyarrow import csv as csv_of_arrow

        order = [found.names.index(name) for name in schema.names]
        with open_input(old, compression_of(old, self.compression)) as file:
            data = file.read()
        # Python's reader does not tell an empty text from None.
        fields = csv_of_arrow.ConvertOptions(
            column_types={name: pa.string() for name in found.names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        table = csv_of_arrow.read_csv(
            pa.BufferReader(data),
            csv_of_arrow.ReadOptions(column_names=found.names, block_size=max(len(data), 1), use_threads=False),
            csv_of_arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            fields,
        )
        columns = [table.column(at).to_pylist() for at in order]
        moved: list[list[object]] = [[*row] for row in zip(*columns, strict=True)]
        self._write(path, schema.names, moved[self.header :])

    def _write(self, path: str, columns: list[str], rows: list[list[object]]) -> None:
        with open_output(path, compression_of(path, self.compression)) as file:
            file.write(self._encoded([[*columns], *rows] if self.header else rows))

    def _encoded(self, rows: list[list[object]]) -> bytes:
        try:
            return self._text(rows).encode()
        except UnicodeEncodeError:
            for row in rows:
                for value in row:
                    encoded_text(str(value))
            raise

    def _text(self, rows: list[list[object]]) -> str:
        """The lines, in which an empty text is quoted and None is not, as for PostgreSQL, DuckDB and Spark."""
        text = self._lines(rows, "\n")
        beside = (self.delimiter * 2, f"\n{self.delimiter}", f"{self.delimiter}\n")
        if text.startswith(self.delimiter) or any(pair in text for pair in beside):
            marked = [[_MARK if isinstance(value, str) and not value else value for value in row] for row in rows]
            text = self._lines(marked, "\n")
            count = sum(value is _MARK for row in marked for value in row)
            if text.count(_MARK) > count:
                return "".join(map(self._line, rows))
            text = text.replace(_MARK, '""')
        # The writer quotes only such ends of lines as it writes itself.
        return "".join(map(self._line, rows)) if "\r" in text else text

    def _line(self, row: list[object]) -> str:
        """The line of a row whose texts have any characters."""
        if len(row) == 1:
            return self._lines([row], "\r\n")[:-2] + "\n"
        end = f"{self.delimiter}0\r\n"
        fields = ['""' if isinstance(value, str) and not value else self._lines([[value, 0]], "\r\n") for value in row]
        return self.delimiter.join(field.removesuffix(end) for field in fields) + "\n"

    def _lines(self, rows: list[list[object]], end: str) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator=end).writerows(rows)
        return text.getvalue()


class WriteToCsv(WriteFiles):
    """Writes dicts, `Row`s, named tuples or dataclasses as CSV files.

    A field is empty for None, and two quotation marks for an empty text; `ReadFromCsv` reads both back as they were
    with `na_values=[""], quoted_strings_can_be_null=False`. In a file of one column both have quotation marks, as an
    empty line would be no row.

    Args:
        path: Folder and beginning of the files' names; see `WriteToText`.
        num_shards: As for `WriteToText`.
        columns: Names of the columns in their order; by default those of the first element, which are then those of
            all files of the run and of its restarts.
        sep: The delimiter between fields.
        header: Whether each file begins with the columns' names.
        file_name_suffix: End of the names.
        compression_type: One of `CompressionTypes`.
        windowed_writes: As for `WriteToText`.
        if_exists: As for `WriteToText`.

    >>> import headrace as beam
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         sales = pipeline | beam.Create([beam.Row(item="tea", count=3)])
    ...         _ = sales | beam.io.WriteToCsv(f"{folder}/sales")
    ...     print(*(path.read_text().strip() for path in Path(folder).iterdir()))
    item,count
    tea,3
    """

    def __init__(
        self,
        path: Path,
        *,
        num_shards: int | None = None,
        columns: Sequence[str] | None = None,
        sep: str = ",",
        header: bool = True,
        file_name_suffix: str = ".csv",
        compression_type: str = CompressionTypes.AUTO,
        windowed_writes: bool = True,
        if_exists: IfExists = "replace",
    ) -> None:
        compression_of("", compression_type)
        names = ColumnNames(None if columns is None else _named(columns))
        writer = CsvWriter(names, sep, header, compression_type)
        super().__init__(EpochFileSink(path, file_name_suffix, writer, if_exists), num_shards, windowed_writes)
