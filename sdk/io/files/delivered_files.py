"""Files that a run has delivered: how the run recognizes them, and the names that they get when its input has ended.

Files that were written after the commit from which a run goes on are there if the run has gone on from another copy of
its checkpoint since: somebody has restored a backup, say. Epochs may be cut in another way this time, so the rows would
be there twice.

Files of a bounded collection are hidden until its input has ended, and then get Beam's names of shards.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from secrets import token_hex

from pyarrow import fs

from headrace.sdk.io.files.durable_files import folder_of, keep_files, make_folders, moved, sync_names
from headrace.sdk.io.files.output_files import Output, OutputName, Receipt, StagedFile

_TAG = re.compile(r"-\d{6,}-([0-9a-f]{8})[0-9a-f]{4}-\d{5,}")
"""Epoch, number of the run, hash of the set of files, number: part of the name of a file that is added to others."""


class RunFiles:
    """The number of a run, and how many files it hides; both are in each commit, as a part of `EpochFileSink.held`.

    A run of 0.1.0 gets a number with its first start by a later release. Files that it has written before are those of
    no known run.
    """

    def __init__(self) -> None:
        self.run = ""
        """Eight hexadecimal digits; empty if the run has none yet."""
        self.hidden: int | None = None
        """How many files of a bounded collection the run has delivered; None if that is not known."""

    def begin(self, anew: bool) -> None:
        """Forget the run before; one that begins anew draws a number."""
        self.run, self.hidden = (token_hex(4), 0) if anew else ("", None)

    def committed(self, receipts: Sequence[Receipt], output: OutputName) -> None:
        """Take what the receipts of a commit say of the run and of an output, these receipts' files included."""
        self.run = next((receipt.run for receipt in receipts if receipt.run), self.run)
        own = [receipt for receipt in receipts if receipt.output == output]
        held = next((receipt.hidden for receipt in own if receipt.hidden is not None), None)
        self.hidden = None if held is None else held + sum(len(receipt.parts) for receipt in own)

    def held(self) -> str:
        """The number of the run for the next commit."""
        self.run = self.run or token_hex(4)
        return self.run

    def count_hidden(self, output: Output, columns: Sequence[str]) -> None:
        """Complete what no commit says yet, after the first delivery of a run that goes on."""
        if self.hidden is None and not output.has_shards(columns):
            self.hidden = len(output.committed_files())

    def tag(self, parts: Sequence[StagedFile]) -> str:
        """The letters that names of added files have, so that no two runs deliver files with equal names."""
        return self.run + _digest(parts)[: 12 - len(self.run)]

    def tags(self, parts: Sequence[StagedFile]) -> list[str]:
        """What an earlier start of the run may have put there: with another `if_exists`, or another release."""
        return [self.tag(parts), _digest(parts)[:12], ""]

    def later(self, output: Output, columns: Sequence[str], epoch: int, replaced: Collection[str]) -> list[str]:
        """Paths of files that the run has not written up to this epoch, where it writes alone."""
        shown = [path for info in output.delivered(columns) if (path := str(info.path)) not in replaced]
        found = [*shown, *(f"{output.committed.folder}/{path}" for path in output.committed_files())]
        later = [path for path in found if path not in replaced and _epoch(output, path) > epoch]
        if later or self.hidden is None:
            return later
        shards = {path: number for path in shown if (number := output.shards(path.rpartition("/")[2]))}
        # The name of each has the number of all in its folder, so the number is known also if some were taken away.
        in_all = sum({folder_of(path): number for path, number in shards.items()}.values())
        return [*shards] if in_all > self.hidden else []

    def later_beside_others(self, output: Output, columns: Sequence[str], epoch: int) -> list[str]:
        """Paths of files that this run has written after this epoch, beside those of other runs."""
        infos = output.delivered(columns) if self.run else []
        later = [path for info in infos if _epoch(output, path := str(info.path)) > epoch]
        return [path for path in later if (tag := _TAG.search(path.rpartition("/")[2])) and tag[1] == self.run]


