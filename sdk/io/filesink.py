"""Files as a sink, exactly once: parts are written out of sight and renamed once their epoch is committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Protocol

from pyarrow import fs

from headrace.lowlevel.errors import CheckpointError
from headrace.lowlevel.record import Batch
from headrace.sdk.io.files import Path, absolute, filesystem_of

_HIDDEN = "_unfinished"
"""Folder for parts that are not delivered: readers leave names out that begin with `_`."""


class PartWriter(Protocol):
    """Writes the rows of one part."""

    def write(self, path: str, batch: Batch) -> None:
        """Make a new file of the batch's values."""


class FileSink:
    """Each epoch's rows become files `<prefix>-<epoch>-<number><suffix>`, as many as tasks had some.

    Who reads the folder sees complete files of committed epochs only, each once: a delivery that is repeated after a
    crash finds the same names. Parts of attempts that came to nothing are removed with the next delivery.

    Args:
        prefix: Folder and beginning of the names; a folder alone (ending in `/`) means names that begin with `part`.
            One that is relative begins where the program is when it says so: workers may be elsewhere.
        suffix: End of the names, like `.txt`.
        writer: How a part is written.
    """

    def __init__(self, prefix: Path, suffix: str, writer: PartWriter) -> None:
        if not isinstance(prefix, (str, PathLike)):
            raise TypeError(f"files are written under a path, got {prefix!r:.200}; give a folder, and how names begin")
        prefix = fspath(prefix)
        self._prefix = absolute(prefix + "part" if prefix.endswith("/") else prefix)
        self._suffix = suffix
        self._writer = writer

    def _places(self) -> tuple[fs.FileSystem, str, str, str]:
        """File system, the path that names begin with, the hidden folder, and what hidden names begin with."""
        system, path = filesystem_of(self._prefix)
        folder, _, name = path.rpartition("/")
        return system, path, f"{folder}/{_HIDDEN}", name

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: write the rows to a hidden file; the receipt is its name."""
        if not len(batch):
            return None
        staged = self._staged(epoch, interval, token)
        self._writer.write(self._hidden_path(staged), batch)
        return json.dumps(staged).encode()

    def _staged(self, epoch: int, interval: int, token: str) -> str:
        """The name of a hidden file."""
        return f"{self._places()[3]}-{epoch:06d}-{interval}-{token}{self._suffix}"

    def _hidden_path(self, staged: str) -> str:
        """Where a hidden file is, as it is opened."""
        scheme = self._prefix[: self._prefix.index("://") + 3] if "://" in self._prefix else ""
        return f"{scheme}{self._places()[2]}/{staged}"

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver: give the parts of a committed epoch their names, and clean up."""
        self.name_parts(epoch, receipts)
        self.clean(epoch)

    def name_parts(self, epoch: int, receipts: Sequence[bytes], infix: str = "", numbered_of: bool = False) -> None:
        """Give parts their names: with something between prefix and epoch, and with how many there are."""
        system, path, hidden, name = self._places()
        parts = [part_of(json.loads(receipt), f"{name}-{epoch:06d}-") for receipt in receipts]
        of = f"-of-{len(parts):05d}" if numbered_of else ""
        for number, part in enumerate(parts):
            self._move(system, f"{hidden}/{part}", f"{path}{infix}-{epoch:06d}-{number:05d}{of}", epoch)

    def _move(self, system: fs.FileSystem, staged: str, final: str, epoch: int) -> None:
        """Give a part its name, unless it has it."""
        final += self._suffix
        before, after = system.get_file_info([staged, final])
        if before.type == fs.FileType.File:
            system.move(staged, final)
        elif after.type != fs.FileType.File:
            raise FileNotFoundError(f"{staged} of committed epoch {epoch} is gone; it should become {final}")

    def clean(self, epoch: int) -> None:
        """Remove what attempts left behind that were not committed, up to an epoch.

        The folder stays: a task of the next epoch may be about to write to it.
        """
        system, _, hidden, name = self._places()
        for info in system.get_file_info(fs.FileSelector(hidden, allow_not_found=True)):
            if _epoch_of(info.base_name, name, epoch) <= epoch:
                system.delete_file(info.path)


def part_of(part: object, start: str) -> str:
    """The hidden name that a receipt holds. Raises `CheckpointError` for one that this sink does not give.

    The file of that name is moved, and a receipt comes out of the checkpoint, where others may have written.
    """
    if not isinstance(part, str) or not part.startswith(start) or {"/", "\\", "\0"} & set(part):
        raise CheckpointError(
            f"the checkpoint has a receipt of {part!r:.200}, but staged files have names in one folder that begin with "
            f"{start!r}; somebody else wrote it. Nothing was moved"
        )
    return part


def _epoch_of(base_name: str, name: str, epoch: int) -> int:
    """The epoch of a hidden part; one later than `epoch` for what is another sink's.

    >>> _epoch_of("part-000003-0-abc.txt", "part", 7), _epoch_of("other-000003-0-abc.txt", "part", 7)
    (3, 8)
    """
    number = base_name[len(name) + 1 :].partition("-")[0]
    return int(number) if base_name.startswith(f"{name}-") and number.isdigit() else epoch + 1
