"""A loss of power: a layer below all files that remembers what was synced, and at a cut forgets what was not.

While it is installed it stands in the place of `os.fsync`. A file's bytes last as they were at its last sync, names in
a folder as they were at its own; of what came later each change has happened or has not, drawn from a seed, as a file
system may bring it to the disk early. A file that was never synced is empty, torn, full of zeros, or whole.

Two changes are one: a rename never takes a name away without giving the other, and the folder that it is in, which no
journal allows.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headrace.runners.local import Crash

Tree = dict[str, "bytes | Tree"]
"""Name -> contents of a file, or what is in a folder."""
_KIND = re.compile(rb"\"kind\": \"([a-z' ]+)\"")
_NUMBERS = re.compile(r"[0-9a-f]{16}|\d+")


@dataclass
class _Now:
    """What is to be seen at this moment, on the disk or not."""

    folders: dict[int, dict[str, int]] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> _Now:
        now = cls()
        now._read(root)
        return now

    def _read(self, folder: Path) -> None:
        entries = self.folders[folder.stat().st_ino] = {}
        for entry in os.scandir(folder):
            entries[entry.name] = entry.inode()
            if entry.is_dir(follow_symlinks=False):
                self._read(Path(entry.path))
            else:
                self.files[entry.inode()] = Path(entry.path).read_bytes()


class Power:
    """The layer over everything in a folder, during one life of a process.

    Args:
        root: The folder. All that is in it now is on the disk.
        random: Draws what of the rest survives.
        cut_at: Number of the moment at which the power goes, from 1: a step of the protocol, or before or after a sync.
        without: Syncs by their names (see `synced`) that do nothing, to see that something needs them.
    """

    def __init__(
        self, root: Path, random: Random, cut_at: int | None = None, without: Callable[[str], bool] = lambda name: False
    ) -> None:
        self._root, self._random, self._cut_at, self._without = root, random, cut_at, without
        self._top = root.stat().st_ino
        now = _Now.of(root)
        self._folders, self._files = now.folders, now.files
        self._dropped: set[int] = set()
        """What has lost a name for good: it has its new one."""
        self._pins: dict[int, int] = {}
        """So that no number is given twice."""
        for folder, _, files in os.walk(root):
            for path in [Path(folder), *(Path(folder, name) for name in files)]:
                self._pin(path, path.lstat().st_ino)
        self.moments: list[str] = []
        self.synced: list[str] = []
        """What was synced, by name: a folder, or the kind of a file."""
        self.left: Tree | None = None
        """What is there when the power is back."""

    # --- while there is power ----------------------------------------------------------------------------------------

    def moment(self, name: str) -> None:
        """Another moment has come, perhaps the last one. Who has no power does nothing any more."""
        if self.left is not None:
            raise Crash(name)
        self.moments.append(name)
        if len(self.moments) == self._cut_at:
            self.left = self._after_cut()
            raise Crash(name)

    def end(self) -> None:
        """The life is over; if the power was to go later, it goes now."""
        if self._cut_at is not None and self.left is None:
            self.left = self._after_cut()

    def fsync(self, descriptor: int) -> None:
        """In the place of `os.fsync`."""
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not place.is_relative_to(self._root):
            return
        name = self._name(place)
        self.moment(f"before sync of {name}")
        self.synced.append(name)
        if not self._without(name):
            self._keep(place, os.fstat(descriptor))
        self.moment(f"after sync of {name}")

    def _name(self, place: Path) -> str:
        if place.is_dir():
            return "names in " + _NUMBERS.sub("N", str(place.relative_to(self._root)))
        found = _KIND.search(place.read_bytes())
        return f"bytes of a {found[1].decode() if found else place.suffix}"

    def _keep(self, place: Path, found: os.stat_result) -> None:
        self._pin(place, found.st_ino)
        if not stat.S_ISDIR(found.st_mode):
            self._files[found.st_ino] = place.read_bytes()
            return
        entries = {entry.name: entry.inode() for entry in os.scandir(place)}
        for name in entries:
            self._pin(place / name, entries[name])
        self._dropped |= set(self._folders.get(found.st_ino, {}).values()) - set(entries.values())
        self._folders[found.st_ino] = entries

    def _pin(self, place: Path, number: int) -> None:
        if number not in self._pins:
            self._pins[number] = os.open(place, os.O_PATH | os.O_NOFOLLOW)

    # --- when it is gone ---------------------------------------------------------------------------------------------

    def _after_cut(self) -> Tree:
        now = _Now.of(self._root)
        chosen = self._chosen(now)
        return self._tree(self._top, now, chosen)

    def _changes(self, now: _Now, folder: int) -> Iterator[tuple[int, str, int | None, int | None]]:
        """(folder, name, what it was on the disk, what it is now) of each name that was not synced, in one order."""
        before, after = self._folders.get(folder, {}), now.folders.get(folder, {})
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if old != new:
                yield folder, name, old, new
            for inner in dict.fromkeys((old, new)):
                if inner in now.folders or inner in self._folders:
                    yield from self._changes(now, inner)

    def _chosen(self, now: _Now) -> set[tuple[int, str]]:
        """The changes of names that are on the disk although nobody has brought them there."""
        changes = list(self._changes(now, self._top))
        share = self._random.choice([0.0, 0.5, 1.0])
        chosen = {(folder, name) for folder, name, *_ in changes if self._random.random() < share}
        new = {number: (folder, name) for folder, name, _, number in changes if number is not None}
        moved = {number for number in new if number in self._dropped}
        moved |= {old for folder, name, old, _ in changes if (folder, name) in chosen and old in new}
        # The folder that something was moved to, which may be new as well, is there, too.
        while moved:
            place = new.get(moved.pop())
            if place is not None:
                chosen.add(place)
                moved.add(place[0])
        return chosen

    def _tree(self, number: int, now: _Now, chosen: set[tuple[int, str]]) -> Tree:
        before, after = self._folders.get(number, {}), now.folders.get(number, {})
        tree: Tree = {}
        for name in sorted(before.keys() | after.keys()):
            entry = (after if (number, name) in chosen else before).get(name)
            if entry is None:
                continue
            if entry in now.folders or entry in self._folders:
                tree[name] = self._tree(entry, now, chosen)
            else:
                tree[name] = self._contents(entry, now)
        return tree

    def _contents(self, number: int, now: _Now) -> bytes:
        kept, seen = self._files.get(number), now.files.get(number, b"")
        if kept == seen or number not in now.files:
            return kept or b""
        torn = [b"", bytes(len(seen)), seen[: self._random.randrange(len(seen) + 1)], seen]
        return self._random.choice(torn if kept is None else [kept, seen])

    def restore(self) -> None:
        """Let the folder have what is left."""
        for pin in self._pins.values():
            os.close(pin)
        self._pins = {}
        if self.left is not None:
            shutil.rmtree(self._root)
            _write(self._root, self.left)


def _write(folder: Path, tree: Tree) -> None:
    folder.mkdir()
    for name, what in tree.items():
        if isinstance(what, bytes):
            (folder / name).write_bytes(what)
        else:
            _write(folder / name, what)
