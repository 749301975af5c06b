"""What tests of file sinks over crashes share: input files, and epochs that are the same in each life."""

from __future__ import annotations

from pathlib import Path

from tests.schedulers import RandomScheduler

LINES = [f"line {number} of {'x' * (number % 7)}" for number in range(40)]


class FixedSize(RandomScheduler):
    """Random orders, but epochs of one size, so that they are the same in each life."""

    def bundle_size(self, epoch: int, limit: int) -> int:
        return 16


def prepared(folder: Path) -> Path:
    """A new folder with the lines in four files."""
    folder.mkdir()
    for number in range(4):
        (folder / f"in-{number}.txt").write_text("".join(f"{line}\n" for line in LINES[number::4]))
    return folder
