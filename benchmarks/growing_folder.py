"""A folder into which a million small files come in a day: seconds and bytes a commit, and the cost of a look.

    python -m benchmarks.growing_folder [files] [files a commit]

The file system is simulated: a listing gives the new files of each look, so that the figures are those of planning and
of the position. The looks are measured apart, with real files.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.lowlevel import Batch, MemorySplit
from headrace.lowlevel.coders.coder import PLAIN
from headrace.lowlevel.injectors.injector import Split
from headrace.lowlevel.injectors.source_objects import SourceObjects
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.sdk.io.files.directory_injector import DirectoryInjector, DirectoryListing
from headrace.sdk.io.files.file_times import FileTimes
from headrace.sdk.io.files.filesystem import MatchedFile
from headrace.sdk.io.files.pieces import FileFormat, FileReading

_A_LOOK = int(sys.argv[2]) if len(sys.argv) > 2 else 12
"""A million files a day are twelve a second."""
_REPORTS = 10


class OneRecord(FileFormat):
    """A format of files with one record each, which are not opened."""

    def cut(self, file: MatchedFile, offset: int, records: int) -> tuple[Split, int, int | None]:
        """See `FileFormat`."""
        return MemorySplit(Batch([file.path], [file.modified_us])), 1, None


class Simulated(DirectoryListing):
    """A folder in which each look finds `_A_LOOK` new files."""

    looks = 0

    def look(self) -> list[MatchedFile]:
        """See `DirectoryListing`."""
        self.looks += 1
        begin = self.looks * _A_LOOK
        day = f"/data/landing/2024-11-{self.looks % 28 + 1:02}"
        return [MatchedFile(f"{day}/sensor-{each:012}.json", 700, each) for each in range(begin, begin + _A_LOOK)]


def commits(files: int, folder: str) -> None:
    """Plan and encode an epoch for each look; print processor time and bytes for each tenth of the files."""
    injector = DirectoryInjector(OneRecord(), FileReading("/data/landing/**/*.json", None, FileTimes(True), 0.0))
    store = ObjectStore(folder)
    injector.store_in(SourceObjects(store, "sources/landing"))
    position = injector.start()
    injector.plan(position, 1, 1)
    injector._listing = Simulated("/data")
    epochs = files // _A_LOOK
    for part in range(_REPORTS):
        began, most, bytes_, slowest = time.process_time(), 0, 0, 0.0
        for _ in range(epochs // _REPORTS):
            start = time.process_time()
            delivery = injector.plan(position, 1_000_000, 8)
            encoded = PLAIN.encode(delivery.position)
            position = PLAIN.decode(encoded)
            injector.committed(position)
            slowest = max(slowest, time.process_time() - start)
            most, bytes_ = max(most, len(encoded)), bytes_ + len(encoded)
        count = epochs // _REPORTS
        print(
            f"{(part + 1) * count * _A_LOOK:>9,} files: {(time.process_time() - began) / count * 1e3:.2f} ms a commit "
            f"(the slowest {slowest * 1e3:.0f}), {bytes_ / count / 1e3:.1f} KB (at most {most / 1e3:.1f})"
        )
    kept = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    print(f"kept in the checkpoint: {kept / 1e6:.1f} MB, {kept / (epochs * _A_LOOK):.1f} bytes a file")
    again = DirectoryInjector(OneRecord(), FileReading("/data/landing/**/*.json", None, FileTimes(True), 0.0))
    again.store_in(SourceObjects(store, "sources/landing"))
    again.plan(again.start(), 1, 1)
    again._listing = Simulated("/data")
    began = time.process_time()
    again._current = (position,)
    assert again.plan(position, 1, 1).idle, "files are read again"
    print(f"a restart: {time.process_time() - began:.2f} s")


def looks(files: int) -> None:
    """Looks at a folder with real files: the first, one without change, one with a new file."""
    with TemporaryDirectory() as folder:
        for number in range(files):
            Path(folder, f"{number:08}.json").touch()
        listing = DirectoryListing(f"{folder}/*.json")
        for what in ("first", "changed lately", "without change", "with a new file"):
            if what == "without change":
                os.utime(folder, (0, 1000))
                listing.look()
            if what == "with a new file":
                Path(folder, "new.json").touch()
            began = time.process_time()
            found = len(listing.look())
            print(f"a look at {files:,} files, {what}: {(time.process_time() - began) * 1e3:.2f} ms, {found:,} new")


def main() -> None:
    """Run both."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with TemporaryDirectory() as folder:
        commits(files, folder)
    looks(50_000)


if __name__ == "__main__":
    main()
