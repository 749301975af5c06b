"""Avro files as sources of dicts or `Row`s, and as a sink (`apache_beam.io.avroio`); patterns may be elements."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Unpack, cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.argument_checks import refuse_unless, require_package
from headrace.sdk.io.avro.avro_encoding import (
    AvroBlock,
    AvroLayout,
    ReaderSchema,
    Schema,
    WriterSchema,
    blocks_from,
    checked_schema,
    columns_of,
    layout_of,
    naming,
    schema_of_type,
)
from headrace.sdk.io.files.file_sink import EpochFileSink, IfExists, PartWriter
from headrace.sdk.io.files.file_source import BATCH, FileSource, OtherReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.fileio import ReadableFile, ReadAllFiles
from headrace.sdk.io.files.filesystem import MatchedFile, Path, match, open_input, open_output
from headrace.sdk.io.files.pieces import FileFormat
from headrace.sdk.io.files.windowed_files import WriteFiles
from headrace.sdk.io.timestamps import BadTimestamp, TimestampOf, timestamps_of


@dataclass
class AvroFormat(FileFormat):
    """Cuts Avro files into ranges of bytes; a task reads the blocks that begin in its range."""

    as_rows: bool
    timestamp: TimestampOf
    times: FileTimes
    _layouts: dict[MatchedFile, AvroLayout] = field(default_factory=dict, repr=False)
    """The layout of the newest file."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat.cut`. Offsets are bytes; a piece has at least as many of them as a block."""
        layout = self._layout(file)
        start = max(offset, layout.header_bytes)
        end = start + max(1, layout.block_bytes, int(records * layout.record_bytes))
        stop = min(end, file.size)
        piece = BlockRange(file, start, stop, self.as_rows, self.timestamp, self.times.default(file))
        return piece, int((stop - start) / layout.record_bytes), None if end >= file.size else end

    def _layout(self, file: MatchedFile) -> AvroLayout:
        if file not in self._layouts:
            try:
                with open_input(file.path) as opened:
                    self._layouts = {file: layout_of(opened)}
            except Exception as error:
                if "codec is supported but you need to install" in str(error):
                    raise ImportError(f"{file.path} cannot be read here: {error}; workers need it too") from error
                raise ValueError(
                    f"{file.path} is no whole Avro file ({error}); write it again, or choose a pattern that leaves it "
                    "out"
                ) from error
        return self._layouts[file]


@dataclass(frozen=True, slots=True)
class BlockRange:
    """The blocks that begin in the bytes from `start` to before `end` of a file, for one task."""

    file: MatchedFile
    start: int
    end: int
    as_rows: bool
    timestamp: TimestampOf
    default_time: int
    """Event time of records without `timestamp`, microseconds UTC."""

    def read(self) -> Iterator[Batch]:
        """The elements of the blocks. Raises `ValueError` that names file, offset of the block, and record in it."""
        position = self.start
        with open_input(self.file.path) as opened:
            blocks = blocks_from(opened, self.start, self.end)
            while True:
                try:
                    block = next(blocks, None)
                except Exception as error:
                    raise self._unreadable(position, error) from error
                if block is None:
                    break
                yield from self._batches(block)
                position = block.offset + block.size

    def _unreadable(self, position: int, error: Exception) -> ValueError:
        reason = str(error) or type(error).__name__
        return ValueError(
            f"{self.file.path}, cannot be read from byte {position} on: {reason}; the file was cut off, damaged, or "
            "changed while it was read: write it again"
        )

    def _batches(self, block: AvroBlock) -> Iterator[Batch]:
        records, schema = iter(block), ReaderSchema(block.writer_schema)
        first = 0
        while True:
            try:
                elements: list[object] = list(islice(records, BATCH))
            except Exception as error:
                raise self._unreadable(block.offset, error) from error
            if not elements:
                return
            yield self._batch([schema.row(each) for each in elements] if self.as_rows else elements, block, first)
            first += len(elements)

    def _batch(self, elements: Sequence[object], block: AvroBlock, first: int) -> Batch:
        try:
            return Batch(elements, timestamps_of(elements, self.timestamp, self.default_time))
        except BadTimestamp as error:
            place = f"{self.file.path}, record {first + error.index} of the block at byte {block.offset}"
            raise ValueError(f"{place}: {error}") from error


