"""A file system with the rules of HDFS's NameNode as Arrow shows them, in memory.

A rename is one step: onto a free name, or, where a folder has the name, into this folder; onto a file it fails. Arrow
deletes a file onto which another file is moved, in a step of its own. What cannot be reached is "not found" in file
information, and an error where it is opened or listed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import fs

_FOLDER = None


class NameNode(fs.FileSystemHandler):
    """Files by path; None for a folder."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes | None] = {"/": _FOLDER}
        self.changed: dict[str, float] = {}
        self.lock = threading.RLock()
        self.is_down = False
        self.between: Callable[[], None] = lambda: None
        """Called between the two steps of a move onto a file."""

    def system(self) -> fs.FileSystem:
        return fs.PyFileSystem(self)

    def get_type_name(self) -> str:
        return "hdfs"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = selector.base_dir.rstrip("/")
        with self.lock:
            self._require_up()
            if self.entries.get(base or "/", b"") is not _FOLDER:
                raise FileNotFoundError(base)
            below = [path for path in self.entries if path != "/" and path.startswith(f"{base}/")]
            return [self._info(path) for path in below if selector.recursive or "/" not in path[len(base) + 1 :]]

    def create_dir(self, path: str, recursive: bool) -> None:
        with self.lock:
            self._require_up()
            parts = path.strip("/").split("/")
            for end in range(1, len(parts) + 1):
                self._add("/" + "/".join(parts[:end]), _FOLDER)

    def delete_dir(self, path: str) -> None:
        with self.lock:
            self._require_up()
            if self.entries.get(path, b"") is not _FOLDER:
                raise OSError(5, "not a directory")
            self.entries = {name: data for name, data in self.entries.items() if not self._is_below(name, path)}

    def delete_file(self, path: str) -> None:
        with self.lock:
            self._require_up()
            if self.entries.get(path) is None:
                raise OSError(5, "HDFS delete failed")
            del self.entries[path]

    def move(self, src: str, dest: str) -> None:
        try:
            self._rename(src, dest)
        except OSError:
            if self.entries.get(src) is None or self.entries.get(dest) is None:
                raise
            self.delete_file(dest)
            self.between()
            self._rename(src, dest)

    def open_input_file(self, path: str) -> Any:
        with self.lock:
            self._require_up()
            if (data := self.entries.get(path)) is None:
                raise FileNotFoundError(2, "Opening HDFS file failed", path)
            return pa.PythonFile(pa.BufferReader(data), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> Any:
        with self.lock:
            self._require_up()
            if path in self.entries and self.entries[path] is _FOLDER:
                raise OSError(5, "is a directory")
            self._add(path, b"")
        return pa.PythonFile(_Written(self, path), mode="w")

    def _rename(self, src: str, dest: str) -> None:
        with self.lock:
            self._require_up()
            if self.entries.get(dest, b"") is _FOLDER:
                dest = f"{dest}/{src.rpartition('/')[2]}"
            parent = dest.rpartition("/")[0] or "/"
            if src not in self.entries or dest in self.entries or self.entries.get(parent, b"") is not _FOLDER:
                raise OSError(5, "HDFS Rename failed")
            moved = {path: data for path, data in self.entries.items() if self._is_below(path, src)}
            for path, data in moved.items():
                del self.entries[path]
                self._add(dest + path[len(src) :], data)

    def _is_below(self, path: str, folder: str) -> bool:
        return path == folder or path.startswith(f"{folder}/")

    def _add(self, path: str, data: bytes | None) -> None:
        self.entries[path] = data
        self.changed.setdefault(path, time.time())

    def _info(self, path: str) -> fs.FileInfo:
        if self.is_down or path not in self.entries:
            return fs.FileInfo(path, fs.FileType.NotFound)
        data = self.entries[path]
        kind = fs.FileType.Directory if data is _FOLDER else fs.FileType.File
        return fs.FileInfo(path, kind, size=None if data is None else len(data), mtime=self.changed[path])

    def _require_up(self) -> None:
        if self.is_down:
            raise OSError(255, "the NameNode does not answer")

    # What HDFS has and a checkpoint does not use:

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_append_stream(self, path: str, metadata: object) -> Any:
        raise NotImplementedError

    def normalize_path(self, path: str) -> str:
        return path

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # as Arrow's file systems


class _Written:
    """An open file."""

    def __init__(self, node: NameNode, path: str) -> None:
        self._node, self._path, self.closed = node, path, False

    def write(self, data: bytes) -> int:
        with self._node.lock:
            self._node.entries[self._path] = (self._node.entries[self._path] or b"") + bytes(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
