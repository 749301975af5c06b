"""Delta files and commits of a durable run: the engine's side of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.state import Delta
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.clock import Clock
from headrace.runners.engine.epoch import Sender
from headrace.runners.engine.journal import Journal


class DeltaFiles:
    def write(self, epoch: int, sender: Sender, deltas: dict[str, Delta]) -> tuple[str, int]: ...

    def read_chain(self, chain: bytes, computation: str) -> Iterator[Delta]: ...


def open_journal(url: str, topology: Topology, clock: Clock, owner: str) -> tuple[Journal, DeltaFiles]: ...
