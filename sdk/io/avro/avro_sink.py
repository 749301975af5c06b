"""Avro files as a sink (`apache_beam.io.avroio`)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.lowlevel.records.record import Batch
from headrace.sdk.graph.pvalue import PCollection, PValue
from headrace.sdk.io.argument_checks import refuse_unless, require_package
from headrace.sdk.io.avro.avro_encoding import Schema, WriterSchema, checked_schema, naming, schema_of_type
from headrace.sdk.io.files.file_sink import EpochFileSink, IfExists, PartWriter
from headrace.sdk.io.files.filesystem import Path, open_output
from headrace.sdk.io.files.windowed_files import WriteFiles

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
