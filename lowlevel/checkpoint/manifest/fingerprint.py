"""Fingerprints of topologies, by which a checkpoint is compared with a program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.lowlevel.injectors.injector import Injector
from headrace.lowlevel.stored_names import public_name
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.topology import UNSHARED, Topology

INJECTOR, COMPUTATION, INLINE, SINK = "injector", "computation", "inline computation", "sink"
"""The kinds of members."""
IDS = "ids of records"
"""The signature aspect of a computation that stores record ids."""
DEFAULT_NAME = "default label"
"""The signature aspect of a member whose name is not from the program; see `Topology.default_names`."""
SPELLING = "classes of keys"
"""The signature aspect that says how keys name their classes; 0.1.0 did not write it."""
_BY_NAME = "by qualified name"
_BUT = f"{_BY_NAME}, but with their module "


class Member(NamedTuple):
    """An injector, a computation, an inline computation or a sink."""

    kind: str
    name: str
    class_name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    signature: tuple[tuple[str, str], ...] = ()
    """The meaning of its stored data: (aspect, value), sorted; empty if it stores nothing."""

    def __str__(self) -> str:
        return f"{word_for(self.kind)} {self.name!r}"


def word_for(kind: str) -> str:
    """The word that messages have for a kind of members; users of the SDK know injectors as sources.

    >>> word_for(INJECTOR), word_for(SINK)
    ('source', 'sink')
    """
    return "source" if kind == INJECTOR else kind


class Fingerprint(NamedTuple):
    """The members of a topology, and the names of its computations by level (level 1 first).

    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
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
        members = [_injector(name, injector) for name, injector in topology.injectors.items()]
        members += [
            _computation(node, not identified.keys().isdisjoint(node.inputs)) for node in topology.keyed.values()
        ]
        members = [_with_default_name(member, topology.default_names.get(member.name)) for member in members]
        for inline in topology.inlines.values():
            inputs, outputs = tuple(sorted(inline.inputs)), tuple(sorted(inline.outputs))
            members.append(Member(INLINE, inline.name, _class(inline.computation), inputs, outputs))
        for name, (stream, sink) in topology.sinks.items():
            members.append(Member(SINK, name, _class(sink), (stream,), ()))
        return cls(tuple(sorted(members)), tuple(map(tuple, topology.levels())))

    def of_kind(self, kind: str) -> dict[str, Member]:
        """Name -> member, for the members of one kind."""
        return {member.name: member for member in self.members if member.kind == kind}

    def level_of(self) -> dict[str, int]:
        """Computation -> its level, from 1."""
        return {name: level for level, names in enumerate(self.levels, 1) for name in names}

    def makers(self) -> dict[str, list[Member]]:
        """Stream -> the members that put it out."""
        found: dict[str, list[Member]] = {}
        for member in self.members:
            for stream in member.outputs:
                found.setdefault(stream, []).append(member)
        return found

    def encode(self) -> bytes:
        """Encode the fingerprint as JSON."""
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: bytes) -> Fingerprint:
        """Decode the result of `encode`."""
        members, levels = json.loads(data)
        decoded = (
            Member(kind, name, class_name, tuple(ins), tuple(outs), tuple(map(tuple, signature)))
            for kind, name, class_name, ins, outs, signature in members
        )
        return cls(tuple(decoded), tuple(map(tuple, levels)))

    def differs_from(self, now: Fingerprint) -> bool:
        """Whether the topologies differ in more than how keys name their classes, which needs no commit of its own."""
        return self != now and (_unspelled(self), self.levels) != (_unspelled(now), now.levels)

    def differences(self, now: Fingerprint) -> list[str]:
        """The changes from this topology to `now`, one sentence each; empty if there are none.

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


def _unspelled(topology: Fingerprint) -> list[Member]:
    return [
        member._replace(signature=tuple(pair for pair in member.signature if pair[0] != SPELLING))
        for member in topology.members
    ]


def _changes(old: Member, new: Member) -> list[str]:
    found = []
    if old.class_name != new.class_name:
        found.append(f"{new} is a {new.class_name} instead of a {old.class_name}")
    for field, before, after in (("inputs", old.inputs, new.inputs), ("outputs", old.outputs, new.outputs)):
        if before != after:
            found.append(f"{new} has {field} {', '.join(after) or 'none'} instead of {', '.join(before) or 'none'}")
    if is_perhaps_another(old, new):
        found.append(f"{new} may be another step with the same default label")
    return found + aspects_changed(old, new)


def aspects_changed(old: Member, new: Member) -> list[str]:
    """The signature's aspects that are removed or have another value, one sentence each.

    >>> counter = Member("computation", "sum", "Sum", (), (), (("class", "Sum"), ("state coder", "PickleCoder")))
    >>> aspects_changed(counter, counter._replace(signature=(("class", "Total"), ("state coder", "PickleCoder"))))
    ["computation 'sum' has class Total instead of Sum"]
    """
    now = dict(new.signature)
    return [
        f"{new} has {aspect} {now.get(aspect, 'none')} instead of {value}"
        for aspect, value in old.signature
        if now.get(aspect) != value and aspect not in (IDS, DEFAULT_NAME, SPELLING)
    ]


def has_default_name(member: Member) -> bool:
    """Whether a member with stored data has a name that is not from the program."""
    return any(aspect == DEFAULT_NAME for aspect, _ in member.signature)


def is_perhaps_another(old: Member, new: Member) -> bool:
    """Whether a member may have the name of another one by default, as the program has or had several such members.

    >>> sums = Member("computation", "CombinePerKey(<lambda v: v>)", "Grouping", (), (), ((DEFAULT_NAME, "1 of 1"),))
    >>> is_perhaps_another(sums, sums), is_perhaps_another(sums, sums._replace(signature=((DEFAULT_NAME, "1 of 2"),)))
    (False, True)
    """
    before, now = dict(old.signature).get(DEFAULT_NAME, UNSHARED), dict(new.signature).get(DEFAULT_NAME)
    return now is not None and now != before


def spelled_in(signature: Mapping[str, str]) -> frozenset[str]:
    """The classes that keep their module in keys, given aspects and values of a signature; see `KeyClasses`."""
    value = signature.get(SPELLING, "")
    return frozenset(value.removeprefix(_BUT).split(", ")) if value.startswith(_BUT) else frozenset()


def _shown(levels: Iterable[Iterable[str]]) -> str:
    return " | ".join(", ".join(level) for level in levels)


def _injector(stream: str, injector: Injector) -> Member:
    # An injector need not be a `BaseInjector`.
    position = getattr(injector, "position_kind", _class(injector))
    signature = {"position": str(position)}
    # 0.1.0 did not write it.
    if record_format := getattr(injector, "record_format", ""):
        signature["records"] = str(record_format)
    return Member(INJECTOR, stream, _class(injector), (), (stream,), tuple(sorted(signature.items())))


def _computation(node: Keyed, identified: bool) -> Member:
    signature = dict(node.computation.state_signature())
    if signature:
        signature["keys with coders"] = str(node.key_coder)
        spelled = node.key_coder.spelled
        signature[SPELLING] = _BUT + ", ".join(sorted(spelled)) if spelled else _BY_NAME
        if node.key_encoding is not None:
            signature["keys encoded by"] = node.key_encoding
    if identified and node.computation.exactly_once:
        signature[IDS] = "kept"
    inputs, outputs = tuple(sorted(node.inputs)), tuple(sorted(node.outputs))
    return Member(COMPUTATION, node.name, _class(node.computation), inputs, outputs, tuple(sorted(signature.items())))


def _with_default_name(member: Member, default_name: str | None) -> Member:
    if default_name is None or not member.signature:
        return member
    return member._replace(signature=tuple(sorted((*member.signature, (DEFAULT_NAME, default_name)))))


def _class(instance: object) -> str:
    # The module is left out: a program's module is `__main__` when it is run, and has its own name when imported.
    return public_name(type(instance))
