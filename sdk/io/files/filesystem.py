"""Files by pattern, on this machine or in an object store, and their bytes, decompressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from os.path import abspath
from typing import BinaryIO, TypeAlias, cast

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.errors import HeadraceError

_URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_MAGIC = re.compile(r"[*?\[]")
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
_NAMES = ("auto", "uncompressed", *_COMPRESSIONS.values())
_ATTEMPTS = 10
_LISTING, _PATIENCE = 5, 60
"""Seconds that looking for files, and work on them, are tried again where a file system leaves that to us."""
_KEY = re.compile(r"://[^/@]+:[^/@]+@")
"""What a URL says of a key and its secret."""
_LONG = re.compile(r"\s+|error_info=.*", re.DOTALL)
_Opener = Callable[[object, str], AbstractContextManager[object]]
_OPENERS = cast(dict[str, _Opener], {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open})


class CompressionTypes:
    """Names of compressions, as Beam has them, and one more."""

    AUTO = "auto"
    """By the ending of the file's name."""
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    ZSTD = "zstd"


Path: TypeAlias = str | PathLike[str]
"""A path or a URL."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a pattern matches."""

    path: str
    size: int
    """Bytes, as stored."""
    modified_us: int
    """When it was last written, microseconds UTC."""


class ReachError(HeadraceError, OSError):
    """A file system that cannot be reached, or does not answer. Nothing was read or written."""


