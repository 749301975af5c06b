"""What a topology looks like from outside: enough to tell whether a checkpoint belongs to it, and if not, why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from headrace.lowlevel.topology import Topology


class Member(NamedTuple):
    """An injector, a computation, an inline computation or a sink."""

    kind: str
    name: str
    class_name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class Fingerprint(NamedTuple):
    """A topology's members, and its computations by level (level 1 first).

    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([]))
    >>> Fingerprint.of(topology).members[0].class_name
    'BoundedInjector'
    """

    members: tuple[Member, ...]
    levels: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, topology: Topology) -> Fingerprint:
        """The fingerprint of a topology."""
        members = [Member("injector", name, _class(one), (), (name,)) for name, one in topology.injectors.items()]
        for kind, places in (("computation", topology.keyed), ("inline computation", topology.inlines)):
            for place in places.values():
                inputs, outputs = tuple(sorted(place.inputs)), tuple(sorted(place.outputs))
                members.append(Member(kind, place.name, _class(place.computation), inputs, outputs))
        for name, (stream, sink) in topology.sinks.items():
            members.append(Member("sink", name, _class(sink), (stream,), ()))
        return cls(tuple(sorted(members)), tuple(map(tuple, topology.levels())))

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: bytes) -> Fingerprint:
        """Back from `encode`."""
        members, levels = json.loads(data)
        made = (Member(kind, name, of, tuple(ins), tuple(outs)) for kind, name, of, ins, outs in members)
        return cls(tuple(made), tuple(map(tuple, levels)))

    def differences(self, now: Fingerprint) -> list[str]:
        """What changed from this topology to `now`, one sentence each; empty if nothing did.

        >>> before = Fingerprint((Member("sink", "out", "CallSink", ("a",), ()),))
        >>> before.differences(Fingerprint((Member("sink", "out", "CallSink", ("b",), ()),)))
        ["sink 'out' has inputs b instead of a"]
        """
        old = {(member.kind, member.name): member for member in self.members}
        new = {(member.kind, member.name): member for member in now.members}
        found = [f"{old[key]} is gone" for key in old if key not in new]
        found += [f"{new[key]} is new" for key in new if key not in old]
        for key in old.keys() & new.keys():
            found += _changes(old[key], new[key])
        if not found and self.levels != now.levels:
            found.append(f"computations by level are {_shown(now.levels)} instead of {_shown(self.levels)}")
        return sorted(found)


def _class(instance: object) -> str:
    # Without the module: a program's is `__main__` when it is run and its own name when it is imported.
    return type(instance).__qualname__


def _changes(old: Member, new: Member) -> list[str]:
    found = []
    if old.class_name != new.class_name:
        found.append(f"{new} is a {new.class_name} instead of a {old.class_name}")
    for what, before, after in (("inputs", old.inputs, new.inputs), ("outputs", old.outputs, new.outputs)):
        if before != after:
            found.append(f"{new} has {what} {', '.join(after) or 'none'} instead of {', '.join(before) or 'none'}")
    return found


def _shown(levels: Iterable[Iterable[str]]) -> str:
    return " | ".join(", ".join(level) for level in levels)
