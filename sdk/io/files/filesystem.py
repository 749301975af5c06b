"""Files on this machine or in an object store: found by pattern, opened with compression.

Compressed files of several streams are read to the end of the last stream or to an error.
"""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import lzma
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from os.path import abspath
from posixpath import join, split
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.errors import HeadraceError
from headrace.lowlevel.storage.arrow_urls import without_keys
from headrace.lowlevel.storage.credentials import without_secrets
from headrace.lowlevel.storage.object_store import HADOOP_REMEDY, PlaceError, StoreError
from headrace.lowlevel.storage.places import Use, hidden, is_url, one_spelling, refusal, understood_place
from headrace.sdk.io.path_patterns import MAGIC, FolderPattern, Places, expression, walked, with_slashes
from headrace.sdk.io.remote_filesystems import remote_filesystem, url_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class StreamsReader(io.RawIOBase):
    """Decompressed bytes of all streams of a file, which `cat`, pbzip2 and pixz write one behind the other.

    Python's `bz2.open` and `lzma.open` take anything behind the first stream that is no stream for the end of the file.
    Here it is an error, as the records of a damaged stream would be lost otherwise.

    Args:
        file: The compressed file.
        decompressor: Makes the decompressor of a stream.
        padding: Number of zero bytes of which any multiple may stand behind a stream; 0 for none.

    >>> file = io.BytesIO(bz2.compress(b"tea") + bz2.compress(b"jam"))
    >>> StreamsReader(file, bz2.BZ2Decompressor).read()
    b'teajam'
    """

    def __init__(
        self, file: BinaryIO, decompressor: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor], padding: int = 0
    ) -> None:
        self._file, self._new, self._padding = file, decompressor, padding
        self._stream = decompressor()
        self._rest = b""
        """Compressed bytes that are read and not decompressed."""

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """See `io.RawIOBase`. Raises `EOFError` for a stream that is cut off, and what the decompressor raises."""
        view = memoryview(buffer).cast("B")
        data = b""
        while not data and view.nbytes:
            if self._stream.eof and not self._next_stream():
                break
            if self._stream.needs_input:
                self._rest = self._rest or self._file.read(io.DEFAULT_BUFFER_SIZE)
                if not self._rest:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            compressed, self._rest = self._rest, b""
            data = self._stream.decompress(compressed, max_length=view.nbytes)
        view[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bool:
        """Begin the stream behind the current one and its padding; false at the end of the file."""
        self._rest, padded = self._stream.unused_data, 0
        while self._padding:
            stripped = self._rest.lstrip(b"\0")
            padded += len(self._rest) - len(stripped)
            self._rest = stripped or self._file.read(io.DEFAULT_BUFFER_SIZE)
            if stripped or not self._rest:
                break
        if self._padding and padded % self._padding:
            raise lzma.LZMAError(f"{padded} zero bytes are behind a stream, which is no multiple of {self._padding}")
        self._rest = self._rest or self._file.read(io.DEFAULT_BUFFER_SIZE)
        if self._rest:
            self._stream = self._new()
        return bool(self._rest)


def bzip2_reader(file: BinaryIO) -> io.BufferedReader:
    """The decompressed bytes of a bzip2 file."""
    return io.BufferedReader(StreamsReader(file, bz2.BZ2Decompressor))


def xz_reader(file: BinaryIO) -> io.BufferedReader:
    """The decompressed bytes of an xz file, whose streams may have padding behind them, or of an old .lzma file."""
    return io.BufferedReader(StreamsReader(file, lzma.LZMADecompressor, padding=4))


_log = logging.getLogger(__name__)
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".lzma": "lzma", ".zst": "zstd"}
_NAMES = ("auto", "uncompressed", *_COMPRESSIONS.values())
_MIME_TYPES = {"bzip2": "x-bz2", "gzip": "x-gzip", "zstd": "zstd", "lzma": "lzma", "xz": "lzma"}
_ATTEMPTS = 10
_LISTING, _PATIENCE = 5, 60
"""Seconds for which requests for lists of files, and other requests, are repeated (`gs://` only)."""
_LONG = re.compile(r"\s+|error_info=.*", re.DOTALL)
_LIBRARY = re.compile(r"Unable to load lib(jvm|hdfs)")
_Opener = Callable[[object, str], AbstractContextManager[object]]
_WRITERS = cast(dict[str, _Opener], {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open, "lzma": lzma.open})
_READERS = cast(
    dict[str, Callable[[object], AbstractContextManager[object]]],
    {"gzip": gzip.open, "bzip2": bzip2_reader, "xz": xz_reader, "lzma": xz_reader},
)


