"""Names of staged and delivered output files, and the receipts by which the driver finds staged files."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.storage.places import AzurePlace, is_url
from headrace.sdk.io.files.filesystem import absolute, filesystem_of, no_folder, without_links
from headrace.sdk.io.remote_filesystems import prefix_of

HIDDEN = "_unfinished"
"""Folder of files that are not delivered; readers ignore names that begin with `_`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLDER = re.compile(r"[^/\\\0=]+=[^/\\\0]*")
_INSTANT = r"-(?:\d{8}T\d{6}(?:\.\d{6})?Z|-?\d+us)"
_MARK = rf"(?:{_INSTANT}){{0,2}}-\d+(?:-retracted)?"
_NUMBERED = r"-\d{6,}(?:-[0-9a-f]{12})?-\d{5,}"
"""Epoch, hash of the set of files (with `append`), number."""
_SHARD = r"-\d{5,}-of-\d{5,}"
"""Number of the shard, number of shards."""
_STAGED = r"-(\d{6,})-\d+-[0-9A-Za-z]+(?:-\d+){0,2}(?:-[0-9a-f]{12})?"
"""Epoch, interval, token, numbers of window and folder, random suffix (with `append`)."""
_ORDER = "names.json"
_URL = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/@?]*@)?([^?]*)")
_NUMBERS = re.compile(r"[-0-9of]*")


class PaneMark(NamedTuple):
    """The window and pane of an element. Persisted as part of a receipt: every field."""

    start: int | None
    """Start of the window, microseconds UTC; None for the global window, and for a window that has only an end."""
    end: int | None
    """End of the window, microseconds UTC; None for the global window."""
    pane: int
    """Index of the pane."""
    retracted: bool
    """Whether the pane is a retraction."""

    def __str__(self) -> str:
        times = [_instant(time) for time in (self.start, self.end) if time is not None]
        return "-".join([*times, str(self.pane), *(["retracted"] if self.retracted else [])])


def _instant(micros: int) -> str:
    """An instant as part of a file name: ISO 8601 without colons, as Hadoop's paths cannot have colons.

    >>> _instant(0), _instant(1_704_067_200_500_000)
    ('19700101T000000Z', '20240101T000000.500000Z')
    """
    try:
        time = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        # Before the year 1 or after 9999.
        return f"{micros}us"
    return time.strftime(f"{time.year:04d}%m%dT%H%M%S") + (f".{time.microsecond:06d}Z" if time.microsecond else "Z")


class StagedFile(NamedTuple):
    """A hidden file of one attempt. Persisted as part of a receipt: every field."""

    name: str
    """Name in the hidden folder."""
    size: int
    """Size in bytes."""
    folder: str = ""
    """Folder below that of the output, named by column values; empty for none."""
    mark: PaneMark | None = None
    """The window and pane of the file; None for files of an epoch."""
    columns: str = ""
    """The schema of the rows as the task has inferred it, see `encoded_schema`; empty if it is settled."""


class OldFile(NamedTuple):
    """A file of an earlier run, as it was when this run began. Persisted as part of a receipt: every field."""

    path: str
    """Path relative to the folder of the output."""
    size: int
    """Size in bytes."""
    modified_ns: int
    """Time of the last change, nanoseconds since 1970 UTC; 0 if unknown."""

    @classmethod
    def of(cls, info: fs.FileInfo, folder: str) -> OldFile:
        """The file that a file system describes."""
        return cls(info.path[len(folder) + 1 :], info.size, info.mtime_ns or 0)