def filesystem_of(path: str, patience: int = _PATIENCE) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path on it.

    Args:
        path: What names them.
        patience: Seconds that a request is tried again, where the file system takes that from us (`gs://`).

    >>> filesystem_of("/data/flights")[1]
    '/data/flights'
    """
    if not _URL.match(path):
        return fs.LocalFileSystem(), abspath(path)
    if path.startswith(("gs://", "gcs://")) and "retry_limit_seconds=" not in path:
        # Google's own limit is a quarter of an hour, in which nothing is said.
        path += f"{'&' if '?' in path else '?'}retry_limit_seconds={patience}"
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(path)
    return found


@contextmanager
def _reaching(pattern: str) -> Iterator[None]:
    """Says which place it was that did not answer."""
    try:
        yield
    except (FileNotFoundError, PermissionError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise
    except (OSError, pa.ArrowException) as error:
        if not _URL.match(pattern):
            raise
        said = _LONG.sub(" ", str(error)).strip()[:800]
        raise ReachError(
            f"{_KEY.sub('://…@', pattern)} cannot be looked at: {said}; look at the network, the name of the place and "
            "the credentials for it, and start again; nothing has been read"
        ) from error


def absolute(path: str) -> str:
    """The same place for processes that are in other folders.

    >>> absolute("s3://bucket/flights"), absolute("/data/../flights")
    ('s3://bucket/flights', '/flights')
    """
    return path if _URL.match(path) else abspath(path)


def match(pattern: str) -> list[Found]:
    """The files of a pattern, ordered by name.

    `*` and `?` stand for characters of a name, `[ab]` for one of these, `**` for any folders. A folder's name stands
    for all files in it; folders in it are passed over. What a wildcard stands for never begins with `_` or `.`: those
    are unfinished or hidden files.

    Raises:
        ValueError: It is a pipe, a socket or a device.
        ReachError: The file system of a URL does not answer.
    """
    with _reaching(pattern):
        return _matched(pattern)


def _matched(pattern: str) -> list[Found]:
    system, path = filesystem_of(pattern, _LISTING)
    if not _MAGIC.search(path):
        info = system.get_file_info(path)
        if info.type in (fs.FileType.File, fs.FileType.Unknown):
            return [_found(pattern, path, info)]
        path = path.rstrip("/") + "/*"
    folder = _MAGIC.split(path, maxsplit=1)[0].rpartition("/")[0]
    wanted = re.compile(_expression(path))
    selector = fs.FileSelector(folder or "/", recursive="/" in path[len(folder) + 1 :], allow_not_found=True)
    infos = [info for info in system.get_file_info(selector) if info.type != fs.FileType.Directory]
    return sorted(
        (_found(pattern, path, info) for info in infos if wanted.fullmatch(info.path)), key=lambda found: found.path
    )


def matcher(pattern: str) -> tuple[str, str, Callable[[str], bool]]:
    """What file system a pattern is for, the pattern, and whether it has the file of a path there.

    >>> [matcher(pattern)[2]("/a/b.csv") for pattern in ("/a", "/a/*.csv", "/a/b.csv", "/a/*.txt")]
    [True, True, True, False]
    """
    system, path = filesystem_of(pattern)
    forms = [path] if _MAGIC.search(path) else [path, path.rstrip("/") + "/*"]
    expressions = [re.compile(_expression(form)) for form in forms]
    return system.type_name, pattern, lambda file: any(one.fullmatch(file) for one in expressions)


def _found(pattern: str, path: str, info: fs.FileInfo) -> Found:
    """The file under a name that `filesystem_of` understands, in the manner of the pattern."""
    if info.type != fs.FileType.File:
        raise ValueError(
            f"{info.path} is neither a file nor a folder (a pipe, a socket, a device), so it cannot be read again "
            "after a failure; read a file, or choose a pattern that leaves it out"
        )
    scheme = pattern[: pattern.index("://") + 3] if "://" in pattern else ""
    return Found(scheme + info.path, info.size or 0, (info.mtime_ns or 0) // 1000)


def _expression(pattern: str) -> str:
    """A regular expression for what a pattern matches.

    >>> bool(re.fullmatch(_expression("/a/*.csv"), "/a/b.csv")), bool(re.fullmatch(_expression("/a/*"), "/a/_b"))
    (True, False)
    """
    tokens = re.split(r"(\*\*/|\*|\?|\[[^\]]+\])", pattern)
    visible = r"(?!(?<=/)[_.])"
    meaning = {"**/": rf"(?:{visible}[^/]+/)*", "*": rf"{visible}[^/]*", "?": rf"{visible}[^/]"}
    return "".join(meaning.get(token) or (token if _is_set(token) else re.escape(token)) for token in tokens)


def _is_set(token: str) -> bool:
    return token.startswith("[") and token.endswith("]") and len(token) > 2


def compression_of(path: str, stated: str = "auto") -> str:
    """The compression of a file: as stated, else by the ending of its name.

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
    """The bytes of a file, decompressed; only those of an uncompressed file can be sought."""
    system, inner = filesystem_of(path)
    with ExitStack() as opened:
        if compression == "zstd":
            stored = system.open_input_stream(inner, compression="zstd")
        else:
            stored = system.open_input_file(inner)
        # Arrow's files have no lines.
        file: object = opened.enter_context(io.BufferedReader(cast(io.RawIOBase, stored)))
        if opener := _OPENERS.get(compression):
            file = opened.enter_context(opener(file, "rb"))
        yield cast(BinaryIO, file)


@contextmanager
def open_output(path: str, compression: str = "uncompressed") -> Iterator[BinaryIO]:
    """A new file to write to, compressed on the way; its folder is made if need be."""
    with ExitStack() as opened:
        file = opened.enter_context(_created(path, "zstd" if compression == "zstd" else None))
        if opener := _OPENERS.get(compression):
            file = opened.enter_context(opener(file, "wb"))
        yield cast(BinaryIO, file)


def _created(path: str, compression: str | None) -> AbstractContextManager[object]:
    system, inner = filesystem_of(path)
    folder = inner.rpartition("/")[0]
    for _ in range(_ATTEMPTS):
        system.create_dir(folder, recursive=True)
        # A run that ends removes the folder of staged files if it is empty, also if that of another run is the same.
        with suppress(FileNotFoundError):
            return cast("AbstractContextManager[object]", system.open_output_stream(inner, compression=compression))
    raise FileNotFoundError(f"{folder} was removed {_ATTEMPTS} times before a file could be made in it")
