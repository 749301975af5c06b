"""Memory and processor time of this process and of all that it started, told apart by what they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as the system sees it now."""

    number: int
    kind: str
    """`driver` (this one), `java`, `worker` (a Python process that runs tasks) or `other`."""
    resident: int
    """Bytes in memory, pages shared with others included."""
    peak: int
    """The most that `resident` ever was."""
    seconds: float
    """Processor time, that of its ended children included."""


def processes() -> list[Process]:
    """This process and all below it."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if (fields := _fields(folder)) is not None:
            parents[int(folder.name)] = int(fields[1])
    own = os.getpid()
    found = [_process(number, parents, own) for number in _below(own, parents)]
    return [process for process in found if process is not None]


def _below(root: int, parents: dict[int, int]) -> Iterator[int]:
    yield root
    for number, parent in parents.items():
        if parent == root:
            yield from _below(number, parents)


def _process(number: int, parents: dict[int, int], own: int) -> Process | None:
    folder = Path(f"/proc/{number}")
    try:
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    fields = _fields(folder)
    if fields is None or "VmRSS" not in status:
        return None
    seconds = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    kind = "driver" if number == own else _kind(command, parents, number)
    return Process(number, kind, _bytes(status["VmRSS"]), _bytes(status["VmHWM"]), seconds)


def _kind(command: str, parents: dict[int, int], number: int) -> str:
    if "java" in command.partition(" ")[0]:
        return "java"
    # Spark's daemon forks a process for each worker; the daemon itself runs nothing.
    forked = "daemon" in command and number in parents and "daemon" in _command(parents[number])
    return "worker" if forked else "other"


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _fields(folder: Path) -> list[str] | None:
    """Of the process: state, parent and so on; None if it is gone."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _bytes(text: str) -> int:
    return int(text.split()[0]) << 10


def workers_peak() -> int:
    """The most that each Python worker that lives now ever had in memory, added up; bytes."""
    return sum(process.peak for process in processes() if process.kind == "worker")


def processor_seconds() -> float:
    """Processor time of this process and all below it, those that have ended included."""
    return sum(process.seconds for process in processes())
