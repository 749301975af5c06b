"""What a topology looks like from outside: enough to tell whether a checkpoint belongs to it, and if not, why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from headrace.lowlevel.injector import Injector
from headrace.lowlevel.topology import Keyed, Topology

INJECTOR, COMPUTATION, INLINE, SINK = "injector", "computation", "inline computation", "sink"
"""Kinds of members."""
IDS = "ids of records"
"""The aspect of a computation that keeps ids, so that it never counts as one that stores nothing."""


class Member(NamedTuple):
    """An injector, a computation, an inline computation or a sink."""

    kind: str
    name: str
    class_name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: tuple[tuple[str, str], ...] = ()
    """What gives meaning to what it has in the checkpoint: (aspect, value) in order; empty if there is nothing."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


class Fingerprint(NamedTuple):
    """A topology's members, and its computations by level (level 1 first).

    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("numbers", BoundedInjector([]))
    >>> Fingerprint.of(topology).members[0].signature
    (('position', 'BoundedInjector'),)
    """

    members: tuple[Member, ...]
    levels: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, topology: Topology) -> Fingerprint:
        """The fingerprint of a topology."""
        identified = topology.id_slacks()
        members = [_injector(name, one) for name, one in topology.injectors.items()]
        members += [
            _computation(place, not identified.keys().isdisjoint(place.inputs)) for place in topology.keyed.values()
        ]
        for inline in topology.inlines.values():
            inputs, outputs = tuple(sorted(inline.inputs)), tuple(sorted(inline.outputs))
            members.append(Member(INLINE, inline.name, _class(inline.computation), inputs, outputs))
        for name, (stream, sink) in topology.sinks.items():
            members.append(Member(SINK, name, _class(sink), (stream,), ()))
        return cls(tuple(sorted(members)), tuple(map(tuple, topology.levels())))

    def of_kind(self, kind: str) -> dict[str, Member]:
        """Name -> member, of one kind."""
        return {member.name: member for member in self.members if member.kind == kind}

    def level_of(self) -> dict[str, int]:
        """Computation -> its level, from 1."""
        return {name: level for level, names in enumerate(self.levels, 1) for name in names}

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: bytes) -> Fingerprint:
        """Back from `encode`."""
        members, levels = json.loads(data)
        made = (
            Member(kind, name, of, tuple(ins), tuple(outs), tuple((aspect, value) for aspect, value in signature))
            for kind, name, of, ins, outs, signature in members
        )
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


def _changes(old: Member, new: Member) -> list[str]:
    found = []
    if old.class_name != new.class_name:
        found.append(f"{new} is a {new.class_name} instead of a {old.class_name}")
    for what, before, after in (("inputs", old.inputs, new.inputs), ("outputs", old.outputs, new.outputs)):
        if before != after:
            found.append(f"{new} has {what} {', '.join(after) or 'none'} instead of {', '.join(before) or 'none'}")
    return found + aspects_changed(old, new)


def aspects_changed(old: Member, new: Member) -> list[str]:
    """Aspects of the signature that are gone or have another value, one sentence each.

    >>> counter = Member("computation", "sum", "Sum", (), (), (("class", "Sum"), ("state coder", "PickleCoder")))
    >>> aspects_changed(counter, counter._replace(signature=(("class", "Total"), ("state coder", "PickleCoder"))))
    ["computation 'sum' has class Total instead of Sum"]
    """
    now = dict(new.signature)
    return [
        f"{new} has {aspect} {now.get(aspect, 'none')} instead of {value}"
        for aspect, value in old.signature
        if now.get(aspect) != value and aspect != IDS
    ]


def _shown(levels: Iterable[Iterable[str]]) -> str:
    return " | ".join(", ".join(level) for level in levels)


def _injector(stream: str, injector: Injector) -> Member:
    # An injector need not be a `BaseInjector`.
    position = getattr(injector, "position_kind", _class(injector))
    return Member(INJECTOR, stream, _class(injector), (), (stream,), (("position", str(position)),))


def _computation(place: Keyed, identified: bool) -> Member:
    signature = dict(place.computation.state_signature())
    if signature:
        signature["keys with coders"] = str(place.key_coder)
    if identified and place.computation.exactly_once:
        signature[IDS] = "kept"
    inputs, outputs = tuple(sorted(place.inputs)), tuple(sorted(place.outputs))
    return Member(COMPUTATION, place.name, _class(place.computation), inputs, outputs, tuple(sorted(signature.items())))


def _class(instance: object) -> str:
    # Without the module: a program's is `__main__` when it is run and its own name when it is imported.
    return type(instance).__qualname__
