"""Iceberg tables by the package pyiceberg: loading from a catalog, marks of sinks, data files in receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.errors import HeadraceError
from headrace.sdk.io.argument_checks import check_options
from headrace.sdk.io.epoch_sink import SinkMark
from headrace.sdk.io.files.durable_files import keep_files
from headrace.sdk.io.remote_filesystems import PYICEBERG, table_options

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_coder = PickleCoder()


class IcebergError(HeadraceError, RuntimeError):
    """An Iceberg table could not be read or written; the message says what is committed.

    >>> import headrace as beam
    >>> from tempfile import TemporaryDirectory
    >>> from headrace.io.iceberg import ReadFromIceberg
    >>> with TemporaryDirectory() as folder, beam.Pipeline("LocalRunner") as pipeline:
    ...     catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    ...     _ = pipeline | ReadFromIceberg("shop.sales", catalog)
    Traceback (most recent call last):
      ...
    headrace.sdk.io.iceberg.iceberg_table.IcebergError: ...
    """


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table in a catalog.

    Args:
        table: Namespace and name, with dots between.
        catalog: Name of the catalog.
        properties: Its properties, beside those of pyiceberg's configuration, as pairs.
    """

    table: str
    catalog: str
    properties: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, table: object, catalog: str, properties: Mapping[str, str] | None) -> TableAddress:
        """The address of a table. Raises `TypeError` for a wrong name or wrong properties."""
        if not isinstance(table, str) or "." not in table or not all(table.split(".")):
            raise TypeError(f"table must be namespace and name, such as 'shop.sales', got {table!r:.200}")
        check_options("catalog_properties", properties)
        return cls(table, catalog, tuple(sorted((properties or {}).items())))

    def opened(self) -> Catalog:
        """The catalog, one for each process.

        Files of its tables are reached with the credentials of this moment, if a function of the program gives any for
        the warehouse, and the properties have none.
        """
        catalog = _catalog(self.catalog, self.properties)
        catalog.properties.update(
            {
                name: value
                for name, value in table_options(catalog.properties.get("warehouse", ""), PYICEBERG).items()
                if name not in dict(self.properties)
            }
        )
        return catalog

    def load(self) -> Table:
        """The table as it is now. Raises the errors of pyiceberg."""
        return self.opened().load_table(self.table)


@lru_cache(maxsize=16)
def _catalog(name: str, properties: tuple[tuple[str, str], ...]) -> Catalog:
    from pyiceberg.catalog import load_catalog

    return load_catalog(name, **dict(properties))


def columns_of(table: Table) -> pa.Schema:
    """The columns of a table, in their order."""
    return cast(pa.Schema, table.schema().as_arrow())


def mark_of(table: Table, sink: str) -> SinkMark | None:
    """What the table keeps under the name of a sink."""
    kept = table.properties.get(_property(sink))
    if kept is None:
        return None
    run, epoch = map(int, kept.split("/"))
    return SinkMark(run, epoch)


def marked(sink: str, mark: SinkMark) -> dict[str, str]:
    """The property of a table that keeps the mark."""
    return {_property(sink): f"{mark.run}/{mark.epoch}"}


def _property(sink: str) -> str:
    return f"headrace-sink.{sink}"


class StagedDataFile(NamedTuple):
    """A data file that a task has written, with pyiceberg's names. Persisted in a receipt: every field, as a tuple."""

    file_path: str
    file_format: str
    spec_id: int
    """Number of the partition spec."""
    partition: tuple[object, ...]
    record_count: int
    file_size_in_bytes: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int] | None

    @classmethod
    def of(cls, file: DataFile, spec: int) -> StagedDataFile:
        """What a receipt says of a data file."""
        return cls(
            *(file.file_path, str(file.file_format.value), spec, tuple(cast("Iterable[object]", file.partition))),
            *(file.record_count, file.file_size_in_bytes, dict(file.column_sizes), dict(file.value_counts)),
            *(dict(file.null_value_counts), dict(file.nan_value_counts), dict(file.lower_bounds)),
            *(dict(file.upper_bounds), file.split_offsets),
        )

    def data_file(self) -> DataFile:
        """The data file."""
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        fields = self._asdict() | {"file_format": FileFormat(self.file_format), "partition": Record(*self.partition)}
        spec = fields.pop("spec_id")
        file = DataFile.from_args(content=DataFileContent.DATA, **fields)
        file.spec_id = spec
        return file


def encoded(files: Iterable[StagedDataFile]) -> bytes:
    """Files as the contents of a receipt."""
    return _coder.encode([tuple(file) for file in files])


def decoded(receipt: bytes) -> list[StagedDataFile]:
    """The files of the result of `encoded`."""
    return [StagedDataFile(*fields) for fields in cast("list[Any]", _coder.decode(receipt))]


def keep(locations: Iterable[str]) -> None:
    """Make files durable that are on a disk of this machine; an object store answers for its own."""
    local = [place.removeprefix("file://") for place in locations]
    keep_files(fs.LocalFileSystem(), [place for place in local if "://" not in place])


def keep_newest(table: Table) -> None:
    """Make durable what the newest snapshot of a table consists of, besides its data files."""
    locations = [table.metadata_location]
    if (snapshot := table.current_snapshot()) is not None:
        manifests = [each for each in snapshot.manifests(table.io) if each.added_snapshot_id == snapshot.snapshot_id]
        locations += [snapshot.manifest_list, *(each.manifest_path for each in manifests)]
    keep(locations)
