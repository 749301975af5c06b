"""Objects in a local directory; a write returns when the object is on the disk (MillWheel paper §7.1).

A write makes a file with a temporary name in the root and syncs it. Then it gives the file its name, by a link that
fails if the name is taken or by a replacing rename, and syncs the folder. A power loss leaves a whole object or none.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from headrace.lowlevel.storage import directory_sync
from headrace.lowlevel.storage.directory_sync import LastingFolders
from headrace.lowlevel.storage.obstore_private import TEMPORARY

_NUMBERS = count()
"""Numbers of this process's temporary files."""
_TRIES = 10
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""How new files are opened; Windows would write two bytes for each newline without its own flag."""
_NO_LINKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM)
"""What link(2) says on a file system without hard links."""
_SHARED = 0o666
"""Permissions of new files, which the umask restricts as usual."""


class LocalObjects:
    """Objects in one directory. Only `make` makes the directory itself.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     objects = LocalObjects(Path(place))
    ...     objects.put_if_absent("a/b", b"1"), objects.put_if_absent("a/b", b"2"), (Path(place) / "a/b").read_bytes()
    (True, False, b'1')
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._text = str(root)
        self._folders = LastingFolders()
        self._lasts = False
        """Whether the name of the root is known to be on the disk."""

    def make(self) -> None:
        """Make the directory and its parents, unless they exist. Raises OSError."""
        missing = []
        folder = self.root
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        self.root.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            _keep_name(made)
        self._lasts = bool(missing)

    def put(self, path: str, data: bytes) -> None:
        """Write an object, or replace the object of that name. Raises OSError."""
        self._place(path, data, os.replace)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless the name is taken; whether it was written.

        Raises OSError, ValueError if the file system has no hard links.
        """
        try:
            self._place(path, data, os.link)
        except FileExistsError:
            # The other writer may not have synced the folder yet, and the caller relies on the object from now on.
            self._keep(path)
            return False
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise ValueError(
                    "the file system there has no hard links, by which one of two drivers commits and not both; choose "
                    "a directory on a disk or NFS, or an object store such as s3://bucket/prefix"
                ) from error
            raise
        return True

    def get(self, path: str) -> bytes:
        """Read an object. Raises OSError, `FileNotFoundError` if there is none."""
        with open(self._file(path), "rb", buffering=0) as file:
            return file.read()

    def delete(self, path: str) -> None:
        """Delete an object, and the folders that have become empty. Raises OSError."""
        name = self._file(path)
        # Objects are deleted long after they were written, so older temporary files have no writer.
        self.sweep(os.stat(name).st_mtime_ns)
        os.unlink(name)
        with suppress(OSError):
            while (name := os.path.dirname(name)) != self._text:
                os.rmdir(name)

    def is_linked(self, path: str) -> str | None:
        """The symbolic link on the way to an object, or in its place; None if there is none."""
        place = self._text
        for part in path.split("/"):
            place = f"{place}/{part}"
            if os.path.islink(place):
                return place
        return None

    def _file(self, path: str) -> str:
        # Paths are text here, as `Path` takes longer than the system's calls.
        return f"{self._text}/{path}"

    def _place(self, path: str, data: bytes, name: Callable[[str, str], None]) -> None:
        final = self._file(path)
        for attempt in range(_TRIES):
            # The file comes first: it fails if the root is gone. Only folders inside the root are made here.
            temporary = self._written(data)
            try:
                self._make_folders(os.path.dirname(final))
                name(temporary, final)
                break
            except FileNotFoundError:
                # A folder is deleted with its last object, which can happen between the two steps.
                if attempt == _TRIES - 1:
                    raise
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
        self._keep(path)

    def _written(self, data: bytes) -> str:
        """Path of a new temporary file with this content, which is on the disk."""
        while True:
            # A process on another host may have the same process id.
            path = self._file(f"{TEMPORARY}{os.getpid()}{next(_NUMBERS):06}")
            with suppress(FileExistsError):
                descriptor = os.open(path, _NEW, _SHARED)
                break
        try:
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
                directory_sync.fsync_open(descriptor)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise
        return path

    def _make_folders(self, folder: str) -> None:
        if folder == self._text or os.path.isdir(folder):
            return
        self._make_folders(os.path.dirname(folder))
        with suppress(FileExistsError):
            os.mkdir(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, folder)

    def _keep(self, path: str) -> None:
        # An object that is gone already was deleted as garbage.
        with suppress(FileNotFoundError):
            self._folders.keep(Path(os.path.dirname(self._file(path))), self.root)
        if not self._lasts:
            _keep_name(self.root)
            self._lasts = True

    def sweep(self, before_ns: int) -> None:
        """Delete temporary files last modified before a time (nanoseconds since 1970), left by processes that died.

        A slow writer whose file was deleted writes the file again. Raises OSError.
        """
        for entry in os.scandir(self.root):
            if entry.name.startswith(TEMPORARY):
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_mtime_ns < before_ns:
                        os.unlink(entry.path)


def _keep_name(folder: Path) -> None:
    # A process that may not read the parent folder did not make this folder; the process that did must sync its name.
    with suppress(PermissionError):
        directory_sync.fsync(folder.parent)
