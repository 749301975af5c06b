"""Other topologies made of one: with more in them, or less (MillWheel paper §3). The one given stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.lowlevel.errors import TopologyError
from headrace.lowlevel.topology import Topology


def joined(topology: Topology, more: Topology) -> Topology:
    """A topology with everything of another one besides, which may read its streams.

    Raises `TopologyError` if both have something of the same name.

    >>> from headrace.lowlevel.computation import Computation
    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology, more = Topology(), Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> more.computation("count", Computation(), {"queries": str})
    >>> list(joined(topology, more).keyed), list(topology.keyed)
    (['count'], [])
    """
    for kind, own, others in (
        ("an injector of stream", topology.injectors, more.injectors),
        ("a computation", {**topology.keyed, **topology.inlines}, {**more.keyed, **more.inlines}),
        ("a sink", topology.sinks, more.sinks),
    ):
        if both := own.keys() & others.keys():
            raise TopologyError(f"there already is {kind} {min(both)!r}; give the new one a name of its own")
    return replace(
        topology,
        injectors=topology.injectors | more.injectors,
        keyed=topology.keyed | more.keyed,
        inlines=topology.inlines | more.inlines,
        sinks=topology.sinks | more.sinks,
    )


def without(topology: Topology, names: Iterable[str]) -> Topology:
    """A topology without the computations, sinks and injectors (by stream) of these names.

    Raises `TopologyError` for a name that nothing has.

    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([]))
    >>> list(without(topology, ["queries"]).injectors)
    []
    """
    gone = set(names)
    known = [*topology.injectors, *topology.keyed, *topology.inlines, *topology.sinks]
    if unknown := gone - set(known):
        raise TopologyError(f"nothing is named {min(unknown)!r}; there are {', '.join(sorted(set(known)))}")
    return replace(
        topology,
        injectors={name: one for name, one in topology.injectors.items() if name not in gone},
        keyed={name: one for name, one in topology.keyed.items() if name not in gone},
        inlines={name: one for name, one in topology.inlines.items() if name not in gone},
        sinks={name: one for name, one in topology.sinks.items() if name not in gone},
    )
