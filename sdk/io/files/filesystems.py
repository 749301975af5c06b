"""Files by path or URL, opened and changed from a program (`apache_beam.io.filesystems.FileSystems`)."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from pyarrow import fs

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.stored_names import stored_as
from headrace.sdk.io.files.filesystem import (
    CompressionTypes,
    compression_of,
    filesystem_of,
    match,
    open_input,
    open_output,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")


class BeamIOError(HeadraceError, OSError):
    """An operation on several files failed for some of them.

    >>> FileSystems.delete(["/no/such/folder/file"])
    Traceback (most recent call last):
      ...
    headrace.sdk.io.files.filesystems.BeamIOError: ...

    Args:
        message: What failed.
        exception_details: File, or pair of files -> the error; None if the operation failed as a whole.
    """

    def __init__(self, message: str, exception_details: Mapping[object, Exception] | None = None) -> None:
        super().__init__(message if exception_details is None else f"{message} with exceptions {exception_details}")
        self.exception_details = exception_details


@stored_as("FileMetadata")
@dataclass(frozen=True, slots=True, order=True)
class FileMetadata:
    """A file that was found.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "scores.txt").write_text("red 5")
    ...     [found] = FileSystems.match([f"{folder}/*"])[0].metadata_list
    >>> Path(found.path).name, found.size_in_bytes
    ('scores.txt', 5)
    """

    path: str
    size_in_bytes: int
    """Size as stored, so that of a compressed file is its compressed size."""
    last_updated_in_seconds: float = 0.0
    """Time of the last change, seconds since 1970 UTC; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The files that a pattern matches.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     [result] = FileSystems.match([f"{folder}/*.txt"])
    >>> result.metadata_list
    []
    """

    pattern: str
    metadata_list: list[FileMetadata]


class OpenFile(io.BufferedIOBase):
    """A binary file, which closing, or the end of a `with` block, completes."""

    def __init__(self, opened: AbstractContextManager[BinaryIO]) -> None:
        self._stack = ExitStack()
        self._file = self._stack.enter_context(opened)

    def readable(self) -> bool:
        """Whether the file is open for reading."""
        return self._file.readable()

    def writable(self) -> bool:
        """Whether the file is open for writing."""
        return self._file.writable()

    def seekable(self) -> bool:
        """Whether `seek` works."""
        return self._file.seekable()

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes; all that follow by default."""
        return self._file.read(-1 if size is None else size)

    def read1(self, size: int = -1, /) -> bytes:
        """See `read`."""
        return self.read(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line, with its end."""
        return self._file.readline(-1 if size is None else size)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes; returns how many."""
        return self._file.write(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to a position; see `io.IOBase.seek`."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._file.tell()

    def flush(self) -> None:
        """Write what is buffered."""
        if not self.closed and self._file.writable():
            self._file.flush()

    def close(self) -> None:
        """Write what is buffered, and close the file."""
        super().close()
        self._stack.close()


class FileSystems:
    """Operations on files of this machine and of object stores, by path or URL.

    Raises `FileNotFoundError`, `PermissionError` or another `OSError` where a file cannot be opened or changed.

    >>> FileSystems.join("s3://bucket/a/", "b", "c.txt"), FileSystems.split("gs://bucket/a/b.txt")
    ('s3://bucket/a/b/c.txt', ('gs://bucket/a', 'b.txt'))
    """

    URI_SCHEMA_PATTERN = _SCHEME

    @staticmethod
    def get_scheme(path: str) -> str | None:
        """The scheme of a URL; None for a path."""
        found = _SCHEME.match(path)
        return found[1] if found else None

    @staticmethod
    def join(basepath: str, *paths: str) -> str:
        """A path below another one."""
        if not _SCHEME.match(basepath):
            return os.path.join(basepath, *paths)
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths[:-1]), *paths[-1:]])

    @staticmethod
    def split(path: str) -> tuple[str, str]:
        """The folder of a path, and the last name in it."""
        scheme = _SCHEME.match(path)
        start = scheme.end() if scheme else 0
        head, tail = os.path.split(path[start:])
        return path[:start] + head, tail

    @staticmethod
    def mkdirs(path: str) -> None:
        """Make a folder, and those around it. Raises `FileExistsError` if there is one."""
        system, inner = filesystem_of(path)
        if system.get_file_info(inner).type != fs.FileType.NotFound:
            raise FileExistsError(f"{path} exists; ask FileSystems.exists before")
        system.create_dir(inner, recursive=True)

    @staticmethod
    def match(patterns: Sequence[str], limits: Sequence[int | None] | None = None) -> list[MatchResult]:
        """The files of each pattern, at most as many as its limit, ordered by path.

        `*` stands for any characters of a name, `?` for one, `[ab]` for one of these, `**/` for any folders. As in the
        transforms that read files, wildcards match no name that begins with `_` or `.`.
        """
        bounds = limits or [None] * len(patterns)
        return [
            MatchResult(pattern, FileSystems._matched(pattern)[:limit])
            for pattern, limit in zip(patterns, bounds, strict=True)
        ]

    @staticmethod
    def _matched(pattern: str) -> list[FileMetadata]:
        system, path = filesystem_of(pattern)
        if not set("*?[") & set(path) and system.get_file_info(path).type != fs.FileType.File:
            return []
        return [FileMetadata(file.path, file.size, file.modified_us / 1e6) for file in match(pattern)]

    @staticmethod
    def create(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """A new binary file to write; its folder is made if it is missing. The MIME type has no effect."""
        return cast(BinaryIO, OpenFile(open_output(path, compression_of(path, compression_type))))

    @staticmethod
    def open(
        path: str, mime_type: str = "application/octet-stream", compression_type: str = CompressionTypes.AUTO
    ) -> BinaryIO:
        """A binary file to read, decompressed. The MIME type has no effect."""
        return cast(BinaryIO, OpenFile(open_input(path, compression_of(path, compression_type))))

    @staticmethod
    def copy(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Copy files, and folders with all that is in them. Raises `BeamIOError` if some could not be copied."""
        _each(_copy, _pairs(source_file_names, destination_file_names), "copy failed")

    @staticmethod
    def rename(source_file_names: Sequence[str], destination_file_names: Sequence[str]) -> None:
        """Rename files and folders. Raises `BeamIOError` if some could not be renamed."""
        _each(_rename, _pairs(source_file_names, destination_file_names), "rename failed")

    @staticmethod
    def exists(path: str) -> bool:
        """Whether there is a file or folder."""
        system, inner = filesystem_of(path)
        return bool(system.get_file_info(inner).type != fs.FileType.NotFound)

    @staticmethod
    def last_updated(path: str) -> float:
        """Time of the last change, seconds since 1970 UTC."""
        return float(_info(path).mtime_ns) / 1e9

    @staticmethod
    def checksum(path: str) -> str:
        """The size of a file, as text."""
        return str(_info(path).size)

    @staticmethod
    def delete(paths: Sequence[str]) -> None:
        """Delete files, and folders with all that is in them. Raises `BeamIOError` if some could not be deleted."""
        _each(_delete, paths, "delete failed")


def _info(path: str) -> fs.FileInfo:
    system, inner = filesystem_of(path)
    info = system.get_file_info(inner)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"{path} does not exist")
    return info


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    if len(sources) != len(targets):
        raise BeamIOError(f"{len(sources)} files cannot get {len(targets)} names; give as many names as files")
    return list(zip(sources, targets, strict=True))


def _each(operation: Callable[..., None], items: Iterable[object], problem: str) -> None:
    errors: dict[object, Exception] = {}
    for item in items:
        try:
            operation(*item) if isinstance(item, tuple) else operation(item)
        except (OSError, ValueError) as error:
            errors[item] = error
    if errors:
        raise BeamIOError(problem, errors)


def _copy(source: str, target: str) -> None:
    _info(source)
    (origin, inner), (destination, new) = filesystem_of(source), filesystem_of(target)
    fs.copy_files(inner, new, source_filesystem=origin, destination_filesystem=destination)


def _rename(source: str, target: str) -> None:
    _info(source)
    (system, inner), (other, new) = filesystem_of(source), filesystem_of(target)
    if type(system) is not type(other):
        raise ValueError(f"{source} and {target} are on different file systems; copy the file, and delete it")
    system.move(inner, new)


def _delete(path: str) -> None:
    system, inner = filesystem_of(path)
    if _info(path).type == fs.FileType.Directory:
        system.delete_dir(inner)
    else:
        system.delete_file(inner)