def _digest(parts: Sequence[StagedFile]) -> str:
    return sha256("\n".join(part.name for part in parts).encode()).hexdigest()


def _epoch(output: Output, path: str) -> int:
    return output.epoch(path.rpartition("/")[2]) or 0


def show_committed(output: Output, columns: Sequence[str], awaited: Collection[str] = ()) -> None:
    """Give the committed files of an output, whose input has ended, the names `<prefix>-<shard>-of-<shards><suffix>`.

    Shards are numbered for each folder, in the order of epochs. The order is written to the disk before the first file
    is renamed, so that renaming can continue after a crash at any point. If there are shards already, because the input
    had ended once and goes on, the new files keep their names with epochs.

    Args:
        output: The output.
        columns: Names of the columns whose values name folders.
        awaited: Paths of committed files that must exist, or be in a stored order.

    Raises:
        FileNotFoundError: A file of `awaited` was removed.
    """
    stored = _read_order(output)
    if stored is not None:
        _move(output, _numbered(output, stored))
    committed = output.committed_files()
    _check(output, awaited, {*committed, *(stored or ())})
    if committed and output.has_shards(columns):
        _move(output, {path: path for path in committed})
    elif committed:
        _write_order(output, committed)
        _move(output, _numbered(output, committed))
    if stored is not None or committed:
        with suppress(FileNotFoundError):
            output.system.delete_file(output.order)
        sync_names(output.system, [output.committed.folder])
    _remove_folders(output)


def _check(output: Output, awaited: Collection[str], existing: Collection[str]) -> None:
    root = f"{output.committed.folder}/"
    missing = sorted({path.removeprefix(root) for path in awaited} - {*existing})
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {len(awaited)} committed files were removed before the input had ended, such as "
            f"{root}{missing[0]}; see who cleans {output.hidden}. Their rows are lost; running again goes on "
            "without them"
        )


def _numbered(output: Output, paths: Sequence[str]) -> dict[str, str]:
    """Committed path -> final path, both relative to their folders, numbered within each folder."""
    total, numbers = Counter(map(folder_of, paths)), Counter[str]()
    names = {}
    for path in paths:
        folder = folder_of(path)
        shard = output.shard_name(numbers[folder], total[folder])
        names[path] = f"{folder}/{shard}" if folder else shard
        numbers[folder] += 1
    return names


def _move(output: Output, names: Mapping[str, str]) -> None:
    system, root = output.system, output.committed.folder
    finals = {f"{root}/{path}": f"{output.folder}/{name}" for path, name in names.items()}
    existing = [info.path for info in system.get_file_info([*finals]) if info.type == fs.FileType.File]
    make_folders(system, {folder_of(finals[path]) for path in existing} - {output.folder})
    for path in existing:
        # False if another attempt has moved the file, to the same name.
        moved(system, path, finals[path])
    sync_names(system, {folder_of(path) for pair in finals.items() for path in pair})


def _write_order(output: Output, paths: Sequence[str]) -> None:
    """Store the order of files, which determines their names."""
    temporary = f"{output.order}.new"
    with output.system.open_output_stream(temporary) as file:
        file.write(json.dumps(paths).encode())
    keep_files(output.system, [temporary])
    output.system.move(temporary, output.order)
    sync_names(output.system, [output.committed.folder])


def _read_order(output: Output) -> list[str] | None:
    """The order that an earlier attempt has stored; None if there is none, or if all files have been renamed."""
    try:
        with output.system.open_input_stream(output.order) as file:
            paths = json.loads(file.read())
    except FileNotFoundError:
        return None
    if not isinstance(paths, list) or not all(isinstance(path, str) and output.owns_committed(path) for path in paths):
        raise ValueError(
            f"{output.order} lists files that no sink writes there: somebody else wrote it; nothing was moved"
        )
    return paths


def _remove_folders(output: Output) -> None:
    """Remove the folders of committed files if they are empty."""
    # An object store has no empty folders.
    if isinstance(output.system, fs.LocalFileSystem):
        for folder, _, _ in os.walk(output.committed.folder, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
