"""How much memory a system takes: the greatest resident size of each of its processes during a run, added up.

Linux keeps each process's greatest size and lets others reset it, so a look now and then misses no peak; it has to see
each process once before it ends. Pages that processes share count in each of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from types import TracebackType

_PROC = Path("/proc")
_EVERY = 0.5
"""Seconds between looks."""
_RESET_PEAK = "5"
"""What `clear_refs` takes for "forget the greatest resident size"; see proc(5)."""
JVM, PYTHON = "JVM", "Python"


def children() -> dict[int, list[int]]:
    """The processes that each process has started, as far as they live."""
    tree: dict[int, list[int]] = defaultdict(list)
    for status in _PROC.glob("[0-9]*/stat"):
        try:
            # The name in parentheses may itself hold anything.
            parent = status.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        tree[int(parent)].append(int(status.parent.name))
    return tree


def kind_of(pid: int) -> str | None:
    """JVM, Python, or None for what is neither or has ended."""
    try:
        program = (_PROC / str(pid) / "exe").readlink().name
    except OSError:
        return None
    return JVM if program == "java" else PYTHON if program.startswith("python") else None


class PeakMemory:
    """In a `with` block: the peak of these processes and all that they start, JVMs apart from Python."""

    def __init__(self, roots: list[int]) -> None:
        self._roots = roots
        self._peaks: dict[int, int] = {}
        self._kinds: dict[int, str] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def megabytes(self) -> dict[str, float]:
        """By kind of process, of 10⁶ bytes; a kind that there was none of is left out."""
        totals: dict[str, float] = defaultdict(float)
        for pid, peak in self._peaks.items():
            totals[self._kinds[pid]] += peak / 1e6
        return dict(totals)

    def __enter__(self) -> PeakMemory:
        if self._roots:
            for pid in self._processes():
                _reset(pid)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._roots:
            self._over.set()
            self._thread.join()
            self._look()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        for pid in self._processes():
            if (peak := _peak(pid)) and (kind := kind_of(pid)):
                self._peaks[pid] = max(peak, self._peaks.get(pid, 0))
                self._kinds[pid] = kind

    def _processes(self) -> list[int]:
        tree, found = children(), list(self._roots)
        for pid in found:
            # A JVM below a JVM is one that is about to become another program, and has no memory of its own.
            below_java = kind_of(pid) == JVM
            found.extend(child for child in tree.get(pid, ()) if not (below_java and kind_of(child) == JVM))
        return found


def _reset(pid: int) -> None:
    try:
        (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)
    except OSError:
        # It has just ended, or belongs to somebody else; then its figure is that of its whole life.
        return


def _peak(pid: int) -> int:
    """Greatest resident size in bytes, 0 when it has ended."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
