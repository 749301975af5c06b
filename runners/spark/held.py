"""What a worker process keeps of runs from task to task, and how it lets go of them."""

from __future__ import annotations

from collections import OrderedDict

from headrace.lowlevel.softstate import StateCache
from headrace.runners.spark.host import SparkHost
from headrace.runners.spark.shipment import Contents, Shipment

_MOST = 4


class Held:
    """Shipments unpacked, each with its host; user code is torn down when one is let go.

    A shipment that was let go, or whose user code could not be set up, is unpacked anew for the next task: instances
    live once.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Shipment, tuple[Contents, SparkHost]] = OrderedDict()

    def take(self, shipment: Shipment) -> tuple[Contents, SparkHost]:
        """The shipment unpacked, and its host; those of the run used least recently make room."""
        found = self._held.get(shipment)
        if found is None or found[0].program.is_over:
            contents = shipment.unpack()
            host = self._host_of(contents) or SparkHost(contents.store, contents.run, contents.cache_bytes)
            found = self._held[shipment] = (contents, host)
        self._held.move_to_end(shipment)
        if len(self._held) > _MOST:
            self.leave(next(iter(self._held)))
        return found

    def _host_of(self, contents: Contents) -> SparkHost | None:
        """The host of a run that goes on with another topology: its copies must not be opened twice in a process."""
        for shipment, (before, host) in list(self._held.items()):
            if before.run == contents.run:
                self.leave(shipment)
                # Objects may be of classes that are others now, and the checkpoint may be a copy of the one before.
                host.states = StateCache(contents.cache_bytes)
                host.moves_to(contents.store)
                return host
        return None

    def leave(self, shipment: Shipment) -> None:
        """No task of this run follows in this process."""
        if (found := self._held.pop(shipment, None)) is not None:
            found[0].program.teardown()

    def leave_all(self) -> None:
        """The process ends."""
        while self._held:
            self.leave(next(iter(self._held)))


HELD = Held()
"""Of this process."""