class OutputName(NamedTuple):
    """The prefix and suffix of an output's files. Persisted as part of a receipt: every field."""

    prefix: str
    """A path or URL, without credentials and options."""
    suffix: str

    @classmethod
    def of(cls, prefix: str, suffix: str) -> OutputName:
        """The name of an absolute path or URL.

        >>> OutputName.of("s3://key:secret@bucket/sums?region=eu-west-1", ".txt").prefix
        's3://bucket/sums'
        >>> OutputName.of("abfss://data@sales.dfs.core.windows.net/sums", ".txt").prefix
        'abfss://data@sales.dfs.core.windows.net/sums'
        """
        if AzurePlace.of(prefix) is not None:
            return cls(prefix.partition("?")[0], suffix)
        return cls.of_first_release(prefix, suffix)

    @classmethod
    def of_first_release(cls, prefix: str, suffix: str) -> OutputName:
        """The name in receipts of 0.1.0, which left out the container of Azure as it does users."""
        url = _URL.match(prefix)
        return cls(prefix if url is None else "".join(url.groups()), suffix)

    def clashes(self, other: OutputName) -> bool:
        """Whether files of both names can have equal paths.

        >>> name, others = OutputName("/out", ".txt"), (("/out", ".csv"), ("file:///out", ".txt"))
        >>> [name.clashes(OutputName(*other)) for other in others]
        [False, True]
        """
        short, long = sorted((self.suffix, other.suffix), key=len)
        begin, extended = sorted((self._path_without_links(), other._path_without_links()), key=len)
        if begin == extended:
            return long.endswith(short) and bool(_NUMBERS.fullmatch(long[: len(long) - len(short)]))
        return extended.startswith(begin) and bool(re.fullmatch(f"{_INSTANT}[^/]*", extended[len(begin) :]))

    def _path_without_links(self) -> str:
        folder, slash, name = self.prefix.rpartition("/")
        return without_links(folder) + slash + (unquote(name) if is_url(self.prefix) else name)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The files that a task has staged, or the files of earlier runs that a run found when it began."""

    output: OutputName
    parts: tuple[StagedFile, ...] = ()
    """Files that the task has staged."""
    replaced: tuple[OldFile, ...] = ()
    """Files of an earlier run, which the first delivery removes."""
    columns: str = ""
    """The schema of all files of the run, see `encoded_schema`; empty if it is not settled, or stated."""
    run: str = ""
    """The number of the run, see `RunFiles`; empty in a receipt of a task, and in those of 0.1.0."""
    hidden: int | None = None
    """How many files of a bounded collection were delivered before; None if that is not known, or for another one."""

    def encode(self) -> bytes:
        """The receipt as JSON."""
        parts = [part if part.columns else part[:-1] for part in self.parts]
        others = {"columns": self.columns or None, "run": self.run or None, "hidden": self.hidden}
        told = {name: value for name, value in others.items() if value is not None}
        return json.dumps({"place": self.output, "parts": parts, "replaced": self.replaced, **told}).encode()

    @classmethod
    def decode(cls, data: bytes, epoch: int) -> Receipt:
        """The receipt of a committed epoch. Raises `CheckpointError` for a receipt that no file sink has made.

        A checkpoint may have been written by others. A receipt that passes can move files with names of this epoch from
        `_unfinished` to the names of delivered files, and remove files that `Output.owns`; nothing else.
        """
        match content := json.loads(data):
            case {
                "place": [str() as prefix, str() as suffix],
                "parts": list() as parts,
                "replaced": list() as old,
                **other,
            }:
                output, columns = OutputName(prefix, suffix), _checked_columns(other.get("columns", ""))
            case _:
                raise _forged(f"{content!r:.200}", "which does not have the form of a receipt")
        if absolute(prefix) != prefix or prefix.endswith("/") or {"/", "\\", "\0"} & set(suffix) or "\0" in prefix:
            raise _forged(f"files {prefix!r:.200}…{suffix!r:.200}", "which is not the name of an output")
        checked = tuple(_checked(part, output, epoch) for part in parts)
        return cls(output, checked, tuple(map(_checked_old, old)), columns, *_checked_run(other))


def _checked(part: object, output: OutputName, epoch: int) -> StagedFile:
    match part:
        case [name, int() as size, folder, mark, *columns] if len(columns) < 2:
            start = f"{output.prefix.rpartition('/')[2]}-{epoch:06d}-"
            named = _checked_name(name, start), size, _checked_folder(folder), _checked_mark(mark)
            return StagedFile(*named, *map(_checked_columns, columns))
    raise _forged(f"{part!r:.200}", "which is no file")


def _checked_name(name: object, start: str) -> str:
    if not isinstance(name, str) or not name.startswith(start) or {"/", "\\", "\0"} & set(name):
        raise CheckpointError(
            f"the checkpoint has a receipt of {name!r:.200}, but names of staged files have no folder and begin with "
            f"{start!r}; somebody else wrote it. Nothing was moved"
        )
    return name


def _checked_folder(folder: object) -> str:
    if folder == "":
        return ""
    if not isinstance(folder, str) or not all(map(_FOLDER.fullmatch, folder.split("/"))):
        raise _forged(f"folder {folder!r:.200}", "which does not consist of columns and values")
    return folder


def _checked_mark(mark: object) -> PaneMark | None:
    match mark:
        case None:
            return None
        case [int() | None as start, int() | None as end, int() as pane, bool() as retracted]:
            return PaneMark(start, end, pane, retracted)
    raise _forged(f"{mark!r:.200}", "which is no window and pane")


def encoded_schema(schema: pa.Schema) -> str:
    """A schema as text for a receipt."""
    return b64encode(schema.serialize().to_pybytes()).decode()


def decoded_schema(text: str) -> pa.Schema:
    """The schema of the result of `encoded_schema`."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))


