"""Files as an exactly-once sink: tasks write hidden files, which the driver renames after the commit."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from os import PathLike, fspath
from secrets import token_hex
from typing import Literal, get_args

import pyarrow as pa
from pyarrow import fs

from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.sinks.sink import BaseSink
from headrace.lowlevel.storage.places import hidden, is_url
from headrace.lowlevel.stored_names import named
from headrace.sdk.io.columns.run_schema import RunSchema, lasting_schema
from headrace.sdk.io.files.delivered_files import RunFiles, show_committed
from headrace.sdk.io.files.durable_files import folder_of, keep_files, make_folders, moved, sync_names
from headrace.sdk.io.files.filesystem import Path, absolute, matcher, reaching
from headrace.sdk.io.files.output_files import (
    OldFile,
    Output,
    OutputName,
    Receipt,
    StagedFile,
    decoded_schema,
    encoded_schema,
    output_of,
)

_log = logging.getLogger(__name__)
IfExists = Literal["replace", "error", "append"]
"""What a run with an empty checkpoint does with files of an earlier run."""


class PartWriter(ABC):
    """The base of writers of files; one with a `run_schema` returns columns from `write`, and has `rewrite`."""

    @abstractmethod
    def write(self, path: str, batch: Batch) -> pa.Schema | None:
        """Write the values of the batch to a new file at a path or URL; returns the columns, if they are compared.

        A column of which only nulls are known has the type `null`, and is text in the file.
        """

    def run_schema(self) -> RunSchema | None:
        """The columns of all files; None if they are not compared."""
        return None

    def rewrite(self, path: str, old: str, found: pa.Schema, schema: pa.Schema) -> None:  # noqa: B027 - see the class
        """Write the rows of another file, which has the columns `found`, to a new one with those of a schema."""


@named("FileSink")
class EpochFileSink(BaseSink):
    """Writes the rows of each epoch to files `<prefix>-<epoch>-<number><suffix>`, one for each task that has rows.

    Files of a bounded collection (`at_end`) stay hidden until the input has ended; then they are renamed to
    `<prefix>-<shard>-of-<shards><suffix>`, in the order of epochs.

    Readers of the folder see only complete files of committed epochs, each once: a delivery that is repeated after a
    crash finds the same names. Staged and delivered files survive a loss of power. Files of failed attempts are removed
    by a later delivery, or when the run ends.

    Args:
        prefix: Folder and beginning of the file names; a folder alone (ending in `/`) means names that begin with
            `part`. A relative path is resolved in the program's working directory, as workers may have another one.
        suffix: End of the file names, such as `.txt`.
        writer: Writer of a file.
        if_exists: What a run that begins with an empty checkpoint does with files of an earlier run, recognized by
            their names: `replace` removes them when its first epoch is committed, `error` raises `FileExistsError`,
            `append` leaves them and uses names that no other run uses.

    Raises:
        TypeError: `prefix` is not a path.
        ValueError: `if_exists`, the prefix or the suffix is not valid.
    """

    columns: Sequence[str] = ()
    """Columns whose values name folders."""

    def __init__(self, prefix: Path, suffix: str, writer: PartWriter, if_exists: IfExists = "replace") -> None:
        if not isinstance(prefix, (str, PathLike)):
            raise TypeError(f"files are written under a path, got {prefix!r:.200}; give a folder, and how names begin")
        if if_exists not in get_args(IfExists):
            raise ValueError(f"if_exists is {if_exists!r:.200}; use one of {', '.join(get_args(IfExists))}")
        prefix = fspath(prefix)
        self._prefix = absolute(prefix + "part" if prefix.endswith("/") else prefix)
        _check_end(prefix)
        _check_name(self._prefix.rpartition("/")[2], suffix)
        self._suffix = suffix
        self._writer = writer
        self._columns = writer.run_schema()
        self._if_exists = if_exists
        self.read_patterns: Sequence[str] = ()
        """Patterns of files that the same pipeline reads, which must not be replaced."""
        self.at_end = False
        """Whether files are shown when the input has ended, rather than with their epoch."""
        self._awaited: set[str] = set()
        """Paths of hidden files that this driver has delivered and must rename when the input ends."""
        self._repeatable = True
        """Whether an earlier attempt of this run may have made the next delivery already."""
        self._delivered: int | None = None
        """The epoch of the last delivery of this driver."""
        self._run = RunFiles()

    @property
    def output(self) -> Output:
        """The output files on their file system."""
        return output_of(self._prefix, self._suffix)

    @property
    def output_name(self) -> OutputName:
        """The prefix and suffix of names; makes no request to the file system."""
        return OutputName.of(self._prefix, self._suffix)

    def show_at_end(self, bounded: bool) -> None:
        """Hide files until the input has ended if the collection is bounded.

        With `append` they are not hidden, as hidden files of other runs have the same names.
        """
        self.at_end = bounded and self._if_exists != "append"

    # Beginning

    def begin(self, anew: bool) -> bytes | None:
        """On the driver: find files of an earlier run; the receipt lists the files that the first delivery removes.

        Raises `FileExistsError` if there are files and `if_exists` is `error`, or if the pipeline reads some of them.
        """
        self._repeatable, self._delivered = not anew, None
        self._run.begin(anew)
        if self._columns is not None:
            self._columns.begin(anew)
        output = self.output
        if not anew and not self.at_end:
            # The collection was bounded before the program was changed.
            show_committed(output, self.columns)
        if not anew or self._if_exists == "append":
            return None
        with reaching(self.output_name.prefix):
            shown, hidden = output.delivered(self.columns), output.hidden_files()
        old = [*shown, *(info for info in hidden if output.owns_committed(info.base_name))]
        if old and self._if_exists == "error":
            raise FileExistsError(
                f"{_files(old)} an earlier run, such as {old[0].path}, and the results of a run that begins with an "
                "empty checkpoint would stand beside them; remove them, write elsewhere, or let if_exists be 'replace' "
                "or 'append'"
            )
        self._refuse_read(shown)
        if not shown and not hidden:
            return None
        return Receipt(
            self.output_name, (), tuple(OldFile.of(info, output.folder) for info in (*shown, *hidden))
        ).encode()

    def held(self) -> bytes:
        """See `BaseSink`: the run, where hidden files are, and the schema of all files as far as there is one."""
        hidden = self._run.hidden if self.at_end else None
        schema = None if self._columns is None else self._columns.held
        columns = "" if schema is None else encoded_schema(schema)
        return Receipt(self.output_name, columns=columns, run=self._run.held(), hidden=hidden).encode()

    def _refuse_read(self, old: Sequence[fs.FileInfo]) -> None:
        for kind, pattern, matches in map(matcher, self.read_patterns if old else ()):
            read = next((info for info in old if kind == self.output.system.type_name and matches(info.path)), None)
            if read is not None:
                raise FileExistsError(
                    f"{read.path} has a name that is written here, so a run that begins anew would replace it, but "
                    f"it is also read by {pattern!r}; write elsewhere, or let if_exists be 'append'"
                )

    # In the task

    def agree(self, agreement: bytes) -> None:
        """See `BaseSink`."""
        if self._columns is not None:
            self._columns.agree(agreement)

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: write the rows to hidden files; the receipt lists the files."""
        parts = self.write_parts(batch, epoch, interval, token) if len(batch) else []
        return self.receipt(parts) if parts else None

    def write_parts(self, batch: Batch, epoch: int, interval: int, token: str) -> list[StagedFile]:
        """Write rows to hidden files, which `receipt` makes durable."""
        return [self.write_part(epoch, interval, token, lambda path: self._writer.write(path, batch))]

    def write_part(self, epoch: int, interval: int, token: str, write: Callable[[str], pa.Schema | None]) -> StagedFile:
        """Let `write` write a hidden file to a path or URL; its columns are settled later if nobody states them."""
        # Tokens are unique within a checkpoint; with append several checkpoints may share the folder.
        token += f"-{token_hex(6)}" if self._if_exists == "append" else ""
        output = self.output
        name = output.staged_name(epoch, interval, token)
        found = write(f"{output.scheme}{output.hidden}/{name}")
        part = StagedFile(name, output.system.get_file_info(f"{output.hidden}/{name}").size)
        is_open = self._columns is not None and self._columns.stated is None
        return part._replace(columns=encoded_schema(found)) if is_open and found is not None else part

    def receipt(self, parts: Sequence[StagedFile]) -> bytes:
        """The receipt of staged files; returns when they are durable."""
        output = self.output
        keep_files(output.system, [f"{output.hidden}/{part.name}" for part in parts])
        return Receipt(self.output_name, tuple(parts)).encode()

    # On the driver, before the commit

    def agreement(self) -> bytes | None:
        """See `BaseSink`: the columns of all files."""
        return None if self._columns is None else self._columns.agreement()

    def settle(self, epoch: int, receipts: Sequence[bytes]) -> list[bytes]:
        """See `BaseSink`: files with other columns than those of the run are written anew.

        Raises `ValueError` if the files have no common schema.
        """
        if self._columns is None or self._columns.stated is not None:
            return [*receipts]
        decoded = self._decoded(epoch, receipts)
        found = [decoded_schema(part.columns) for receipt in decoded for part in receipt.parts]
        schema = self._columns.settled(found)
        assert schema is not None, "every part tells its columns"
        for name in self.columns:
            if len(kinds := {each.field(name).type for each in found if name in each.names} - {pa.null()}) > 1:
                raise ValueError(
                    f"column {name!r} has values of the types {', '.join(sorted(map(str, kinds)))}, so that folders "
                    "for equal values would have different names; state the columns with schema=pyarrow.schema([...])"
                )
        settled = [self._settled(receipt, schema, epoch) for receipt in decoded]
        return [Receipt(self.output_name, columns=encoded_schema(schema)).encode(), *settled]

    def _settled(self, receipt: Receipt, schema: pa.Schema, epoch: int) -> bytes:
        parts = [self._with_schema(part, schema, epoch) for part in receipt.parts]
        if any(part.name != old.name for part, old in zip(parts, receipt.parts, strict=True)):
            return self.receipt(parts)
        return replace(receipt, parts=tuple(parts)).encode()

    def _with_schema(self, part: StagedFile, schema: pa.Schema, epoch: int) -> StagedFile:
        """The part with the columns of the run."""
        schema, found = self._in_files(schema), self._in_files(lasting_schema(decoded_schema(part.columns)))
        if found == schema:
            return part._replace(columns="")
        output = self.output
        old = f"{output.hidden}/{part.name}"
        new = self.write_part(
            epoch, 0, token_hex(8), lambda path: self._writer.rewrite(path, output.scheme + old, found, schema)
        )
        output.system.delete_file(old)
        return part._replace(name=new.name, size=new.size, columns="")

    def _in_files(self, schema: pa.Schema) -> pa.Schema:
        """The columns that files contain."""
        return pa.schema([field for field in schema if field.name not in self.columns], schema.metadata)

    # On the driver

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver: give the parts of a committed epoch their names, hidden or not, and clean up."""
        decoded = self._decoded(epoch, receipts)
        first = self._delivered is None and self._repeatable
        self._run.committed(decoded, self.output_name)
        if first:
            self._refuse_later(epoch, decoded)
        self._repeatable |= epoch == self._delivered
        for receipt in decoded:
            if receipt.columns and self._columns is not None:
                self._columns.committed(decoded_schema(receipt.columns))
        for name, group in groupby(decoded, lambda receipt: receipt.output):
            self._deliver_at(name, list(group), epoch)
        self._repeatable, self._delivered = False, epoch
        if first and self.at_end:
            self._run.count_hidden(self.output, self.columns)
        if self.at_end or any(receipt.parts or receipt.replaced for receipt in decoded):
            self._clean(epoch)

    def _decoded(self, epoch: int, receipts: Sequence[bytes]) -> list[Receipt]:
        name, old = self.output_name, OutputName.of_first_release(self._prefix, self._suffix)
        decoded = [Receipt.decode(receipt, epoch) for receipt in receipts]
        return [replace(receipt, output=name) if receipt.output == old else receipt for receipt in decoded]

    def _refuse_later(self, epoch: int, receipts: Sequence[Receipt]) -> None:
        """Raise `FileExistsError` if there are files of later epochs than the one with which a run goes on."""
        output = self.output
        if self._if_exists == "append":
            later = self._run.later_beside_others(output, self.columns, epoch)
        else:
            replaced = {f"{output.folder}/{old.path}" for receipt in receipts for old in receipt.replaced}
            later = self._run.later(output, self.columns, epoch, replaced)
        if later:
            raise FileExistsError(
                f"{len(later)} files are of later epochs than {epoch}, the newest of this checkpoint, such as "
                f"{later[0]}: the run went on from another copy of the checkpoint, or another run writes here, and "
                "rows would be there twice. Go on with the newest copy, or remove these files"
            )

    def _deliver_at(self, name: OutputName, receipts: Sequence[Receipt], epoch: int) -> None:
        is_own = name == self.output_name
        output = self.output if is_own else output_of(*name)
        parts = [part for receipt in receipts for part in receipt.parts]
        staged = [f"{output.hidden}/{part.name}" for part in parts]
        tag = self._run.tag(parts) if self._if_exists == "append" else ""
        finals = (output.committed if self.at_end else output).finals(parts, epoch, tag)
        if is_own:
            self._remove([old for receipt in receipts for old in receipt.replaced], staged)
            self._awaited.update(finals if self.at_end and not self._repeatable else ())
        elif parts or output.committed_files():
            _log.warning(
                "files of epoch %d were staged for %s…%s and are delivered there; those of later epochs go to %s…%s",
                *(epoch, name.prefix, name.suffix, self.output_name.prefix, self._suffix),
            )
        self._move(output, parts, staged, finals, epoch)
        if parts:
            sync_names(output.system, {output.hidden, *map(folder_of, finals)})
        if not is_own:
            show_committed(output, self.columns)
            _remove_hidden(output)

    def _remove(self, listed: Sequence[OldFile], own: Sequence[str]) -> None:
        """Remove files of an earlier run that have not changed since this run began.

        Args:
            listed: The files of the earlier run.
            own: Paths of the files that the epoch has staged. If one was moved already, all old files were removed
                before.
        """
        if not listed:
            return
        output = self.output
        if any(info.type != fs.FileType.File for info in output.system.get_file_info([*own])):
            return
        olds = {f"{output.folder}/{old.path}": old for old in listed if output.owns(old, self.columns)}
        paths = [*olds.keys() - {*own}]
        existing = [info for info in output.system.get_file_info(paths) if info.type == fs.FileType.File]
        unchanged = [info.path for info in existing if OldFile.of(info, output.folder) == olds[info.path]]
        for path in unchanged:
            with suppress(FileNotFoundError):
                output.system.delete_file(path)
        sync_names(output.system, map(folder_of, unchanged))
        if replaced := sorted(path for path in unchanged if not path.startswith(f"{output.hidden}/")):
            _log.warning(
                "this run began anew, so its files replace those of an earlier run (%d, such as %s); if_exists says "
                "what happens to such files",
                *(len(replaced), replaced[0]),
            )

    def _move(
        self, output: Output, parts: Sequence[StagedFile], staged: Sequence[str], finals: Sequence[str], epoch: int
    ) -> None:
        """Rename staged files that do not have their final names yet. Raises `OSError` for a changed or lost file."""
        infos = output.system.get_file_info([*staged, *finals])
        before, after = infos[: len(parts)], infos[len(parts) :]
        for part, source, final in zip(parts, before, finals, strict=True):
            if source.type == fs.FileType.File and part.size != source.size:
                raise OSError(
                    f"{source.path} of committed epoch {epoch} has {source.size} bytes, but {part.size} were staged: "
                    f"it was cut or changed since, and nothing was moved to {final} or beside it. Restore it, or "
                    "remove it to give its rows up, and run again"
                )
        make_folders(output.system, {*map(folder_of, finals)} - {output.folder})
        missing, changed = [], []
        for number, (part, source, target, final) in enumerate(zip(parts, before, after, finals, strict=True)):
            if source.type == fs.FileType.File and moved(output.system, source.path, final):
                continue
            if target.type != fs.FileType.File and source.type == fs.FileType.File:
                # Another driver, a successor or predecessor, was faster.
                target = output.system.get_file_info(final)
            if target.type != fs.FileType.File or not self._repeatable:
                missing.append(number)
            elif part.size != target.size:
                changed.append(final)
        if missing and self._repeatable:
            missing = self._under_no_name(output, parts, missing, epoch)
        self._report([finals[number] for number in missing], changed, len(parts), epoch)

    def _under_no_name(
        self, output: Output, parts: Sequence[StagedFile], missing: Sequence[int], epoch: int
    ) -> list[int]:
        """Those of the missing files that have no name which an earlier start of this run may have given them.

        It gave them other names if `if_exists` was changed since, or the collection was bounded.
        """
        if self._run.hidden is not None and output.has_shards(self.columns):
            return []
        names = [output.finals(parts, epoch, tag) for tag in self._run.tags(parts)]
        paths = [each[number] for each in names for number in missing]
        existing = {info.path for info in output.system.get_file_info(paths) if info.type == fs.FileType.File}
        return [number for number in missing if not any(each[number] in existing for each in names)]

    def _report(self, missing: Sequence[str], changed: Sequence[str], count: int, epoch: int) -> None:
        """Log files that changed after their delivery. Raises `FileNotFoundError` for files lost before it."""
        if missing and not self._repeatable:
            raise FileNotFoundError(
                f"{len(missing)} of {count} files of committed epoch {epoch} were removed before they were delivered, "
                f"such as the one that should become {missing[0]}; see who cleans {self.output.hidden}. Their rows are "
                "lost: running again goes on without them"
            )
        if missing and not self.at_end:
            _log.warning(
                "%d of %d files of committed epoch %d were delivered and no longer exist, such as %s; a reader has "
                "moved or removed them, and the run goes on",
                *(len(missing), count, epoch, missing[0]),
            )
        if changed:
            _log.warning(
                "%d of %d files of committed epoch %d have changed in size since their delivery, such as %s; they are "
                "left as they are, and the run goes on",
                *(len(changed), count, epoch, changed[0]),
            )

    def _clean(self, epoch: int) -> None:
        """Remove staged files of failed attempts, up to an epoch; the folder stays for tasks of the next epoch."""
        if self._if_exists == "append":
            # Another run may be adding files, whose staged files look like those of failed attempts.
            return
        output = self.output
        for info in output.staged():
            if (output.staged_epoch(info.base_name) or 0) <= epoch:
                with suppress(FileNotFoundError):
                    output.system.delete_file(info.path)

    def finish(self, epoch: int, ended: bool) -> None:
        """On the driver, when the run has ended with this epoch: rename files that are still hidden, and clean up."""
        self._clean(epoch)
        if ended or not self.at_end:
            show_committed(self.output, self.columns, self._awaited)
            self._awaited.clear()
        _remove_hidden(self.output)


def _check_end(prefix: str) -> None:
    """Refuse a folder without a slash at its end, by its spelling: the names would begin with its own, beside it."""
    path = prefix.partition("://")[2] if is_url(prefix) else prefix
    is_root = "/" not in path and (is_url(prefix) or os.path.expanduser(path) != path)
    if is_root or path.rpartition("/")[2] in (".", "..") or not path:
        raise ValueError(
            f"the place {hidden(prefix)!r} is a folder, and the files would be beside it; end it with / for names that "
            f"begin with part, or give how names begin: {hidden(prefix) or '.'}/scores"
        )


def _check_name(beginning: str, end: object) -> None:
    if not isinstance(end, str) or {"/", "\\", "\0"} & set(beginning + end):
        raise ValueError(
            f"names of files cannot begin with {beginning!r:.200} and end with {end!r:.200}; give text without slashes "
            "and backslashes"
        )


def _remove_hidden(output: Output) -> None:
    """Remove the hidden folder if it is empty; files of other sinks in it stay."""
    # An object store has no empty folders.
    if isinstance(output.system, fs.LocalFileSystem):
        with suppress(OSError):
            os.rmdir(output.hidden)


def _files(old: Sequence[fs.FileInfo]) -> str:
    return "a file is left of" if len(old) == 1 else f"{len(old)} files are left of"