class ReadFromAvro(FileSource):
    """Records of Avro files as dicts; what is no record in the schema becomes the value that it is in Python.

    Needs `pip install 'headrace[avro]'`. Tasks read the blocks of a file side by side.

    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> schema = {"type": "record", "name": "Score", "fields": [{"name": "points", "type": "long"}]}
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([{"points": 5}]) | beam.io.WriteToAvro(f"{folder}/scores", schema)
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | ReadFromAvro(f"{folder}/scores*", as_rows=True) | beam.Map(print)
    Row(points=5)

    Args:
        file_pattern: Which files; see `FileSource`. It must be given, although Beam's has a default.
        min_bundle_size: Without effect, accepted as in Beam: the engine chooses how much a task reads.
        validate: Whether a file must match when the pipeline is built.
        use_fastavro: Without effect, accepted as in Beam.
        as_rows: Whether elements, and records within them, are `Row`s instead of dicts; an element that is no record
            becomes `Row(record=value)`.
            Records within records stay dicts.
        **options: `timestamp`, `max_delay`, `continuous` and the others of `FileSource`.

    Raises:
        ImportError: fastavro is not installed.
        TypeError: `file_pattern` is missing.
    """

    record_format = "Avro"

    def __init__(
        self,
        file_pattern: Path | None = None,
        min_bundle_size: int = 0,
        validate: bool = True,
        use_fastavro: bool = True,
        as_rows: bool = False,
        **options: Unpack[OtherReadOptions],
    ) -> None:
        require_package("fastavro")
        # Without a pattern it raises.
        super().__init__(cast(Path, file_pattern), validate=validate, **options)
        self._as_rows = as_rows

    def arrow_schema(self) -> pa.Schema | None:
        """See `Source`: the columns of the first file."""
        try:
            for file in match(self.pattern)[:1]:
                with open_input(file.path) as opened:
                    return columns_of(opened)
        except Exception:  # whoever reads the file says so
            pass
        return None

    def file_format(self) -> AvroFormat:
        """Avro, cut between blocks."""
        return AvroFormat(self._as_rows, self.timestamp, self.times)


def _records(file: ReadableFile) -> Iterator[object]:
    matched = MatchedFile(file.metadata.path, file.metadata.size_in_bytes, 0)
    batches = BlockRange(matched, 0, matched.size, False, None, MIN_TIMESTAMP).read()
    return chain.from_iterable(batch.values for batch in batches)


class ReadAllFromAvro(ReadAllFiles):
    """The records of the Avro files of each pattern, as `ReadFromAvro` gives them; each file is read by one task.

    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> schema = {"type": "record", "name": "Score", "fields": [{"name": "points", "type": "long"}]}
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([{"points": 5}]) | beam.io.WriteToAvro(f"{folder}/scores", schema)
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([f"{folder}/scores*"]) | ReadAllFromAvro() | beam.Map(print)
    {'points': 5}

    Args:
        min_bundle_size: Without effect, accepted as in Beam.
        desired_bundle_size: Without effect, accepted as in Beam.
        use_fastavro: Without effect, accepted as in Beam.
        with_filename: Whether elements are pairs of the file's path and a record.
        label: Label of the step.

    Raises:
        ImportError: fastavro is not installed.
    """

    DEFAULT_DESIRED_BUNDLE_SIZE = 64 << 20

    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DEFAULT_DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: bool = False,
        label: str | None = "ReadAllFiles",
    ) -> None:
        require_package("fastavro")
        super().__init__(_records, "ReadRecords", with_filename, label)


_MIME_TYPE = "application/x-avro"


