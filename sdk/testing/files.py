"""Files and contents for tests of pipelines (`apache_beam.testing.test_utils`)."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from headrace.sdk.io.files.filesystems import FileSystems


class TempDir:
    r"""A temporary folder, which the end of a `with` block removes.

    >>> with TempDir() as folder:
    ...     path = folder.create_temp_file(suffix=".txt", lines=[b"a\n", b"b\n"])
    ...     read_files_from_pattern(f"{folder.get_path()}/*.txt")
    'a\nb'
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> TempDir:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def get_path(self) -> str:
        """The path of the folder."""
        return self._folder.name

    def create_temp_file(self, suffix: str = "", lines: Iterable[bytes] | None = None) -> str:
        """The path of a new file in the folder, with lines, which have their ends."""
        with tempfile.NamedTemporaryFile(delete=False, dir=self._folder.name, suffix=suffix) as file:
            file.writelines(lines or ())
        return file.name


def compute_hash(content: Iterable[object], hashing_alg: str = "sha1") -> str:
    """A hash of the texts of objects, in hexadecimal, which does not depend on their order.

    >>> compute_hash(["b", "a"]) == compute_hash(["a", "b"])
    True
    """
    texts = sorted(each if isinstance(each, bytes) else str(each).encode() for each in content)
    return hashlib.new(hashing_alg, b"".join(texts)).hexdigest()


def create_file(path: str, contents: str) -> str:
    """Write a text file in UTF-8; returns its path.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     read_files_from_pattern(create_file(f"{folder}/scores.txt", "red 5"))
    'red 5'
    """
    with FileSystems.create(path) as file:
        file.write(contents.encode())
    return path


def read_files_from_pattern(file_pattern: str) -> str:
    r"""The texts of the files that a pattern matches, without space around each, joined by LF.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = [create_file(f"{folder}/scores-{number}", f"line {number}\n") for number in range(2)]
    ...     read_files_from_pattern(f"{folder}/scores-*")
    'line 0\nline 1'
    """
    texts = []
    for found in FileSystems.match([file_pattern])[0].metadata_list:
        with FileSystems.open(found.path) as file:
            texts.append(file.read().decode().strip())
    return "\n".join(texts)


def open_shards(glob_pattern: str, mode: str = "rt", encoding: str | None = "utf-8") -> IO[str] | IO[bytes]:
    r"""The contents of local files, one after the other in the order of their paths, as a file to read.

    Args:
        glob_pattern: The pattern; see `glob.glob`.
        mode: `rt`, or `rb` for bytes.
        encoding: Encoding of text.

    >>> with TempDir() as folder:
    ...     path = folder.create_temp_file(lines=[b"a\n", b"b\n"])
    ...     open_shards(f"{folder.get_path()}/*").read()
    'a\nb\n'
    """
    whole = io.BytesIO(b"".join(Path(path).read_bytes() for path in sorted(glob.glob(glob_pattern))))
    return whole if "b" in mode else io.TextIOWrapper(whole, encoding=encoding)


def delete_files(file_paths: Sequence[str]) -> None:
    """Delete files. Raises `RuntimeError` if there are no paths.

    >>> from tempfile import mkdtemp
    >>> from pathlib import Path
    >>> path = create_file(f"{mkdtemp()}/scores.txt", "red 5")
    >>> delete_files([path])
    >>> Path(path).exists()
    False
    """
    if not file_paths:
        raise RuntimeError("delete_files was given no path; give the files to delete")
    FileSystems.delete([os.fspath(path) for path in file_paths])
