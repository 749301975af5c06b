"""The benchmarks tell kinds of memory apart."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.watched import Memory, WatchedWorkers, memory_of

SIZE = 64 << 20
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system tells this in /proc")


def test_pages_of_files_are_not_anonymous(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, SIZE)
    before = memory_of(os.getpid())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        of_file = memory_of(os.getpid())
        # Not from the allocator, which may have as much that is free.
        with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
            held[:: mmap.PAGESIZE] = b"1" * (SIZE // mmap.PAGESIZE)
            both = memory_of(os.getpid())
    assert of_file.files - before.files > 0.9 * SIZE
    assert of_file.anonymous - before.anonymous < 0.5 * SIZE
    assert both.anonymous - of_file.anonymous > 0.9 * SIZE
    assert both.resident == both.anonymous + both.files
    assert both.proportional <= both.resident + SIZE // 16


def test_a_process_that_has_ended_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert memory_of(ended.pid) == Memory()


def test_peaks_add_up_and_no_worker_is_none() -> None:
    assert Memory(1, 5, 6, 2).or_more(Memory(3, 1, 4, 2)) == Memory(3, 5, 6, 2)
    assert Memory(1, 5, 6, 2).plus(Memory(3, 1, 4, 2)) == Memory(4, 6, 10, 4)
    with WatchedWorkers() as watched:
        pass
    assert watched.at_peaks() == watched.at_once() == Memory()
