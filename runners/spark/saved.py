"""The delta file that a process wrote last for an interval: its next task there need not read it (paper §6.2)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lowlevel.checkpoint.delta_file import decode_deltas
from headrace.lowlevel.state import Delta


@dataclass(frozen=True, slots=True)
class Saved:
    """One file, until the copies of its interval have what is in it.

    >>> saved = Saved("0001", {"step": Delta(cells={(bytes(16), b""): b"state"})})
    >>> saved.of("other"), len(saved.of("step"))
    ([], 1)
    >>> saved.forget("step")
    >>> saved.of("step") is None
    True
    """

    name: str
    kept: dict[str, Delta | bytes | None]
    """By computation, or all of the file's bytes; None once it is let go."""

    def of(self, computation: str) -> list[Delta] | None:
        """What the file has of a computation; None if that is to be read."""
        if computation not in self.kept:
            return []
        kept = self.kept[computation]
        if isinstance(kept, bytes):
            return list(decode_deltas(kept, self.name, computation)[1].values())
        return None if kept is None else [kept]

    def forget(self, computation: str) -> None:
        """Its copy has it."""
        if computation in self.kept:
            self.kept[computation] = None
