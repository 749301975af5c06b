"""Avro files as sources of dicts or `Row`s (`apache_beam.io.avroio`); their patterns may be elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Unpack, cast

import pyarrow as pa

from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.io.argument_checks import require_package
from headrace.sdk.io.avro.avro_encoding import AvroBlock, AvroLayout, ReaderSchema, blocks_from, columns_of, layout_of
from headrace.sdk.io.files.file_source import BATCH, FileSource, OtherReadOptions
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.fileio import ReadableFile, ReadAllFiles
from headrace.sdk.io.files.filesystem import MatchedFile, Path, match, open_input
from headrace.sdk.io.files.reading.pieces import FileFormat
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
