"""Objects in a directory of HDFS, through Arrow's client (`hdfs://`, `viewfs://`).

What a checkpoint needs and Arrow does not have is a write that fails if the name is taken: opening a file replaces it,
and moving a file onto another one deletes that first. But the NameNode renames a folder in one step, onto a free name,
or else into the folder that has the name. So `put` with mode "create" writes a file in a new folder and renames the
folder to the name of the object. If the new folder is afterwards inside the folder of that name, another writer was
first. Objects that may be replaced are files, which get their names by a rename.

    log/00…01/+object      an object that was written with mode "create"
    deltas/00…01+0-0-ab    an object that may be replaced; below the first folder, + stands for /
    write+b2c4…            an unfinished write, or the remains of a crash

What fails is repeated for a while, as a NameNode that was started again answers after some time, and takes no writes
for some more. A rename whose answer was lost is known by the new folder: if that is gone from where it was made, it has
been renamed.

Arrow tells an absent file from a NameNode that does not answer only where it opens or lists: file information says
"not found" for both. So what seems absent is looked for in the list of its folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from secrets import token_hex
from time import sleep
from typing import NamedTuple, TypeVar

from obstore.exceptions import AlreadyExistsError
from pyarrow import fs

from headrace.lowlevel.storage.arrow_urls import arrow_filesystem, without_options

OBJECT = "+object"
"""Name of the file in the folder of an object; no object has a + in its name."""
TEMPORARY = "write+"
_SWEEP_EVERY = 64
_SHORTEST_PAUSE = 128
"""Part of the patience after which an operation is repeated; each pause is twice as long as the one before."""
T = TypeVar("T")
_OLD_NS = 3_600 * 10**9
"""Age at which an unfinished write has no writer any more, nanoseconds."""


class ObjectBytes(NamedTuple):
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
        patience: For about how long a failed operation is repeated, seconds.
        wait: Waits for some seconds.
    """

    def __init__(
        self, files: fs.FileSystem, root: str, patience: float = 60.0, wait: Callable[[float], None] = sleep
    ) -> None:
        self._files, self._root, self._patience, self._wait = files, root.rstrip("/"), patience, wait
        self._made = set[str]()
        """Folders that this process knows to exist."""
        self._deletes = count(1)

    def get(self, path: str) -> ObjectBytes:
        """Read an object. Raises OSError, `FileNotFoundError` if there is none."""
        return self._repeated(lambda: self._got(path))

    def _got(self, path: str) -> ObjectBytes:
        final = self._file(path)
        is_folder = self._kind(final) == fs.FileType.Directory
        with self._files.open_input_file(f"{final}/{OBJECT}" if is_folder else final) as file:
            return ObjectBytes(file.read())

    def put(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        """Write an object; with mode "create" raises `AlreadyExistsError` if the name is taken. Raises OSError."""
        temporary, final = f"{self._root}/{TEMPORARY}{token_hex(16)}", self._file(path)
        is_new = mode == "create"
        written = f"{temporary}/{OBJECT}" if is_new else temporary
        self._repeated(lambda: self._written(temporary, written, data, final.rpartition("/")[0]))
        self._repeated(lambda: self._named(temporary, written, final))
        if is_new and self._repeated(lambda: self._is_inside(temporary, final)):
            with suppress(OSError):
                self._files.delete_dir(f"{final}/{temporary.rpartition('/')[2]}")
            raise AlreadyExistsError(f"{final} exists already")

    def _written(self, temporary: str, written: str, data: bytes, folder: str) -> None:
        self._make(self._root)
        self._make(folder)
        if written != temporary:
            self._files.create_dir(temporary, recursive=True)
        with self._files.open_output_stream(written) as file:
            file.write(data)

    def _named(self, temporary: str, written: str, final: str) -> None:
        try:
            self._files.move(temporary, final)
        except OSError:
            try:
                self._files.open_input_file(written).close()
            except FileNotFoundError:
                # The answer was lost, of this attempt or an earlier one; or somebody deleted it.
                self._kind(final)
                return
            raise

    def _is_inside(self, temporary: str, final: str) -> bool:
        name = temporary.rpartition("/")[2]
        return any(info.base_name == name for info in self._files.get_file_info(fs.FileSelector(final)))

    def delete(self, path: str) -> None:
        """Delete an object. Raises OSError, `FileNotFoundError` if there is none."""
        if next(self._deletes) % _SWEEP_EVERY == 0:
            self._repeated(self._sweep)
        self._repeated(lambda: self._deleted(path))

    def _deleted(self, path: str) -> None:
        final = self._file(path)
        if self._kind(final) == fs.FileType.Directory:
            self._files.delete_dir(final)
        else:
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
            infos = self._repeated(lambda: self._files.get_file_info(fs.FileSelector(base or "/", recursive=True)))
        except FileNotFoundError:
            return
        for info in infos:
            name = info.path[len(base) + 1 :].removesuffix(f"/{OBJECT}")
            if info.type == fs.FileType.File and TEMPORARY not in name:
                yield name

    def _repeated(self, action: Callable[[], T]) -> T:
        """What an action returns at last. Raises OSError when patience is over."""
        pause = self._patience / _SHORTEST_PAUSE
        while True:
            try:
                return action()
            except (FileNotFoundError, PermissionError):
                raise
            except OSError:
                if pause > self._patience / 2:
                    raise
                self._wait(pause)
                pause *= 2

    def _kind(self, name: str) -> fs.FileType:
        """File or Directory. Raises OSError, `FileNotFoundError` if there is neither."""
        kind = self._files.get_file_info(name).type
        if kind == fs.FileType.NotFound:
            # Opening it would tell, too, but libhdfs prints what it says.
            beside = self._files.get_file_info(fs.FileSelector(name.rpartition("/")[0] or "/"))
            kind = next((info.type for info in beside if info.path == name), fs.FileType.NotFound)
        if kind == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return kind

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


def hdfs_objects(url: str, patience: float = 60.0) -> HdfsObjects:
    """The objects at a URL, with the patience of `HdfsObjects`.

    Raises OSError if Java or Hadoop's libraries are missing, or HDFS does not answer.
    """
    return HdfsObjects(*arrow_filesystem(*without_options(url)), patience)
