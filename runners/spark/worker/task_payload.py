"""The payload of every task of a run: the topology and the location of the checkpoint.

The payload is part of the function of each task, and each worker process unpacks it once. The key of a signed
checkpoint is in it, too: Spark shows rows, properties of jobs and its configuration to users, but no functions.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import ModuleType

import cloudpickle

from headrace.lowlevel.class_lookup import declare_main_program, loading_program, main_program
from headrace.lowlevel.code_pickling import CodePickler, dumps, shipped
from headrace.lowlevel.injectors.injector import BaseInjector, Delivery, Injector
from headrace.lowlevel.storage.credentials import hook_in_use
from headrace.lowlevel.storage.credentials import use as use_credentials
from headrace.lowlevel.storage.object_store import ObjectStorage
from headrace.lowlevel.storage.signed_store import carried
from headrace.lowlevel.topology.topology import Topology
from headrace.runners.engine.task.prepared_topology import PreparedTopology


class _ReadElsewhere(BaseInjector):
    """Takes the place of an injector in tasks, which need only its splits."""

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """Raise `AssertionError`, as tasks plan nothing."""
        raise AssertionError("only the driver plans deliveries")


@dataclass(frozen=True, slots=True)
class PayloadContents:
    """An unpacked payload."""

    program: PreparedTopology
    store: ObjectStorage
    run: str
    """Name of the checkpoint, and of the folder of its state stores."""
    cache_bytes: int = 0
    """Bytes of decoded state that each process may cache."""


def packed(topology: Topology) -> bytes:
    """Pickle a topology for tasks, and what tasks look up in the main program: its classes, and names of its functions.

    Raises `ShippingError`, which names the step and the value that cannot be pickled.
    """
    stand_in: Injector = _ReadElsewhere()
    stripped = replace(topology, injectors=dict.fromkeys(topology.injectors, stand_in))
    # The classes of the main program travel in the same pickle as the functions that use them.
    try:
        found = CodePickler(io.BytesIO())
        found.dump(stripped)
        main = vars(sys.modules["__main__"])
        names = _main_classes() | {name: main[name] for name in found.main_names}
        data = dumps((main_program(), names, stripped))
    except Exception:
        _find_culprit(stripped)
        raise
    return data


@dataclass(frozen=True, slots=True)
class TaskPayload:
    """Packed contents; equal for equal contents of one driver.

    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> from headrace.lowlevel.storage.object_store import ObjectStore
    >>> topology = Topology()
    >>> topology.injector("words", BoundedInjector([("large", 0)] * 10_000))
    >>> payload = TaskPayload.of(packed(topology), ObjectStore("checkpoint"), "run")
    >>> payload.unpack().run, len(payload.data) < 2_000
    ('run', True)
    """

    data: bytes
    digest: bytes
    printed: str = ""
    """The socket that takes what user code prints (`PrintedOutput`); empty if that goes to Spark's logs."""

    @classmethod
    def of(
        cls, topology: bytes, store: ObjectStorage, run: str, cache_bytes: int = 0, printed: str = ""
    ) -> TaskPayload:
        """Pack a payload; `topology` is what `packed` returned."""
        data = cloudpickle.dumps((topology, carried(store), run, cache_bytes, hook_in_use()))
        return cls(data, blake2b(data, digest_size=16).digest(), printed)

    def unpack(self) -> PayloadContents:
        """The contents, with new instances at each call; `LoadedRuns` keeps them from task to task."""
        # Unpickling imports the program's modules.
        with loading_program():
            data, store, run, cache_bytes, hook = cloudpickle.loads(self.data)
            use_credentials(hook)
            program, names, topology = cloudpickle.loads(data)
        declare_main_program(program)
        main = sys.modules["__main__"]
        for name, value in names.items():
            # Values are pickled with the name of their class, which unpickling looks up in this module.
            if getattr(main, name, None) is not value:
                setattr(main, name, value)
        return PayloadContents(PreparedTopology(topology), store, run, cache_bytes)

    def __hash__(self) -> int:
        return hash(self.digest)


def _find_culprit(topology: Topology) -> None:
    """Raise `ShippingError` for the first part of a topology that cannot be pickled."""
    for node in topology.keyed.values():
        shipped(node.computation, node.name)
        for extract in node.inputs.values():
            shipped(extract, node.name)
    for inline in topology.inlines.values():
        shipped(inline.computation, inline.name)
    for name, (_, sink) in topology.sinks.items():
        shipped(sink, name)


def _main_classes() -> dict[str, type]:
    """The classes that the main program defines and that can be pickled."""
    main: ModuleType = sys.modules["__main__"]
    own = {
        name: value for name, value in vars(main).items() if isinstance(value, type) and value.__module__ == "__main__"
    }
    return {name: value for name, value in own.items() if _can_be_pickled(value)}


def _can_be_pickled(value: object) -> bool:
    try:
        dumps(value)
    except Exception:
        return False
    return True
