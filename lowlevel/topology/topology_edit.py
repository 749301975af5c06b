"""New topologies made of a topology: with another one added, or with parts removed (MillWheel paper §3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.topology.topology import Topology


def joined_topology(topology: Topology, more: Topology) -> Topology:
    """A new topology with the nodes of both; each may read streams of the other.

    Raises `TopologyError` if both have a computation, injector or sink of the same name.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology, more = Topology(), Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> more.computation("count", Computation(), {"queries": str})
    >>> list(joined_topology(topology, more).keyed), list(topology.keyed)
    (['count'], [])
    """
    for kind, own, others in (
        ("an injector of stream", topology.injectors, more.injectors),
        ("a computation", {**topology.keyed, **topology.inlines}, {**more.keyed, **more.inlines}),
        ("a sink", topology.sinks, more.sinks),
    ):
        if common := own.keys() & others.keys():
            raise TopologyError(f"there already is {kind} {min(common)!r}; give the new one a name of its own")
    return replace(
        topology,
        injectors=topology.injectors | more.injectors,
        keyed=topology.keyed | more.keyed,
        inlines=topology.inlines | more.inlines,
        sinks=topology.sinks | more.sinks,
        default_names=topology.default_names | more.default_names,
    )


def reduced_topology(topology: Topology, names: Iterable[str]) -> Topology:
    """A new topology without the computations, sinks and injectors (by stream) of these names.

    Raises `TopologyError` for an unknown name.

    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> list(reduced_topology(topology, ["queries"]).injectors)
    []
    """
    removed = set(names)
    known = [*topology.injectors, *topology.keyed, *topology.inlines, *topology.sinks]
    if unknown := removed - set(known):
        raise TopologyError(f"nothing is named {min(unknown)!r}; there are {', '.join(sorted(set(known)))}")
    return replace(
        topology,
        injectors={name: injector for name, injector in topology.injectors.items() if name not in removed},
        keyed={name: node for name, node in topology.keyed.items() if name not in removed},
        inlines={name: node for name, node in topology.inlines.items() if name not in removed},
        sinks={name: sink for name, sink in topology.sinks.items() if name not in removed},
    )
