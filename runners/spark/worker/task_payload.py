"""What every task needs and no epoch changes: the topology and the place of the checkpoint.

It travels inside the tasks' function, and each worker process unpacks it once. That is also the way of the key of a
signed checkpoint: Spark writes functions down nowhere that rows, properties of jobs and configuration are shown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import ModuleType

import cloudpickle

from headrace.lowlevel.checkpoint.signature import carried
from headrace.lowlevel.injector import BaseInjector, Delivery, Injector
from headrace.lowlevel.store import Store
from headrace.lowlevel.topology import Topology
from headrace.runners.engine.program import Program
from headrace.sdk.shipping import shipped


class _ReadElsewhere(BaseInjector):
    """Stands for an injector in the tasks: they read its splits and need no more of it."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Nothing is planned in tasks."""
        raise AssertionError("only the driver plans deliveries")


@dataclass(frozen=True, slots=True)
class Contents:
    """What a shipment holds."""

    program: Program
    store: Store
    run: str
    """Name of the checkpoint, for the copies of its state."""
    cache_bytes: int = 0
    """What decoded state may take up in each process."""


def packed(topology: Topology) -> bytes:
    """A topology as its tasks need it, with the main program's classes: all that may turn out not to travel.

    Raises `ShippingError` naming the step and what cannot be pickled.
    """
    stand_in: Injector = _ReadElsewhere()
    stripped = replace(topology, injectors=dict.fromkeys(topology.injectors, stand_in))
    # The classes of the main program travel in the same pickle as the functions that use them.
    try:
        data: bytes = cloudpickle.dumps((_main_classes(), stripped))
    except Exception:
        _find_culprit(stripped)
        raise
    return data


@dataclass(frozen=True, slots=True)
class Shipment:
    """Contents packed; equal for equal contents of one driver.

    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> from headrace.lowlevel.store import ObjectStore
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("large", 0)] * 10_000))
    >>> shipment = Shipment.of(packed(topology), ObjectStore("checkpoint"), "run")
    >>> shipment.unpack().run, len(shipment.data) < 2_000
    ('run', True)
    """

    data: bytes
    digest: bytes

    @classmethod
    def of(cls, topology: bytes, store: Store, run: str, cache_bytes: int = 0) -> Shipment:
        """What the tasks of a run need, of which `topology` is packed already."""
        data = cloudpickle.dumps((topology, carried(store), run, cache_bytes))
        return cls(data, blake2b(data, digest_size=16).digest())

    def unpack(self) -> Contents:
        """The contents, with instances of their own each time; `Held` keeps them from task to task."""
        data, store, run, cache_bytes = cloudpickle.loads(self.data)
        classes, topology = cloudpickle.loads(data)
        main = sys.modules["__main__"]
        for name, value in classes.items():
            # Values are pickled by the name of their class, and this is where that name is looked up.
            if getattr(main, name, None) is not value:
                setattr(main, name, value)
        return Contents(Program(topology), store, run, cache_bytes)

    def __hash__(self) -> int:
        return hash(self.digest)


def _find_culprit(topology: Topology) -> None:
    """Raise `ShippingError` for the first part of a topology that cannot be pickled."""
    for place in topology.keyed.values():
        shipped(place.computation, place.name)
        for extract in place.inputs.values():
            shipped(extract, place.name)
    for inline in topology.inlines.values():
        shipped(inline.computation, inline.name)
    for name, (_, sink) in topology.sinks.items():
        shipped(sink, name)


def _main_classes() -> dict[str, type]:
    """The classes that the main program defines and that can travel."""
    main: ModuleType = sys.modules["__main__"]
    own = {
        name: value for name, value in vars(main).items() if isinstance(value, type) and value.__module__ == "__main__"
    }
    return {name: value for name, value in own.items() if _travels(value)}


def _travels(value: object) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True
