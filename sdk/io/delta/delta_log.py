"""Versions of a Delta table as data files: those of a snapshot, and those that a later version has added."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from headrace.sdk.io.delta.data_files import has_partition_values, partition_value
from headrace.sdk.io.delta.delta_table import DeltaError, TableLocation, arrow_schema, reason

_REMEDY = "read a snapshot of it with a bounded ReadFromDelta, or begin after it on an empty checkpoint: version={}"


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a version names."""

    path: str
    """Path below the table's folder."""
    size: int
    modified_us: int
    """When it was written, microseconds UTC."""
    partition: tuple[tuple[str, str | None], ...]
    """Partition columns and their values, as the protocol writes them."""


@dataclass(frozen=True, slots=True)
class DeltaLog(TableLocation):
    """The versions of a table."""

    def newest(self) -> tuple[int, str]:
        """The newest version, and what tells the table from one that is made anew at its place."""
        table = self.opened()
        return int(table.version()), str(table.metadata().id)

    def schema(self, version: int | None = None) -> pa.Schema:
        """The columns at a version, or at the newest. Raises `DeltaError` for columns that cannot be read."""
        table = self.opened(version)
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise DeltaError(f"{self.place} has column mapping, which is not supported; nothing was read")
        schema = arrow_schema(table)
        for name in table.metadata().partition_columns:
            if not has_partition_values(schema.field(name).type):
                raise DeltaError(f"{self.place} is partitioned by {name!r}, which is of bytes; nothing was read")
        return schema

    def snapshot(self, version: int) -> list[AddedFile]:
        """All files of a version, ordered by path. Raises `DeltaError` for deletion vectors."""
        table = self.opened(version)
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(table.deletion_vectors()):
            raise self._deletion_vectors(version)
        found = []
        for row in pa.table(table.get_add_actions(flatten=False)).to_pylist():
            partition = tuple((name, partition_value(value)) for name, value in (row.get("partition") or {}).items())
            found.append(AddedFile(unquote(row["path"]), row["size_bytes"], 1000 * row["modification_time"], partition))
        return sorted(found, key=lambda file: file.path)

    def exists(self, version: int) -> bool:
        """Whether a version has been written."""
        info = self.files().get_file_info(_entry(version))
        return bool(info.type == fs.FileType.File)

    def added(self, version: int) -> list[AddedFile]:
        """The files that a version has added, ordered by path; none for one that only arranges rows anew.

        Raises `DeltaError` for a version that deletes or changes rows, or whose log entry is gone.
        """
        try:
            with self.files().open_input_stream(_entry(version)) as file:
                lines = file.read().decode().splitlines()
        except FileNotFoundError as error:
            raise DeltaError(
                f"version {version} of {self.place} is gone from its log, or never was; nothing of it was read. "
                f"Keep entries longer (delta.logRetentionDuration); to go on, {_REMEDY.format('…')}"
            ) from error
        actions = [json.loads(line) for line in lines if line.strip()]
        if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
            name = next((action["commitInfo"].get("operation") for action in actions if "commitInfo" in action), None)
            raise DeltaError(
                f"version {version} of {self.place} deletes or changes rows ({name or 'unknown operation'}), which "
                f"elements that were read cannot follow; nothing of it was read. To go on, {_REMEDY.format(version)}"
            )
        adds = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
        if any(add.get("deletionVector") for add in adds):
            raise self._deletion_vectors(version)
        return sorted(map(_added, adds), key=lambda file: file.path)

    def unreadable(self, file: AddedFile, error: Exception) -> DeltaError:
        """The error for a data file that cannot be read."""
        info = self.files().get_file_info(file.path)
        if info.type == fs.FileType.File:
            return DeltaError(f"data file {file.path} of {self.place} cannot be read: {reason(error)}")
        return DeltaError(
            f"data file {file.path} of {self.place} is gone, as VACUUM removes those that newer versions do not name; "
            "nothing of it was read. Keep files longer (delta.deletedFileRetentionDuration); to go on, "
            + _REMEDY.format("…")
        )

    def _deletion_vectors(self, version: int) -> DeltaError:
        return DeltaError(
            f"version {version} of {self.place} has deletion vectors, which are not supported; nothing of it was read. "
            "Let the writer of the table apply them first (REORG TABLE … APPLY (PURGE))"
        )


def _entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _added(add: dict[str, object]) -> AddedFile:
    values = cast("dict[str, str | None]", add["partitionValues"])
    modified = 1000 * cast(int, add["modificationTime"])
    return AddedFile(unquote(cast(str, add["path"])), cast(int, add["size"]), modified, tuple(values.items()))