class CompressionTypes:
    """Names of compressions: Beam's, and zstd.

    >>> CompressionTypes.detect_compression_type("scores.csv.gz")
    'gzip'
    """

    AUTO = "auto"
    """The compression that the suffix of the file name states."""
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    LZMA = "lzma"
    """Beam's name of `XZ`."""
    ZSTD = "zstd"

    @classmethod
    def is_valid_compression_type(cls, compression_type: object) -> bool:
        """Whether it is one of the names."""
        return compression_type in _NAMES

    @classmethod
    def mime_type(cls, compression_type: str, default: str = "application/octet-stream") -> str:
        """The MIME type of a compression.

        >>> CompressionTypes.mime_type("gzip"), CompressionTypes.mime_type("auto")
        ('application/x-gzip', 'application/octet-stream')
        """
        name = _MIME_TYPES.get(compression_type)
        return default if name is None else f"application/{name}"

    @classmethod
    def detect_compression_type(cls, file_path: str) -> str:
        """The compression that the suffix of a file's name states, in any case.

        >>> [CompressionTypes.detect_compression_type(name) for name in ("a.GZ", "a.xz", "a.txt")]
        ['gzip', 'lzma', 'uncompressed']
        """
        found = compression_of(file_path.lower())
        return cls.LZMA if found == cls.XZ else found


_CAUSES = {
    FileNotFoundError: "no such folder, and none can be made there",
    NotADirectoryError: "a part of that path is a file",
    PermissionError: "permission denied",
}
"""Why a folder cannot be made."""

Path: TypeAlias = str | PathLike[str]
"""A path or a URL."""


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """A file that a pattern matches."""

    path: str
    size: int
    """Size in bytes, compressed."""
    modified_us: int
    """Time of the last change, microseconds UTC; 0 if unknown."""


class ReachError(HeadraceError, OSError):
    """A file system that cannot be reached, or does not answer. Nothing was read or written."""


