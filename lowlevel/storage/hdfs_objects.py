"""Objects in a directory of HDFS, through Arrow's client (`hdfs://`, `viewfs://`).

What a checkpoint needs and Arrow does not have is a write that fails if the name is taken: opening a file replaces it,
and moving a file onto another one deletes that first. But the NameNode renames a folder in one step, onto a free name,
or else into the folder that has the name. So `put` with mode "create" writes a file in a new folder and renames the
folder to the name of the object. If the new folder is afterwards inside the folder of that name, another writer was
first. Objects that may be replaced are files, which get their names by a rename.

    log/00…01/+object      an object that was written with mode "create"
    deltas/00…01+0-0-ab    an object that may be replaced; below the first folder, + stands for /
    write+b2c4…            an unfinished write, or the remains of a crash

Arrow tells an absent file from a NameNode that does not answer only where it opens or lists: file information says
"not found" for both. So what seems absent is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count, islice
from secrets import token_hex
from typing import NamedTuple

from obstore.exceptions import AlreadyExistsError
from pyarrow import fs

from headrace.lowlevel.storage.arrow_urls import arrow_filesystem, without_options

OBJECT = "+object"
"""Name of the file in the folder of an object; no object has a + in its name."""
TEMPORARY = "write+"
_SWEEP_EVERY = 64
_OLD_NS = 3_600 * 10**9
"""Age at which an unfinished write has no writer any more, nanoseconds."""


class Read(NamedTuple):
    """The contents of an object, in the form of obstore."""

    data: bytes

    def bytes(self) -> bytes:
        """All of them."""
        return self.data


class HdfsObjects:
    """The calls of an obstore store that `ObjectStore` needs, with its exceptions, on a directory of HDFS.

    Args:
        files: The file system. Its `move` renames a folder onto a free name, or into the folder of that name.
        root: Path of the directory, which the first write makes.
    """

    def __init__(self, files: fs.FileSystem, root: str) -> None:
        self._files, self._root = files, root.rstrip("/")
        self._made = set[str]()
        """Folders that this process knows to exist."""
        self._deletes = count(1)

    def get(self, path: str) -> Read:
        """Read an object. Raises OSError, `FileNotFoundError` if there is none."""
        final = self._file(path)
        is_folder = self._kind(final) == fs.FileType.Directory
        with self._files.open_input_file(f"{final}/{OBJECT}" if is_folder else final) as file:
            return Read(file.read())

    def put(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        """Write an object; with mode "create" raises `AlreadyExistsError` if the name is taken. Raises OSError."""
        temporary, final = f"{self._root}/{TEMPORARY}{token_hex(16)}", self._file(path)
        is_new = mode == "create"
        self._make(final.rpartition("/")[0])
        self._make(self._root)
        if is_new:
            self._files.create_dir(temporary, recursive=True)
        with self._files.open_output_stream(f"{temporary}/{OBJECT}" if is_new else temporary) as file:
            file.write(data)
        self._files.move(temporary, final)
        inside = f"{final}/{temporary.rpartition('/')[2]}"
        if is_new and any(info.path == inside for info in self._files.get_file_info(fs.FileSelector(final))):
            with suppress(OSError):
                self._files.delete_dir(inside)
            raise AlreadyExistsError(f"{final} exists already")

    def delete(self, path: str) -> None:
        """Delete an object. Raises OSError, `FileNotFoundError` if there is none."""
        if next(self._deletes) % _SWEEP_EVERY == 0:
            self._sweep()
        final = self._file(path)
        kind = self._kind(final)
        if kind == fs.FileType.Directory:
            self._files.delete_dir(final)
        else:
            if kind == fs.FileType.NotFound:
                self._files.open_input_file(final).close()
            self._files.delete_file(final)

    def list(self, prefix: str = "", chunk_size: int = 1000) -> Iterator[tuple[dict[str, str], ...]]:
        """The objects in a folder and its subfolders, in portions. Raises OSError."""
        folder, _, rest = prefix.partition("/")
        start = f"{rest.replace('/', '+')}+" if rest else ""
        names = (f"{folder}/{name}" if folder else name for name in self._names(folder) if name.startswith(start))
        entries = ({"path": name.replace("+", "/")} for name in names)
        while chunk := tuple(islice(entries, chunk_size)):
            yield chunk

    def _names(self, folder: str) -> Iterator[str]:
        base = f"{self._root}/{folder}".rstrip("/")
        try:
            infos = self._files.get_file_info(fs.FileSelector(base or "/", recursive=True))
        except FileNotFoundError:
            return
        for info in infos:
            name = info.path[len(base) + 1 :].removesuffix(f"/{OBJECT}")
            if info.type == fs.FileType.File and TEMPORARY not in name:
                yield name

    def _kind(self, name: str) -> fs.FileType:
        return self._files.get_file_info(name).type

    def _file(self, path: str) -> str:
        folder, slash, rest = path.partition("/")
        return f"{self._root}/{folder}{slash}{rest.replace('/', '+')}"

    def _make(self, folder: str) -> None:
        if folder not in self._made:
            self._files.create_dir(folder, recursive=True)
            self._made.add(folder)

    def _sweep(self) -> None:
        """Delete what processes that died have left; the age is told by what was changed last in the directory."""
        infos = self._files.get_file_info(fs.FileSelector(self._root))
        newest = max((info.mtime_ns or 0 for info in infos), default=0)
        for info in infos:
            if info.base_name.startswith(TEMPORARY) and (info.mtime_ns or 0) < newest - _OLD_NS:
                with suppress(OSError):
                    if info.type == fs.FileType.Directory:
                        self._files.delete_dir(info.path)
                    else:
                        self._files.delete_file(info.path)


def hdfs_objects(url: str) -> HdfsObjects:
    """The objects at a URL. Raises OSError if Java or Hadoop's libraries are missing, or HDFS does not answer."""
    return HdfsObjects(*arrow_filesystem(*without_options(url)))
