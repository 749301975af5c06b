"""Files of an output: their names, staged and delivered, and the receipts by which the driver finds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from pyarrow import fs

from headrace.lowlevel.errors import CheckpointError
from headrace.sdk.io.files import absolute, filesystem_of

HIDDEN = "_unfinished"
"""Folder for files that are not delivered: readers leave names out that begin with `_`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOLDER = re.compile(r"[^/\\\0=]+=[^/\\\0]*")
_INSTANT = r"-(?:\d{8}T\d{6}(?:\.\d{6})?Z|-?\d+us)"
_MARK = rf"(?:{_INSTANT}){{0,2}}-\d+(?:-retracted)?"
_NUMBERED = r"-\d{6,}(?:-[0-9a-f]{12})?-\d{5,}"
"""Epoch, the set that it is added as, number."""
_SHARD = r"-\d{5,}-of-\d{5,}"
"""Number, and how many there are."""
_STAGED = r"-(\d{6,})-\d+-[0-9A-Za-z]+(?:-\d+){0,2}(?:-[0-9a-f]{12})?"
"""Epoch, interval, token, window, folder, randomness."""
_PLAN = "names.json"
_URL = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/@?]*@)?([^?]*)")
_NUMBERS = re.compile(r"[-0-9of]*")


class Mark(NamedTuple):
    """The window and pane that an element came with. Persisted as part of a receipt: every field."""

    start: int | None
    """Microseconds UTC; None for the global window, and for one of which only the end is known."""
    end: int | None
    """Microseconds UTC; None for the global window."""
    pane: int
    """Its index."""
    retracted: bool
    """Whether the pane is taken back."""

    def __str__(self) -> str:
        times = [_instant(time) for time in (self.start, self.end) if time is not None]
        return "-".join([*times, str(self.pane), *(["retracted"] if self.retracted else [])])


def _instant(micros: int) -> str:
    """An instant for a file's name: ISO 8601 without colons, which Hadoop's paths cannot have.

    >>> _instant(0), _instant(1_704_067_200_500_000)
    ('19700101T000000Z', '20240101T000000.500000Z')
    """
    try:
        at = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        # Before the year 1 or after 9999.
        return f"{micros}us"
    return at.strftime(f"{at.year:04d}%m%dT%H%M%S") + (f".{at.microsecond:06d}Z" if at.microsecond else "Z")


class Part(NamedTuple):
    """A staged file. Persisted as part of a receipt: every field."""

    name: str
    """In the hidden folder."""
    size: int | None
    """Bytes; None where an earlier release staged it."""
    folder: str = ""
    """Of columns' values, below that of the output; empty for none."""
    mark: Mark | None = None
    """The window and pane that the file is of; None for files of an epoch."""


class Old(NamedTuple):
    """A file of an earlier run, as it was when this run began. Persisted as part of a receipt: every field."""

    path: str
    """From the folder of the output on."""
    size: int
    modified_ns: int

    @classmethod
    def of(cls, info: fs.FileInfo, folder: str) -> Old:
        """A file that was looked at."""
        return cls(info.path[len(folder) + 1 :], info.size, info.mtime_ns or 0)