@dataclass(slots=True)
class AvroWriter(PartWriter):
    """Writes elements as records of an Avro file."""

    schema: Schema | None
    codec: str

    def write(self, path: str, batch: Batch) -> None:
        """See `PartWriter`. Raises as `naming` does."""
        import fastavro

        assert self.schema is not None, "the transform has set it when the pipeline was built"
        schema = WriterSchema(self.schema)
        element: object = None

        def records() -> Iterator[object]:
            nonlocal element
            for element in batch.values:
                yield schema.fitting(element)

        with open_output(path) as file, naming(lambda: element):
            fastavro.writer(file, schema.parsed, records(), self.codec)


class WriteToAvro(WriteFiles):
    """Writes dicts, `Row`s, named tuples or dataclasses as records of Avro files, or other values by their schema.

    Records may be within records. A time without a zone is in UTC. A field that the schema does not have is an error,
    as it would be lost; Beam leaves it out. So is a value that its type would cut. Needs
    `pip install 'headrace[avro]'`.

    >>> from tempfile import TemporaryDirectory
    >>> import headrace as beam
    >>> schema = {"type": "record", "name": "Score", "fields": [{"name": "points", "type": "long"}]}
    >>> with TemporaryDirectory() as folder:
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.Create([{"points": 5}]) | WriteToAvro(f"{folder}/scores", schema, codec="xz")
    ...     with beam.Pipeline("LocalRunner") as pipeline:
    ...         _ = pipeline | beam.io.ReadFromAvro(f"{folder}/scores*") | beam.Map(print)
    {'points': 5}

    Args:
        file_path_prefix: Folder and beginning of the files' names; see `WriteToText`.
        schema: The schema, a dict as `json.load` makes it of an `.avsc` file. By default that of the elements' type,
            if it is a named tuple or a dataclass.
        codec: Compression of the blocks: `null`, `deflate`, `bzip2` or `xz`; `snappy`, `zstandard` or `lz4` if the
            package that fastavro needs for it is installed.
        file_name_suffix: End of the names.
        num_shards: As for `WriteToText`.
        shard_name_template: Not supported, as in `WriteToText`.
        mime_type: Not supported.
        use_fastavro: Without effect, accepted as in Beam.
        triggering_frequency: Not supported: the input, each epoch, or each window and pane has files of its own.
        windowed_writes: As for `WriteToText`.
        if_exists: As for `WriteToText`.

    Raises:
        ImportError: fastavro is not installed.
        TypeError: An argument that is not supported differs from Beam's default, or the schema has a wrong type.
        ValueError: The codec is not available, or the schema is none of Avro.
    """

    def __init__(
        self,
        file_path_prefix: Path,
        schema: Schema | None = None,
        codec: str = "deflate",
        file_name_suffix: str = "",
        num_shards: int = 0,
        shard_name_template: None = None,
        mime_type: str = _MIME_TYPE,
        use_fastavro: bool = True,
        triggering_frequency: None = None,
        *,
        windowed_writes: bool = True,
        if_exists: IfExists = "replace",
    ) -> None:
        require_package("fastavro")
        for name, given, default, instead in (
            ("shard_name_template", shard_name_template, None, "files are named by shard or epoch"),
            ("mime_type", mime_type, _MIME_TYPE, "leave it out"),
            ("triggering_frequency", triggering_frequency, None, "give the windows before a trigger"),
        ):
            refuse_unless("WriteToAvro", name, given, default, instead)
        _check_codec(codec)
        self._writer = AvroWriter(None if schema is None else checked_schema(schema), codec)
        super().__init__(
            EpochFileSink(file_path_prefix, file_name_suffix, self._writer, if_exists), num_shards, windowed_writes
        )

    def expand(self, inputs: PCollection[object]) -> PValue:
        """The end of a branch. Raises `ValueError` if there is no schema, and elements do not give one."""
        if self._writer.schema is None and isinstance(inputs, PCollection):
            self._writer.schema = checked_schema(schema_of_type(inputs.element_type))
        return super().expand(inputs)


def _check_codec(codec: str) -> None:
    import fastavro

    try:
        fastavro.writer(io.BytesIO(), "null", [None], codec)
    except Exception as error:
        raise ValueError(f"codec {codec!r:.80} is not available ({error}); use 'deflate' or 'null'") from error