def filesystem_of(path: str, patience: int = _PATIENCE) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path on it.

    Args:
        path: The path or URL.
        patience: Seconds for which a request is repeated (`gs://` only).

    Raises:
        PlaceError: Files cannot be at that URL.
        ReachError: What the URL's scheme needs is not installed, or the file system does not answer.

    >>> filesystem_of("/data/flights")[1]
    '/data/flights'
    """
    path = _understood(path)
    if not is_url(path):
        return fs.LocalFileSystem(), with_slashes(abspath(path))
    with reaching(path, "opened"):
        return remote_filesystem(path, patience)


@contextmanager
def reaching(pattern: str, what: str = "listed") -> Iterator[None]:
    """Raises `ReachError`, which names the location, if a file system does not answer."""
    try:
        yield
    except (FileNotFoundError, PermissionError, StoreError, ReachError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise
    except (OSError, pa.ArrowException) as error:
        if not is_url(pattern):
            raise
        told = _LONG.sub(" ", str(error)).strip()
        reason = without_secrets(hidden(told))[:800]
        remedy = "check the network, the location and the credentials"
        if missing := _LIBRARY.match(reason):
            reason, remedy = missing[0], HADOOP_REMEDY
        raise ReachError(
            f"{without_keys(pattern)} cannot be {what}: {reason}; {remedy}, and start again; "
            "nothing has been read or written"
        ) from (error if told == hidden(told) else None)


def denied(path: str, error: PermissionError) -> PermissionError:
    """An error for a file that this user must not read, which says what to do."""
    return PermissionError(
        error.errno, f"{path} cannot be read: permission denied; give this user the right to read it, or leave it out"
    )


def no_folder(folder: str, error: OSError) -> OSError:
    """An error of the same class for a folder of output that cannot be made, which says what to do."""
    return OSError(
        error.errno, f"folder {folder} cannot be made: {_CAUSES[type(error)]}; choose another place for the output"
    )


def absolute(path: str) -> str:
    """The absolute path of a path, or the URL unchanged; `~` is the home.

    Raises:
        PlaceError: Files cannot be at that URL.

    >>> absolute("s3://bucket/flights"), absolute("/data/../flights")
    ('s3://bucket/flights', '/flights')
    """
    path = _understood(path)
    return path if is_url(path) else with_slashes(abspath(path))


def same_folder(path: str, other: str) -> bool:
    """Whether two absolute paths or URLs are those of one folder; on this machine links count as what they lead to.

    >>> same_folder("/data/out", "/data/out/"), same_folder("s3://bucket/a", "s3://bucket/b")
    (True, False)
    """
    return without_links(path) == without_links(other)


def without_links(path: str) -> str:
    """An absolute path on this machine with the folders that its links lead to; a URL in one spelling.

    >>> without_links("file:///data/a%20b"), without_links("s3://bucket/a%20b/")
    ('/data/a b', 's3://bucket/a b')
    """
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    return one_spelling(path) if is_url(path) else os.path.realpath(path or "/")


def _understood(path: str) -> str:
    if (wrong := refusal(path, Use.FILES)) is not None:
        raise PlaceError(wrong)
    return understood_place(path, Use.FILES)


def match(pattern: str) -> list[MatchedFile]:
    """The files of a pattern, ordered by path.

    `*` stands for any characters of a name, `?` for one character, `[ab]` for one of these characters, `**/` for any
    folders, `**` without a slash for any characters of a path. The path of a folder stands for all files in it, without
    those in inner folders. Wildcards match no name that begins with `_` or `.`, as such files are unfinished or hidden.

    Raises:
        ValueError: A match is neither a file nor a folder.
        ReachError: The file system of a URL does not answer.
    """
    return sorted(DirectoryListing(pattern).look(), key=lambda file: file.path)


@dataclass(frozen=True, slots=True)
class Search:
    """Where the files of a pattern are looked for."""

    system: fs.FileSystem
    folder: str
    """The folder above all that can match."""
    recursive: bool
    """Whether files in folders below it can match."""
    expression: re.Pattern[str]
    """Matches the paths on the file system."""
    below: FolderPattern
    """What of the pattern is below the folder."""

    @classmethod
    def of(cls, pattern: str) -> Search:
        """The search for a pattern; a path without wildcards is that of a folder."""
        system, path = filesystem_of(pattern, _LISTING)
        if not MAGIC.search(path):
            path = path.rstrip("/") + "/*"
        folder = MAGIC.split(path, maxsplit=1)[0].rpartition("/")[0]
        is_deep = "/" in path[len(folder) + 1 :] or "**" in path
        return cls(system, folder or "/", is_deep, re.compile(expression(path)), FolderPattern(path[len(folder) + 1 :]))

    def matches(self, folder: str, places: Places | None, name: str) -> bool:
        """Whether a file of a folder that is walked with these places matches."""
        if places is None:
            return self.expression.fullmatch(join(folder, name)) is not None
        return self.below.matches(places, name)


@lru_cache(maxsize=1024)
def say_link_to_nothing(path: str) -> None:
    """Say once, if a path that is no file is a link, that its file is left out."""
    if os.path.islink(path):
        _log.warning(
            "%s is a link to a file that is not there, so it is left out; put the file there, or remove the link", path
        )


def lacks_folder(pattern: str) -> bool:
    """Whether the folder above all that a pattern can match is missing on this machine; other systems are not asked."""
    search = Search.of(pattern)
    local = isinstance(search.system, fs.LocalFileSystem)
    return local and not os.path.isdir(search.folder) and single_file(pattern) is None


def single_file(pattern: str) -> MatchedFile | None:
    """The file whose path the pattern is; None if the pattern stands for several files, or for none."""
    system, path = filesystem_of(pattern, _LISTING)
    if not MAGIC.search(path):
        info = system.get_file_info(path)
        if info.type in (fs.FileType.File, fs.FileType.Unknown):
            return matched_file(pattern, info)
    return None


_TRUSTED_NS = 10_000_000_000
"""Nanoseconds for which a folder counts as unchanged because the time of its last change is: not all file systems tell
it."""
_TICK_NS = 2_000_000_000
"""Nanoseconds in which a folder may change twice at what its file system takes for one time."""

_NEVER: Places = frozenset()
"""What was looked for in a folder at which nobody has looked."""


@dataclass
class _Folder:
    """A folder of this machine as it was read last."""

    changed_ns: int
    """Time of its last change."""
    read_ns: int
    """When it was read."""
    files: dict[str, int]
    """Name of each entry that is no folder -> its number in the file system, which a replaced file does not keep."""
    folders: list[tuple[str, bool]]
    """Name of each folder, and whether it is a link."""

    def is_current(self, changed_ns: int, now_ns: int) -> bool:
        """Whether the folder need not be read again."""
        settled = self.changed_ns < self.read_ns - _TICK_NS
        return changed_ns == self.changed_ns and settled and 0 <= now_ns - self.read_ns < _TRUSTED_NS


@dataclass
class DirectoryListing:
    """The files of a pattern that are new since the last look.

    On this machine a folder is read only if it has changed, and only new files are examined. Elsewhere each look lists
    all files.
    """

    pattern: str
    now_ns: Callable[[], int] = time.time_ns
    _folders: dict[str, _Folder] = field(default_factory=dict, repr=False)
    _places: dict[str, Places | None] = field(default_factory=dict, repr=False)
    """What of the pattern was looked for in each folder."""
    _elsewhere: dict[str, int] = field(default_factory=dict, repr=False)
    """Path -> time of the last change, of all files at the last look; for other file systems."""
    is_missing: bool = False
    """Whether the folder did not exist at the last look; other file systems do not tell."""

    def look(self) -> list[MatchedFile]:
        """Files that were not there at the last look, or were replaced since; in no order.

        Raises:
            ValueError: A match is neither a file nor a folder, or its name is not UTF-8.
            ReachError: The file system of a URL does not answer.
        """
        with reaching(self.pattern):
            if (single := single_file(self.pattern)) is not None:
                return [single] if self._is_new(single) else []
            search = Search.of(self.pattern)
            if isinstance(search.system, fs.LocalFileSystem):
                return list(self._local(search))
            return self._remote(search)

    def forget(self, path: str) -> None:
        """Take the file for new when it is there again."""
        self._elsewhere.pop(path, None)
        folder, name = split(path)
        if (known := self._folders.get(folder)) is not None:
            known.files.pop(name, None)

    def _is_new(self, file: MatchedFile) -> bool:
        before, self._elsewhere = self._elsewhere, {file.path: file.modified_us}
        return before != self._elsewhere

    def _remote(self, search: Search) -> list[MatchedFile]:
        selector = fs.FileSelector(search.folder, recursive=search.recursive, allow_not_found=True)
        found = search.system.get_file_info(selector)
        infos = {info.path: info for info in found if info.type != fs.FileType.Directory}
        before, self._elsewhere = self._elsewhere, {path: info.mtime_ns or 0 for path, info in infos.items()}
        new = [path for path, changed in self._elsewhere.items() if before.get(path) != changed]
        return [matched_file(self.pattern, infos[path]) for path in new if search.expression.fullmatch(path)]

    def _local(self, search: Search) -> Iterator[MatchedFile]:
        before, self._folders = self._folders, {}
        places_before, self._places = self._places, {}
        self.is_missing = not os.path.isdir(search.folder)

        def listed(folder: str) -> list[tuple[str, bool]]:
            self._folders[folder] = self._read(folder, before.get(folder))
            return self._folders[folder].folders

        for folder, places in walked(search.folder, search.below, listed):
            self._places[folder] = places
            files = self._folders[folder].files
            known = before[folder].files if places_before.get(folder, _NEVER) == places else {}
            for name in [] if files is known else [name for name, number in files.items() if known.get(name) != number]:
                if search.matches(folder, places, name) and (file := self._examined(folder, name)) is not None:
                    yield file

    def _read(self, folder: str, before: _Folder | None) -> _Folder:
        """The folder as it is now. Raises `FileNotFoundError` if it does not exist."""
        now = self.now_ns()
        changed = os.stat(folder).st_mtime_ns
        if before is not None and before.is_current(changed, now):
            return before
        files: dict[str, int] = {}
        folders: list[tuple[str, bool]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append((entry.name, entry.is_symlink()))
                else:
                    files[entry.name] = entry.inode()
        return _Folder(changed, now, files, folders)

    def _examined(self, folder: str, name: str) -> MatchedFile | None:
        """The file; None if it is gone again."""
        path = join(folder, name)
        try:
            path.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"a file in {folder} has the name {os.fsencode(name)!r}, which is not UTF-8; rename it, or choose a "
                "pattern that leaves it out"
            ) from None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            del self._folders[folder].files[name]
            say_link_to_nothing(path)
            return None
        kind = fs.FileType.File if stat.S_ISREG(found.st_mode) else fs.FileType.Unknown
        info = fs.FileInfo(path, kind, size=found.st_size, mtime_ns=found.st_mtime_ns)
        return matched_file(self.pattern, info)


def is_gone(path: str) -> bool:
    """Whether a file does not exist, or a folder is in its place; False if that cannot be told."""
    with suppress(OSError, pa.ArrowException):
        system, inner = filesystem_of(path, _LISTING)
        return system.get_file_info(inner).type in (fs.FileType.NotFound, fs.FileType.Directory)
    return False


def present(file: MatchedFile) -> MatchedFile | None:
    """A file as it is now; None if it is gone, or if that cannot be told."""
    with suppress(OSError, pa.ArrowException):
        system, inner = filesystem_of(file.path, _LISTING)
        info = system.get_file_info(inner)
        if info.type == fs.FileType.File:
            return MatchedFile(file.path, info.size or 0, (info.mtime_ns or 0) // 1000)
    return None


def matcher(pattern: str) -> tuple[str, str, Callable[[str], bool]]:
    """The type of a pattern's file system, the pattern, and a function that tells whether it matches a path there.

    >>> [matcher(pattern)[2]("/a/b.csv") for pattern in ("/a", "/a/*.csv", "/a/b.csv", "/a/*.txt")]
    [True, True, True, False]
    """
    system, path = filesystem_of(pattern)
    forms = [path] if MAGIC.search(path) else [path, path.rstrip("/") + "/*"]
    expressions = [re.compile(expression(form)) for form in forms]
    return system.type_name, pattern, lambda file: any(expression.fullmatch(file) for expression in expressions)


def matched_file(pattern: str, info: fs.FileInfo) -> MatchedFile:
    """The file, with a URL if the pattern is a URL. Raises `ValueError` unless it is a file."""
    if info.type != fs.FileType.File:
        raise ValueError(
            f"{info.path} is neither a file nor a folder (a pipe, a socket, a device), so it cannot be read again "
            "after a failure; read a file, or choose a pattern that leaves it out"
        )
    return MatchedFile(url_of(pattern, info.path), info.size or 0, (info.mtime_ns or 0) // 1000)


def compression_of(path: str, stated: str = "auto") -> str:
    """The compression of a file: as stated, or by the suffix of its name. Raises `ValueError` for an unknown name.

    >>> compression_of("log.gz"), compression_of("log.txt"), compression_of("log.gz", "uncompressed")
    ('gzip', 'uncompressed', 'uncompressed')
    """
    if stated not in _NAMES:
        raise ValueError(f"compression {stated!r} is not known; use one of {', '.join(_NAMES)}")
    if stated != "auto":
        return stated
    return next((name for ending, name in _COMPRESSIONS.items() if path.endswith(ending)), "uncompressed")


@contextmanager
def open_input(path: str, compression: str = "uncompressed") -> Iterator[BinaryIO]:
    """Open a file for reading its decompressed bytes; only an uncompressed file is seekable.

    Raises `EOFError` for an empty file that should be compressed, as every compressed file has a header.
    """
    system, inner = filesystem_of(path)
    with ExitStack() as stack:
        try:
            raw = system.open_input_file(inner)
        except PermissionError as error:
            raise denied(path, error) from None
        if compression != "uncompressed" and not raw.size():
            raise EOFError(f"the file is empty, but no {compression} file is; it was cut off")
        if compression == "zstd":
            raw = pa.CompressedInputStream(raw, "zstd")
        # Arrow's files cannot read lines.
        file: object = stack.enter_context(io.BufferedReader(cast(io.RawIOBase, raw)))
        if reader := _READERS.get(compression):
            file = stack.enter_context(reader(file))
        yield cast(BinaryIO, file)


@contextmanager
def open_output(path: str, compression: str = "uncompressed") -> Iterator[BinaryIO]:
    """Open a new file whose bytes are compressed as they are written; its folder is made if it is missing."""
    with ExitStack() as stack:
        file = stack.enter_context(_created(path, "zstd" if compression == "zstd" else None))
        if writer := _WRITERS.get(compression):
            file = stack.enter_context(writer(file, "wb"))
        yield cast(BinaryIO, file)


def _created(path: str, compression: str | None) -> AbstractContextManager[object]:
    system, inner = filesystem_of(path)
    folder = inner.rpartition("/")[0]
    for _ in range(_ATTEMPTS):
        try:
            if folder:
                system.create_dir(folder, recursive=True)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise no_folder(folder, error) from None
        # Another run that stages files in the same folder may end now, and remove the folder if it is empty.
        with suppress(FileNotFoundError):
            return cast("AbstractContextManager[object]", system.open_output_stream(inner, compression=compression))
    raise FileNotFoundError(f"{folder} was removed {_ATTEMPTS} times before a file could be made in it")
