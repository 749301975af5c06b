"""How the keys of a checkpoint spell their classes, which a run that goes on from it keeps (MillWheel paper §4.4).

Release 0.1.0 put the module of a class into the identity of a key. A run that goes on from one of its checkpoints finds
these classes once, among the stored keys, and keeps their spelling for each step, so that stored keys and new ones are
the same keys. The fingerprint says which classes these are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import block_keys
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, SPELLING, Member, spelled_in
from headrace.lowlevel.coders.coder import names_in
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.errors import TopologyChangeError
from headrace.lowlevel.stored_names import MODULE
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.topology import Topology


def continued(topology: Topology, view: CheckpointView) -> Topology:
    """The topology whose keys are spelled as in the checkpoint; the same one if no step has keys of 0.1.0."""
    if (manifest := view.manifest) is None:
        return topology
    stored = {archived.member.name: archived.member for archived in manifest.archive if archived.chains}
    stored |= manifest.topology.of_kind(COMPUTATION)
    changed = {}
    for name in topology.keyed.keys() & stored.keys():
        if classes := spelled(stored[name], view):
            node = topology.keyed[name]
            changed[name] = replace(node, key_coder=node.key_coder.of_step(classes))
    return _with_nodes(topology, changed) if changed else topology


def _with_nodes(topology: Topology, nodes: dict[str, Keyed]) -> Topology:
    # In the same order, in which levels and tasks have the computations.
    return replace(topology, keyed={name: nodes.get(name, node) for name, node in topology.keyed.items()})


def spelled(member: Member, view: CheckpointView) -> frozenset[str]:
    """The classes that keep their module in the keys of a computation, which is found among its stored keys if need be.

    Raises:
        TopologyChangeError: The stored keys are of release 0.1, and would be other keys now.
    """
    signature = dict(member.signature)
    if not signature or SPELLING in signature:
        return spelled_in(signature)
    keys = list(_keys(view, member.name))
    if "keys encoded by" in signature and any(map(has_pickled_class, keys)):
        raise TopologyChangeError(
            f"step {member.name!r} has stored keys of classes of the program, of which release 0.1 has written the "
            "modules with HeadraceRunner, so that they would be other keys now; begin the step without its stored "
            f"data: give it another label, and start once with --allow_removed={shlex.quote(member.name)}"
        )
    names = {name for key in keys for name in names_in(key)}
    return frozenset(name for name in names if not name.startswith((f"{MODULE}:", "builtins:")))


_PICKLED = (b"QlpoO", *(b"\x80" + bytes([protocol]) + b"\x95" for protocol in (4, 5)))
"""How a pickle begins; before them, one that Beam has compressed and written as text."""


def has_pickled_class(encoded: bytes) -> bool:
    """Whether a key is, or contains, bytes of a coder of Beam that has pickled the class of a key."""
    identity = identity_of(encoded)
    return identity[:1] in (b"b", b"t") and any(pickled in identity for pickled in _PICKLED)


def _keys(view: CheckpointView, computation: str) -> Iterator[bytes]:
    """The encoded keys of everything that a checkpoint has for a computation."""
    yield from view.encoded_keys(computation)
    assert view.manifest is not None, "the checkpoint has this computation"
    for item in view.manifest.pending:
        if item.level and item.consumer == computation:
            yield from block_keys(item.data)
