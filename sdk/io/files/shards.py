"""When: files of a bounded collection, which are hidden until its input has ended and then get Beam's names."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from pyarrow import fs

from headrace.sdk.io.files.durable_files import folder_of, keep_files, make_folders, moved, sync_names
from headrace.sdk.io.files.output_files import Output


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
