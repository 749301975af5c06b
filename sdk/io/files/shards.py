"""When: files of a bounded collection, which are hidden until its input has ended and then bear Beam's names."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from pyarrow import fs

from headrace.sdk.io.fileparts import Output
from headrace.sdk.io.lasting import folder_of, keep_files, make_folders, moved, sync_names


def show_committed(output: Output, columns: Sequence[str], awaited: Collection[str] = ()) -> None:
    """Give the committed files of an output, whose input has ended, the names `<prefix>-<shard>-of-<shards><suffix>`.

    They are numbered for each folder, in the order of epochs. Which file gets which name is on the disk before the
    first has it, so that a crash at any point only leaves less to do. Files that come after those of an input that has
    ended once keep the names with epochs: those that have numbers of shards stay as they are.

    Args:
        output: Where the files are.
        columns: Those whose values are folders.
        awaited: Paths of committed files that must be there, unless a plan has them. Raises `FileNotFoundError`.
    """
    known = _read_plan(output)
    if known is not None:
        _move(output, _numbered(output, known))
    found = output.committed_files()
    _check(output, awaited, {*found, *(known or ())})
    if found and output.has_shards(columns):
        _move(output, {path: path for path in found})
    elif found:
        _write_plan(output, found)
        _move(output, _numbered(output, found))
    if known is not None or found:
        with suppress(FileNotFoundError):
            output.system.delete_file(output.plan)
        sync_names(output.system, [output.committed.folder])
    _remove_folders(output)


def _check(output: Output, awaited: Collection[str], there: Collection[str]) -> None:
    at = f"{output.committed.folder}/"
    gone = sorted({path.removeprefix(at) for path in awaited} - {*there})
    if gone:
        raise FileNotFoundError(
            f"{len(gone)} of {len(awaited)} committed files were removed before the input had ended, such as "
            f"{at}{gone[0]}; see who cleans {output.hidden}. Their rows are lost: running again goes on without them"
        )


def _numbered(output: Output, paths: Sequence[str]) -> dict[str, str]:
    """The name of each file, by its number among those of its folder."""
    total, numbers = Counter(map(folder_of, paths)), Counter[str]()
    names = {}
    for path in paths:
        folder = folder_of(path)
        shard = output.shard_name(numbers[folder], total[folder])
        names[path] = f"{folder}/{shard}" if folder else shard
        numbers[folder] += 1
    return names


def _move(output: Output, names: Mapping[str, str]) -> None:
    system, at = output.system, output.committed.folder
    finals = {f"{at}/{path}": f"{output.folder}/{name}" for path, name in names.items()}
    there = [one.path for one in system.get_file_info([*finals]) if one.type == fs.FileType.File]
    make_folders(system, {folder_of(finals[path]) for path in there} - {output.folder})
    for path in there:
        # Whoever was quicker has moved it to the same name.
        moved(system, path, finals[path])
    sync_names(system, {folder_of(path) for pair in finals.items() for path in pair})


def _write_plan(output: Output, paths: Sequence[str]) -> None:
    """Keep the order of files, which says their names."""
    written = f"{output.plan}.new"
    with output.system.open_output_stream(written) as file:
        file.write(json.dumps(paths).encode())
    keep_files(output.system, [written])
    output.system.move(written, output.plan)
    sync_names(output.system, [output.committed.folder])


def _read_plan(output: Output) -> list[str] | None:
    """The order of files that an earlier attempt was to name; None if there was none, or if it has named all."""
    try:
        with output.system.open_input_stream(output.plan) as file:
            paths = json.loads(file.read())
    except FileNotFoundError:
        return None
    if not isinstance(paths, list) or not all(isinstance(one, str) and output.owns_committed(one) for one in paths):
        raise ValueError(f"{output.plan} lists what no sink writes there: somebody else wrote it; nothing was moved")
    return paths


def _remove_folders(output: Output) -> None:
    """Remove the folders of committed files, which are empty."""
    # A store of objects has no folders that could be empty.
    if isinstance(output.system, fs.LocalFileSystem):
        for folder, _, _ in os.walk(output.committed.folder, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
