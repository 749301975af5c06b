"""Avro files whose patterns are elements (`apache_beam.io.avroio.ReadAllFromAvro`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.graph.ptransform import PTransform
from headrace.sdk.graph.pvalue import PCollection
from headrace.sdk.io.avro.avro_blocks import require_package
from headrace.sdk.io.avro.avro_source import BlockRange
from headrace.sdk.io.files.fileio import ReadableFile, files_of, with_path
from headrace.sdk.io.files.filesystem import CompressionTypes, MatchedFile
from headrace.sdk.transforms.core.par_do import FlatMap
from headrace.sdk.transforms.core.reshuffle import Reshuffle


@dataclass(frozen=True, slots=True)
class _Records:
    """Reads the records of a file."""

    with_filename: bool

    def __call__(self, file: ReadableFile) -> Iterator[object]:
        matched = MatchedFile(file.metadata.path, file.metadata.size_in_bytes, 0)
        batches = BlockRange(matched, 0, matched.size, False, None, MIN_TIMESTAMP).read()
        records = chain.from_iterable(batch.values for batch in batches)
        return with_path(records, file, self.with_filename)


class ReadAllFromAvro(PTransform[PCollection[str], PCollection[object]]):
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
        require_package()
        super().__init__(label)
        self._read = _Records(with_filename)

    def expand(self, inputs: PCollection[str]) -> PCollection[object]:
        """The records, in no particular order of the files."""
        files = files_of(inputs, CompressionTypes.UNCOMPRESSED) | Reshuffle()
        return files | "ReadRecords" >> FlatMap(self._read)