def _checked_columns(columns: object) -> str:
    try:
        decoded = not columns or decoded_schema(str(columns))
    except (ValueError, pa.ArrowException) as error:
        raise _forged(f"columns {columns!r:.200}", "which are no schema") from error
    return str(columns) if decoded else ""


def _checked_run(content: Mapping[object, object]) -> tuple[str, int | None]:
    match content.get("run", ""), content.get("hidden"):
        case str() as run, int() | None as hidden if re.fullmatch(r"(?:[0-9a-f]{8})?", run) and (hidden or 0) >= 0:
            return run, hidden
        case run, hidden:
            raise _forged(f"run {run!r:.200} with {hidden!r:.200} files", "which is no run")


def _checked_old(old: object) -> OldFile:
    match old:
        case [str() as path, int() as size, int() as modified]:
            return OldFile(path, size, modified)
    raise _forged(f"{old!r:.200}", "which is no file")


def _forged(content: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has a receipt for {content}, {reason}; somebody else wrote it. Nothing was moved for it"
    )


@dataclass(frozen=True, slots=True)
class Output:
    """The files of one prefix and suffix, on a file system. `output_of` makes it."""

    system: fs.FileSystem
    scheme: str
    """The prefix that makes a URL of a path, such as `s3://`; empty for local files."""
    folder: str
    name: str
    """Beginning of the file names in the folder."""
    suffix: str

    @property
    def hidden(self) -> str:
        """The folder of staged files."""
        return f"{self.folder}/{HIDDEN}"

    @property
    def committed(self) -> Output:
        """The output of committed files that are hidden until the input has ended."""
        return replace(self, folder=f"{self.hidden}/{self._committed}")

    @property
    def order(self) -> str:
        """The path of the list of committed files, whose order gives the final names."""
        return f"{self.committed.folder}/{_ORDER}"

    @property
    def _committed(self) -> str:
        return f"{self.name}-committed{self.suffix}"

    def staged_name(self, epoch: int, interval: int, token: str) -> str:
        """The name of a hidden file."""
        return f"{self.name}-{epoch:06d}-{interval}-{token}{self.suffix}"

    def finals(self, parts: Sequence[StagedFile], epoch: int, tag: str = "") -> list[str]:
        """The final paths of the parts of an epoch, in the same order, numbered for each folder, window and pane.

        Names contain the tag if it is not empty, see `RunFiles.tag`.
        """
        tag = f"-{tag}" if tag else ""
        sizes = Counter((part.folder, part.mark) for part in parts)
        numbers = Counter[tuple[str, PaneMark | None]]()
        paths = []
        for part in parts:
            group = (part.folder, part.mark)
            folder = f"{self.folder}/{part.folder}" if part.folder else self.folder
            mark, of = ("", "") if part.mark is None else (f"-{part.mark}", f"-of-{sizes[group]:05d}")
            paths.append(f"{folder}/{self.name}{mark}-{epoch:06d}{tag}-{numbers[group]:05d}{of}{self.suffix}")
            numbers[group] += 1
        return paths

    def shard_name(self, number: int, count: int) -> str:
        """The name of shard `number`, from 0, of an input that has ended; as in Beam.

        >>> output_of("/data/out", ".txt").shard_name(0, 12)
        'out-00000-of-00012.txt'
        """
        return f"{self.name}-{number:05d}-of-{count:05d}{self.suffix}"

    def is_final(self, name: str) -> bool:
        """Whether a delivered file of this output can have this name, with or without a window.

        >>> output = output_of("/data/out", ".txt")
        >>> [output.is_final(name) for name in ("out-000001-00000.txt", "out-old.txt", "out-two-000001-00000.txt")]
        [True, False, False]
        """
        forms = rf"(?:{_NUMBERED}|{_MARK}{_NUMBERED}-of-\d{{5,}}|{_SHARD})"
        return bool(re.fullmatch(f"{re.escape(self.name)}{forms}{re.escape(self.suffix)}", name))

    def epoch(self, name: str) -> int | None:
        """The epoch of a delivered file; None for a shard, and for a file of another output.

        >>> output = output_of("/data/out", ".txt")
        >>> [output.epoch(name) for name in ("out-000003-00000.txt", "out-00000-of-00001.txt", "out-000003-00000")]
        [3, None, None]

        A hash may have no letter.

        >>> [output.epoch(f"out{each}.txt") for each in ("-000003-123456789012-00000", "-0-000003-00000-of-00001")]
        [3, 3]
        """
        numbered = r"-(\d{6,})(?:-[0-9a-f]{12})?-\d{5,}"
        # Only files of a window or pane say how many of them there are.
        forms = rf"(?:{numbered}|{_MARK}{numbered}-of-\d{{5,}})"
        found = re.fullmatch(f"{re.escape(self.name)}{forms}{re.escape(self.suffix)}", name)
        return int(found[1] or found[2]) if found else None

    def staged_epoch(self, name: str) -> int | None:
        """The epoch of a hidden file; None for a file of another output.

        >>> output = output_of("/data/out", "")
        >>> output.staged_epoch("out-000003-0-abc"), output.staged_epoch("out-7-000003-0-abc")
        (3, None)
        """
        staged = re.fullmatch(f"{re.escape(self.name)}{_STAGED}{re.escape(self.suffix)}", name)
        return int(staged[1]) if staged else None

    def delivered(self, columns: Sequence[str] = ()) -> list[fs.FileInfo]:
        """The files with names of this output, in the folders of these columns."""
        folders = [self.folder]
        for column in columns:
            start = quote(column, safe=" ") + "="
            below = (info for folder in folders for info in self._in(folder, fs.FileType.Directory))
            folders = [info.path for info in below if info.base_name.startswith(start)]
        return [info for folder in folders for info in self._in(folder) if self.is_final(info.base_name)]

    def has_shards(self, columns: Sequence[str]) -> bool:
        """Whether there are delivered files of an input that has ended."""
        return any(self.shards(info.base_name) for info in self.delivered(columns))

    def shards(self, name: str) -> int:
        """The number of shards that the name of a shard states; 0 for another file.

        >>> output = output_of("/data/out", ".txt")
        >>> [output.shards(name) for name in ("out-00000-of-00012.txt", "out-000001-00000.txt")]
        [12, 0]
        """
        found = re.fullmatch(rf"{re.escape(self.name)}{_SHARD}{re.escape(self.suffix)}", name)
        return int(name[: len(name) - len(self.suffix)].rpartition("-")[2]) if found else 0

    def committed_files(self) -> list[str]:
        """Paths of committed, hidden files relative to their folder, in the order of epochs."""
        root = f"{self.committed.folder}/"
        paths = (info.path.removeprefix(root) for info in self._in(self.committed.folder, recursive=True))
        return sorted(filter(self.owns_committed, paths), key=self._numbers)

    def _numbers(self, path: str) -> list[int]:
        name = path.rpartition("/")[2]
        return [int(number) for number in name[len(self.name) + 1 : len(name) - len(self.suffix)].split("-")]

    def owns_committed(self, path: str) -> bool:
        """Whether a path below the folder of committed files is that of a committed file, in folders of any columns."""
        *folders, name = path.split("/")
        has_name = re.fullmatch(rf"{re.escape(self.name)}-\d{{6,}}-\d{{5,}}{re.escape(self.suffix)}", name)
        return has_name is not None and all(map(_FOLDER.fullmatch, folders))

    def hidden_files(self) -> list[fs.FileInfo]:
        """All hidden files of this output: staged files, committed files, and the list of committed files."""
        inner = self._in(self.committed.folder, recursive=True)
        committed = [info for info in inner if self._owns_hidden(info.path)]
        return [*self.staged(), *committed]

    def _owns_hidden(self, path: str) -> bool:
        inner = path.removeprefix(f"{self.committed.folder}/")
        return inner == _ORDER or self.owns_committed(inner)

    def staged(self) -> list[fs.FileInfo]:
        """The staged files of this output that are not known to be committed."""
        return [info for info in self._in(self.hidden) if self.staged_epoch(info.base_name) is not None]

    def _in(self, folder: str, kind: fs.FileType = fs.FileType.File, recursive: bool = False) -> Iterable[fs.FileInfo]:
        selector = fs.FileSelector(folder or "/", allow_not_found=True, recursive=recursive)
        try:
            infos: list[fs.FileInfo] = self.system.get_file_info(selector)
        except NotADirectoryError as error:
            raise no_folder(folder, error) from None
        return sorted((info for info in infos if info.type == kind), key=lambda info: str(info.path))

    def owns(self, old: OldFile, columns: Sequence[str]) -> bool:
        """Whether a file in a receipt has a path at which this output looks for files of earlier runs."""
        *folders, name = old.path.split("/")
        if folders == [HIDDEN]:
            return self.staged_epoch(name) is not None
        if folders[:2] == [HIDDEN, self._committed]:
            return self._owns_hidden(f"{self.folder}/{old.path}")
        starts = [quote(column, safe=" ") + "=" for column in columns]
        in_columns = len(folders) == len(starts) and all(map(str.startswith, folders, starts))
        return in_columns and self.is_final(name) and not {"\\", "\0"} & set(old.path)


@lru_cache(64)
def output_of(prefix: str, suffix: str) -> Output:
    """The output for a path or URL as prefix, and a suffix."""
    system, path = filesystem_of(prefix)
    folder, _, name = path.rpartition("/")
    return Output(system, prefix_of(absolute(prefix)), folder, name, suffix)
