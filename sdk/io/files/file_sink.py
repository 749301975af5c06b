"""Files as a sink, exactly once: parts are written out of sight and renamed once they are committed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from os import PathLike, fspath
from secrets import token_hex
from typing import Literal, Protocol, get_args

from pyarrow import fs

from headrace.lowlevel.record import Batch
from headrace.sdk.io.fileparts import Old, Output, Part, Place, Receipt, output_of
from headrace.sdk.io.files import Path, absolute, matcher
from headrace.sdk.io.lasting import folder_of, keep_files, make_folders, moved, sync_names
from headrace.sdk.io.shards import show_committed

_log = logging.getLogger(__name__)
IfExists = Literal["replace", "error", "append"]
"""What becomes of files of an earlier run when a run begins anew."""


class PartWriter(Protocol):
    """Writes the rows of one part."""

    def write(self, path: str, batch: Batch) -> None:
        """Make a new file of the batch's values."""


class FileSink:
    """Each epoch's rows become files `<prefix>-<epoch>-<number><suffix>`, as many as tasks had some.

    Those of a bounded collection (`at_end`) stay hidden until the input has ended and become
    `<prefix>-<shard>-of-<shards><suffix>` then, in the order of epochs.

    Who reads the folder sees complete files of committed epochs only, each once: a delivery that is repeated after a
    crash finds the same names. What is staged or delivered survives a loss of power. Parts of attempts that came to
    nothing are removed with a later delivery, or when the run ends.

    Args:
        prefix: Folder and beginning of the names; a folder alone (ending in `/`) means names that begin with `part`.
            One that is relative begins where the program is when it says so: workers may be elsewhere.
        suffix: End of the names, like `.txt`.
        writer: How a part is written.
        if_exists: What a run does that begins anew beside files of an earlier run, which are those with names that
            this sink gives: `replace` removes them as soon as its first epoch is committed, `error` refuses to begin,
            `append` leaves them and gives names that no other run gives.
    """

    columns: Sequence[str] = ()
    """Those whose values are folders."""

    def __init__(self, prefix: Path, suffix: str, writer: PartWriter, if_exists: IfExists = "replace") -> None:
        if not isinstance(prefix, (str, PathLike)):
            raise TypeError(f"files are written under a path, got {prefix!r:.200}; give a folder, and how names begin")
        if if_exists not in get_args(IfExists):
            raise ValueError(f"if_exists is {if_exists!r:.200}; use one of {', '.join(get_args(IfExists))}")
        prefix = fspath(prefix)
        self._prefix = absolute(prefix + "part" if prefix.endswith("/") else prefix)
        _check_name(self._prefix.rpartition("/")[2], suffix)
        self._suffix = suffix
        self._writer = writer
        self._if_exists = if_exists
        self.read_patterns: Sequence[str] = ()
        """Patterns of files that the same pipeline reads, which must not be replaced."""
        self.at_end = False
        """Whether files are shown when the input has ended, rather than with their epoch."""
        self._awaited: set[str] = set()
        """Hidden files that this driver has delivered, and is to show."""
        self._repeatable = True
        """Whether an earlier life of this run may have delivered what is delivered next."""
        self._delivered: int | None = None

    @property
    def output(self) -> Output:
        """Where the files are, and their names."""
        return output_of(self._prefix, self._suffix)

    @property
    def place(self) -> Place:
        """What names begin and end with, which nobody need be asked for."""
        return Place.of(self._prefix, self._suffix)

    def show_at_end(self, bounded: bool) -> None:
        """Whether the collection is bounded, so that files are shown when the input has ended.

        Not with `append`: what another run keeps hidden is not to be told from what this one does.
        """
        self.at_end = bounded and self._if_exists != "append"

    # Beginning

    def begin(self, anew: bool) -> bytes | None:
        """On the driver: see what an earlier run has left; the receipt says what the first delivery is to remove.

        Raises `FileExistsError`.
        """
        self._repeatable, self._delivered = not anew, None
        output = self.output
        if not anew and not self.at_end:
            # The collection was bounded in an earlier life of the program.
            show_committed(output, self.columns)
        if not anew or self._if_exists == "append":
            return None
        shown, hidden = output.delivered(self.columns), output.hidden_files()
        old = [*shown, *(one for one in hidden if output.owns_committed(one.base_name))]
        if old and self._if_exists == "error":
            raise FileExistsError(
                f"{_files(old)} an earlier run, such as {old[0].path}, and the results of a run that begins with an "
                "empty checkpoint would stand beside them; remove them, write elsewhere, or let if_exists be 'replace' "
                "or 'append'"
            )
        self._refuse_read(shown)
        if not shown and not hidden:
            return None
        return Receipt(self.place, (), tuple(Old.of(one, output.folder) for one in (*shown, *hidden))).encode()

    def held(self) -> bytes | None:
        """See `HoldingSink`."""
        return Receipt(self.place).encode() if self.at_end else None

    def _refuse_read(self, old: Sequence[fs.FileInfo]) -> None:
        for kind, pattern, matches in map(matcher, self.read_patterns if old else ()):
            read = next((one for one in old if kind == self.output.system.type_name and matches(one.path)), None)
            if read is not None:
                raise FileExistsError(
                    f"{read.path} bears a name that is written here, so a run that begins anew would replace it, but "
                    f"it is also read, by {pattern!r}; write elsewhere, or let if_exists be 'append'"
                )

    # In the task

    def stage(self, batch: Batch, epoch: int, interval: int, token: str) -> bytes | None:
        """In the task: write the rows to hidden files; the receipt says which they are."""
        parts = self.write_parts(batch, epoch, interval, token) if len(batch) else []
        return self.receipt(parts) if parts else None

    def write_parts(self, batch: Batch, epoch: int, interval: int, token: str) -> list[Part]:
        """Write rows to hidden files, which `receipt` brings to the disk."""
        return [self.write_part(epoch, interval, token, lambda path: self._writer.write(path, batch))]

    def write_part(self, epoch: int, interval: int, token: str, write: Callable[[str], None]) -> Part:
        """Have a hidden file written under a path."""
        # Tokens are unique within a checkpoint, and files that are added may be those of several.
        token += f"-{token_hex(6)}" if self._if_exists == "append" else ""
        output = self.output
        name = output.staged_name(epoch, interval, token)
        write(f"{output.scheme}{output.hidden}/{name}")
        return Part(name, output.system.get_file_info(f"{output.hidden}/{name}").size)

    def receipt(self, parts: Sequence[Part]) -> bytes:
        """What says which files were staged, once a loss of power takes none of them back."""
        output = self.output
        keep_files(output.system, [f"{output.hidden}/{part.name}" for part in parts])
        return Receipt(self.place, tuple(parts)).encode()

    # On the driver

    def deliver(self, epoch: int, receipts: Sequence[bytes]) -> None:
        """On the driver: give the parts of a committed epoch their names, hidden or not, and clean up."""
        own = self.place
        told = [Receipt.decode(receipt, own, epoch) for receipt in receipts]
        self._repeatable |= epoch == self._delivered
        for place, some in groupby(told, lambda one: one.place):
            self._deliver_at(place, list(some), epoch)
        self._repeatable, self._delivered = False, epoch
        self._clean(epoch)

    def _deliver_at(self, place: Place, receipts: Sequence[Receipt], epoch: int) -> None:
        here = place == self.place
        output = self.output if here else output_of(*place)
        parts = [part for receipt in receipts for part in receipt.parts]
        staged = [f"{output.hidden}/{part.name}" for part in parts]
        finals = (output.committed if self.at_end else output).finals(parts, epoch, self._if_exists == "append")
        if here:
            self._remove([old for one in receipts for old in one.replaced], staged)
            self._awaited.update(finals if self.at_end and not self._repeatable else ())
        else:
            _log.warning(
                "files of epoch %d were staged for %s…%s and are delivered there; those of later epochs go to %s…%s",
                *(epoch, place.prefix, place.suffix, self.place.prefix, self._suffix),
            )
        self._move(output, parts, staged, finals, epoch)
        if parts:
            sync_names(output.system, {output.hidden, *map(folder_of, finals)})
        if not here:
            show_committed(output, self.columns)
            _remove_hidden(output)

    def _remove(self, listed: Sequence[Old], own: Sequence[str]) -> None:
        """Remove files of an earlier run that are what they were when this one began.

        `own` is what the epoch has staged: if some of it is staged no more, all was removed before that was moved.
        """
        if not listed:
            return
        output = self.output
        if any(one.type != fs.FileType.File for one in output.system.get_file_info([*own])):
            return
        olds = {f"{output.folder}/{old.path}": old for old in listed if output.owns(old, self.columns)}
        paths = [*olds.keys() - {*own}]
        there = [one for one in output.system.get_file_info(paths) if one.type == fs.FileType.File]
        same = [one.path for one in there if Old.of(one, output.folder) == olds[one.path]]
        for path in same:
            with suppress(FileNotFoundError):
                output.system.delete_file(path)
        sync_names(output.system, map(folder_of, same))
        if replaced := sorted(path for path in same if not path.startswith(f"{output.hidden}/")):
            _log.warning(
                "this run began anew, so its files replace those of an earlier one (%d, such as %s); if_exists says "
                "what becomes of them",
                *(len(replaced), replaced[0]),
            )

    def _move(
        self, output: Output, parts: Sequence[Part], staged: Sequence[str], finals: Sequence[str], epoch: int
    ) -> None:
        """Give parts their names, unless they have them."""
        infos = output.system.get_file_info([*staged, *finals])
        before, after = infos[: len(parts)], infos[len(parts) :]
        for part, one, final in zip(parts, before, finals, strict=True):
            if one.type == fs.FileType.File and part.size not in (None, one.size):
                raise OSError(
                    f"{one.path} of committed epoch {epoch} has {one.size} bytes, but {part.size} were staged: it was "
                    f"cut or changed since, and nothing was moved to {final} or beside it. Put it back as it was, or "
                    "remove it to give its rows up, and run again"
                )
        make_folders(output.system, {*map(folder_of, finals)} - {output.folder})
        gone, changed = [], []
        for part, one, there, final in zip(parts, before, after, finals, strict=True):
            if one.type == fs.FileType.File and moved(output.system, one.path, final):
                continue
            if there.type != fs.FileType.File and one.type == fs.FileType.File:
                # Another driver that has taken over, or that was replaced, was quicker.
                there = output.system.get_file_info(final)
            if there.type != fs.FileType.File or not self._repeatable:
                gone.append(final)
            elif part.size not in (None, there.size):
                changed.append(final)
        self._tell(gone, changed, len(parts), epoch)

    def _tell(self, gone: Sequence[str], changed: Sequence[str], count: int, epoch: int) -> None:
        """Say what has become of files that an earlier life of this run has delivered."""
        if gone and not self._repeatable:
            raise FileNotFoundError(
                f"{len(gone)} of {count} files of committed epoch {epoch} were removed before they were delivered, "
                f"such as the one that should become {gone[0]}; see who cleans {self.output.hidden}. Their rows are "
                "lost: running again goes on without them"
            )
        if gone and not self.at_end:
            _log.warning(
                "%d of %d files of committed epoch %d were delivered and are there no more, such as %s; whoever reads "
                "them has moved or removed them, and the run goes on",
                *(len(gone), count, epoch, gone[0]),
            )
        if changed:
            _log.warning(
                "%d of %d files of committed epoch %d have other sizes than when they were delivered, such as %s; "
                "they are left as they are, and the run goes on",
                *(len(changed), count, epoch, changed[0]),
            )

    def _clean(self, epoch: int) -> None:
        """Remove what attempts left behind that were not committed, up to an epoch.

        The folder stays: a task of the next epoch may be about to write to it.
        """
        if self._if_exists == "append":
            # Another run may be adding files: what it has staged is not to be told from what came to nothing.
            return
        output = self.output
        for info in output.staged():
            if (output.staged_epoch(info.base_name) or 0) <= epoch:
                with suppress(FileNotFoundError):
                    output.system.delete_file(info.path)

    def finish(self, epoch: int, ended: bool) -> None:
        """On the driver, when the run has ended with this epoch: leave nothing hidden that is to be seen."""
        self._clean(epoch)
        if ended or not self.at_end:
            show_committed(self.output, self.columns, self._awaited)
            self._awaited.clear()
        _remove_hidden(self.output)


def _check_name(begin: str, end: object) -> None:
    if not isinstance(end, str) or {"/", "\\", "\0"} & set(begin + end):
        raise ValueError(
            f"names of files cannot begin with {begin!r:.200} and end with {end!r:.200}; give text without slashes and "
            "backslashes"
        )


def _remove_hidden(output: Output) -> None:
    """Remove the hidden folder if it is empty: what another sink has there stays."""
    # A store of objects has no folders that could be empty.
    if isinstance(output.system, fs.LocalFileSystem):
        with suppress(OSError):
            os.rmdir(output.hidden)


def _files(found: Sequence[fs.FileInfo]) -> str:
    return "a file is left of" if len(found) == 1 else f"{len(found)} files are left of"
