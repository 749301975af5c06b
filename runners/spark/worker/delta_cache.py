"""A cache of the last delta file that a process wrote for an interval, so that the next task need not read it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.checkpoint.files.delta_file import decode_deltas
from headrace.lowlevel.state.state_store import Delta


@dataclass(frozen=True, slots=True)
class LastDelta:
    """One delta file, until the state stores of the interval contain its changes.

    >>> last = LastDelta("0001", {"step": Delta(cells={(bytes(16), b""): b"state"})})
    >>> last.of("other"), len(last.of("step"))
    ([], 1)
    >>> last.drop("step")
    >>> last.of("step") is None
    True
    """

    name: str
    """Its name in a file chain, without the place of a commit that carries it."""
    deltas: dict[str, Delta | bytes | None]
    """Computation -> delta, or the bytes of the whole file; None once it is dropped."""

    def is_named(self, name: str) -> bool:
        """Whether a name in a file chain is that of this file."""
        return name == self.name or name.startswith(f"{self.name}-")

    def of(self, computation: str) -> list[Delta] | None:
        """The deltas of a computation; None if they must be read from the file."""
        if computation not in self.deltas:
            return []
        deltas = self.deltas[computation]
        if isinstance(deltas, bytes):
            return list(decode_deltas(deltas, self.name, computation)[1].values())
        return None if deltas is None else [deltas]

    def drop(self, computation: str) -> None:
        """Drop the delta of a computation."""
        if computation in self.deltas:
            self.deltas[computation] = None