class Place(NamedTuple):
    """What the names of an output's files begin and end with. Persisted as part of a receipt: every field."""

    prefix: str
    """A path or URL, without what a URL says of credentials and options."""
    suffix: str

    @classmethod
    def of(cls, prefix: str, suffix: str) -> Place:
        """That of an absolute path or URL.

        >>> Place.of("s3://key:secret@bucket/sums?region=eu-west-1", ".txt").prefix
        's3://bucket/sums'
        """
        url = _URL.match(prefix)
        return cls(prefix if url is None else "".join(url.groups()), suffix)

    def clashes(self, other: Place) -> bool:
        """Whether files of the two can have one name.

        >>> [Place("/out", ".txt").clashes(Place(*other)) for other in (("/out", ".csv"), ("file:///out", ".txt"))]
        [False, True]
        """
        short, long = sorted((self.suffix, other.suffix), key=len)
        begin, extended = sorted((self._path, other._path), key=len)
        if begin == extended:
            return long.endswith(short) and bool(_NUMBERS.fullmatch(long[: len(long) - len(short)]))
        return extended.startswith(begin) and bool(re.fullmatch(f"{_INSTANT}[^/]*", extended[len(begin) :]))

    @property
    def _path(self) -> str:
        return self.prefix.removeprefix("file://")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a task has staged, or what a run found when it began."""

    place: Place
    parts: tuple[Part, ...] = ()
    replaced: tuple[Old, ...] = ()
    """Files that those of this run take the place of."""

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"place": self.place, "parts": self.parts, "replaced": self.replaced}).encode()

    @classmethod
    def decode(cls, data: bytes, own: Place, epoch: int) -> Receipt:
        """A receipt of a committed epoch. Raises `CheckpointError` for one that no sink of files gives.

        A receipt comes out of the checkpoint, where others may have written. By one that passes a file can be moved
        from `_unfinished`, under a name of this epoch, to the name that it has when delivered, and nothing else.
        """
        content = json.loads(data)
        if not isinstance(content, dict):
            return cls(own, tuple(_checked(part, own, epoch) for part in _of_earlier_release(content)))
        match content:
            case {"place": [str() as prefix, str() as suffix], "parts": list() as parts, "replaced": list() as old}:
                place = Place(prefix, suffix)
            case _:
                raise _forged(f"{content!r:.200}", "which is not in the form of receipts")
        if absolute(prefix) != prefix or prefix.endswith("/") or {"/", "\\", "\0"} & set(suffix) or "\0" in prefix:
            raise _forged(f"files {prefix!r:.200}…{suffix!r:.200}", "which no output is named")
        return cls(place, tuple(_checked(part, place, epoch) for part in parts), tuple(map(_checked_old, old)))


def _of_earlier_release(content: object) -> Iterator[list[object]]:
    """The parts of a receipt as releases wrote it that did not note sizes: a name, pairs with folders or with marks."""
    if not isinstance(content, list):
        yield [content, None, "", None]
        return
    for pair in content:
        match pair:
            case [list() | int() as mark, str() as staged]:
                for part in _of_earlier_release(json.loads(staged)):
                    yield [*part[:3], mark]
            case [name, folder]:
                yield [name, None, folder or None, None]
            case _:
                raise _forged(f"{pair!r:.200}", "which is no file")


def _checked(part: object, place: Place, epoch: int) -> Part:
    match part:
        case [name, int() | None as size, folder, mark]:
            start = f"{place.prefix.rpartition('/')[2]}-{epoch:06d}-"
            return Part(_checked_name(name, start), size, _checked_folder(folder), _checked_mark(mark))
    raise _forged(f"{part!r:.200}", "which is no file")


def _checked_name(name: object, start: str) -> str:
    if not isinstance(name, str) or not name.startswith(start) or {"/", "\\", "\0"} & set(name):
        raise CheckpointError(
            f"the checkpoint has a receipt of {name!r:.200}, but staged files have names in one folder that begin with "
            f"{start!r}; somebody else wrote it. Nothing was moved"
        )
    return name


def _checked_folder(folder: object) -> str:
    if folder == "":
        return ""
    if not isinstance(folder, str) or not all(map(_FOLDER.fullmatch, folder.split("/"))):
        raise _forged(f"folder {folder!r:.200}", "which is none of columns and values")
    return folder


def _checked_mark(mark: object) -> Mark | None:
    match mark:
        case None:
            return None
        case [int() | None as start, int() | None as end, int() as pane, bool() as retracted]:
            return Mark(start, end, pane, retracted)
    raise _forged(f"{mark!r:.200}", "which is no window and pane")


def _checked_old(old: object) -> Old:
    match old:
        case [str() as path, int() as size, int() as modified]:
            return Old(path, size, modified)
    raise _forged(f"{old!r:.200}", "which is no file")


def _forged(what: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has a receipt for {what}, {why}; somebody else wrote it. Nothing was moved for it"
    )


@dataclass(frozen=True, slots=True)
class Output:
    """The files of one place, on its file system. Make it with `output_of`."""

    system: fs.FileSystem
    scheme: str
    """What comes before a path to make a URL of it."""
    folder: str
    name: str
    """What names begin with in the folder."""
    suffix: str

    @property
    def hidden(self) -> str:
        """The folder of what is staged."""
        return f"{self.folder}/{HIDDEN}"

    @property
    def committed(self) -> Output:
        """Files of this output that are committed and hidden until the input has ended."""
        return replace(self, folder=f"{self.hidden}/{self._committed}")

    @property
    def plan(self) -> str:
        """The path of the list by which committed files get their final names."""
        return f"{self.committed.folder}/{_PLAN}"

    @property
    def _committed(self) -> str:
        return f"{self.name}-committed{self.suffix}"

    def staged_name(self, epoch: int, interval: int, token: str) -> str:
        """The name of a hidden file."""
        return f"{self.name}-{epoch:06d}-{interval}-{token}{self.suffix}"

    def finals(self, parts: Sequence[Part], epoch: int, added: bool) -> list[str]:
        """The paths that the parts of an epoch are delivered as, numbered for each folder, window and pane.

        With `added`, names say which set of files they belong to, so that equal ones of another run are other files.
        """
        names = "\n".join(part.name for part in parts)
        tag = f"-{sha256(names.encode()).hexdigest()[:12]}" if added else ""
        sets: dict[tuple[str, Mark | None], int] = {}
        for part in parts:
            sets[part.folder, part.mark] = sets.get((part.folder, part.mark), 0) + 1
        numbers = dict.fromkeys(sets, 0)
        paths = []
        for part in parts:
            which = (part.folder, part.mark)
            folder = f"{self.folder}/{part.folder}" if part.folder else self.folder
            mark, of = ("", "") if part.mark is None else (f"-{part.mark}", f"-of-{sets[which]:05d}")
            paths.append(f"{folder}/{self.name}{mark}-{epoch:06d}{tag}-{numbers[which]:05d}{of}{self.suffix}")
            numbers[which] += 1
        return paths

    def shard_name(self, number: int, count: int) -> str:
        """The name of one of the files of an input that has ended, from 0; as in Beam.

        >>> output_of("/data/out", ".txt").shard_name(0, 12)
        'out-00000-of-00012.txt'
        """
        return f"{self.name}-{number:05d}-of-{count:05d}{self.suffix}"

    def is_final(self, name: str) -> bool:
        """Whether a file's name is one that this output gives, in windows or not.

        >>> output = output_of("/data/out", ".txt")
        >>> [output.is_final(name) for name in ("out-000001-00000.txt", "out-old.txt", "out-two-000001-00000.txt")]
        [True, False, False]
        """
        forms = rf"(?:{_NUMBERED}|{_MARK}{_NUMBERED}-of-\d{{5,}}|{_SHARD})"
        return bool(re.fullmatch(f"{re.escape(self.name)}{forms}{re.escape(self.suffix)}", name))

    def staged_epoch(self, name: str) -> int | None:
        """The epoch of a hidden file; None for what is another output's.

        >>> output = output_of("/data/out", "")
        >>> output.staged_epoch("out-000003-0-abc"), output.staged_epoch("out-7-000003-0-abc")
        (3, None)
        """
        found = re.fullmatch(f"{re.escape(self.name)}{_STAGED}{re.escape(self.suffix)}", name)
        return int(found[1]) if found else None

    def delivered(self, columns: Sequence[str] = ()) -> list[fs.FileInfo]:
        """The files that bear names of this output, in folders of these columns."""
        folders = [self.folder]
        for column in columns:
            start = quote(column, safe=" ") + "="
            below = (one for folder in folders for one in self._in(folder, fs.FileType.Directory))
            folders = [one.path for one in below if one.base_name.startswith(start)]
        return [one for folder in folders for one in self._in(folder) if self.is_final(one.base_name)]

    def has_shards(self, columns: Sequence[str]) -> bool:
        """Whether there are files of an input that has ended."""
        pattern = re.compile(f"{re.escape(self.name)}{_SHARD}{re.escape(self.suffix)}")
        return any(pattern.fullmatch(one.base_name) for one in self.delivered(columns))

    def committed_files(self) -> list[str]:
        """Files that are committed and hidden, from their folder on, in the order of epochs."""
        at = f"{self.committed.folder}/"
        found = (one.path.removeprefix(at) for one in self._in(self.committed.folder, recursive=True))
        return sorted(filter(self.owns_committed, found), key=self._order)

    def _order(self, path: str) -> list[int]:
        name = path.rpartition("/")[2]
        return [int(number) for number in name[len(self.name) + 1 : len(name) - len(self.suffix)].split("-")]

    def owns_committed(self, path: str) -> bool:
        """Whether a path below the folder of committed files is that of one, whatever columns its folders are of."""
        *folders, name = path.split("/")
        named = re.fullmatch(rf"{re.escape(self.name)}-\d{{6,}}-\d{{5,}}{re.escape(self.suffix)}", name)
        return named is not None and all(map(_FOLDER.fullmatch, folders))

    def hidden_files(self) -> list[fs.FileInfo]:
        """All hidden files of this output: staged or committed, and the list of their names."""
        committed = [one for one in self._in(self.committed.folder, recursive=True) if self._owns_hidden(one.path)]
        return [*self.staged(), *committed]

    def _owns_hidden(self, path: str) -> bool:
        inner = path.removeprefix(f"{self.committed.folder}/")
        return inner == _PLAN or self.owns_committed(inner)

    def staged(self) -> list[fs.FileInfo]:
        """The staged files of this output, which are no others' and not known to be committed."""
        return [one for one in self._in(self.hidden) if self.staged_epoch(one.base_name) is not None]

    def _in(self, folder: str, kind: fs.FileType = fs.FileType.File, recursive: bool = False) -> Iterable[fs.FileInfo]:
        where = fs.FileSelector(folder or "/", allow_not_found=True, recursive=recursive)
        found: list[fs.FileInfo] = self.system.get_file_info(where)
        return sorted((one for one in found if one.type == kind), key=lambda one: str(one.path))

    def owns(self, old: Old, columns: Sequence[str]) -> bool:
        """Whether a file of an earlier run, as a receipt tells, is one that this output finds when it begins."""
        *folders, name = old.path.split("/")
        if folders == [HIDDEN]:
            return self.staged_epoch(name) is not None
        if folders[:2] == [HIDDEN, self._committed]:
            return self._owns_hidden(f"{self.folder}/{old.path}")
        starts = [quote(column, safe=" ") + "=" for column in columns]
        in_place = len(folders) == len(starts) and all(map(str.startswith, folders, starts))
        return in_place and self.is_final(name) and not {"\\", "\0"} & set(old.path)


@lru_cache(64)
def output_of(prefix: str, suffix: str) -> Output:
    """The output of a path or URL that names begin with, and of what they end with."""
    system, path = filesystem_of(prefix)
    folder, _, name = path.rpartition("/")
    scheme = prefix[: prefix.index("://") + 3] if "://" in prefix else ""
    return Output(system, scheme, folder, name, suffix)
