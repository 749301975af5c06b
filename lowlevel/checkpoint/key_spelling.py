"""How the keys of a checkpoint spell their classes, which a run that goes on from it keeps (MillWheel paper §4.4).

Release 0.1.0 put the module of a class into the identity of a key. A run that goes on from one of its checkpoints finds
these classes once, among the stored keys, and keeps their spelling for each step, so that stored keys and new ones are
the same keys. The fingerprint says which classes these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headrace.lowlevel.checkpoint.inspection.checkpoint_view import CheckpointView
from headrace.lowlevel.checkpoint.inspection.values import block_keys
from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, SPELLING, Member, spelled_in
from headrace.lowlevel.coders.coder import names_in
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
        if spelled := _spelled(stored[name], view):
            node = topology.keyed[name]
            changed[name] = replace(node, key_coder=node.key_coder.of_step(spelled))
    return _with_nodes(topology, changed) if changed else topology


def _with_nodes(topology: Topology, nodes: dict[str, Keyed]) -> Topology:
    # In the same order, in which levels and tasks have the computations.
    return replace(topology, keyed={name: nodes.get(name, node) for name, node in topology.keyed.items()})


def _spelled(member: Member, view: CheckpointView) -> frozenset[str]:
    signature = dict(member.signature)
    if not signature or SPELLING in signature:
        return spelled_in(signature)
    names = {name for key in _keys(view, member.name) for name in names_in(key)}
    return frozenset(name for name in names if not name.startswith((f"{MODULE}:", "builtins:")))


def _keys(view: CheckpointView, computation: str) -> Iterator[bytes]:
    """The encoded keys of everything that a checkpoint has for a computation."""
    yield from view.encoded_keys(computation)
    assert view.manifest is not None, "the checkpoint has this computation"
    for item in view.manifest.pending:
        if item.level and item.consumer == computation:
            yield from block_keys(item.data)
