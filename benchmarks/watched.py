"""What kinds of memory the Python workers take at their peaks, while something runs.

The system keeps a process's greatest resident size, but in that count pages of files that it may take back at any time
(LMDB's, of state stores), and pages that a worker shares with the daemon that it was forked from, once for each. So
the kinds are looked at many times a second; a peak shorter than that may be missed, but for the resident size.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from benchmarks.memory import processes

_EVERY = 0.02
"""Seconds between looks."""
_FOUND_EVERY = 20
"""Looks between searches for new processes."""
_SHARED_EVERY = 5
"""Looks between those that tell what is shared, which walk through all pages."""
_PAGE = os.sysconf("SC_PAGESIZE")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    anonymous: int = 0
    """That no file stands for: what the process cannot do without."""
    files: int = 0
    """Pages of files, which the system may drop and read again."""
    resident: int = 0
    """Both."""
    proportional: int = 0
    """Resident, with pages that several processes share divided by their number."""

    def or_more(self, other: Memory) -> Memory:
        """The greater of each."""
        return Memory(
            max(self.anonymous, other.anonymous),
            max(self.files, other.files),
            max(self.resident, other.resident),
            max(self.proportional, other.proportional),
        )

    def plus(self, other: Memory) -> Memory:
        """The sum of each."""
        return Memory(
            self.anonymous + other.anonymous,
            self.files + other.files,
            self.resident + other.resident,
            self.proportional + other.proportional,
        )


def memory_of(pid: int, shared: bool = True) -> Memory:
    """Of a process now, all nought if it has ended; the proportional size only if `shared`."""
    try:
        resident, files = map(int, (_PROC / str(pid) / "statm").read_text().split()[1:3])
        proportional = _proportional(pid) if shared else 0
    except OSError:
        return Memory()
    return Memory((resident - files) * _PAGE, files * _PAGE, resident * _PAGE, proportional)


def _proportional(pid: int) -> int:
    lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


class WatchedWorkers:
    """In a `with` block: the workers of this process's session are watched, those that start meanwhile included."""

    def __init__(self) -> None:
        self._peaks: dict[int, Memory] = {}
        self._at_once = Memory()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def at_peaks(self) -> Memory:
        """Each worker's greatest amounts, added up, whenever they were."""
        total = Memory()
        for peak in self._peaks.values():
            total = total.plus(peak)
        return total

    def at_once(self) -> Memory:
        """The most that all workers had at one moment (without the proportional size)."""
        return self._at_once

    def __enter__(self) -> WatchedWorkers:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        for process in processes():
            if process.number in self._peaks:
                peak = Memory(resident=process.peak)
                self._peaks[process.number] = self._peaks[process.number].or_more(peak)

    def _watch(self) -> None:
        looks, workers = 0, list[int]()
        while not self._over.wait(_EVERY):
            if looks % _FOUND_EVERY == 0:
                workers = [process.number for process in processes() if process.kind == "worker"]
            self._look(workers, shared=looks % _SHARED_EVERY == 0)
            looks += 1

    def _look(self, workers: list[int], shared: bool) -> None:
        together = Memory()
        for pid in workers:
            now = memory_of(pid, shared)
            self._peaks[pid] = self._peaks.get(pid, Memory()).or_more(now)
            together = together.plus(now)
        self._at_once = self._at_once.or_more(together)
