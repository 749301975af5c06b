"""Which topologies may have the same input read by several tasks, each of which keeps what goes to its own keys.

The engine's own addition to the paper's model (§4.2): nothing but code of the engine may see a record before its key
interval is known, as what the user's does might differ from task to task, or be done twice.
"""

from __future__ import annotations

from operator import itemgetter

from headrace.lowlevel.columns import ColumnExtractor
from headrace.lowlevel.topology import Keyed, Topology
from headrace.lowlevel.weak import weak_streams


def obstacle_to_reading_twice(topology: Topology) -> str | None:
    """Why each record must be read by one task alone; None if several may read it and come to the same.

    >>> from headrace.lowlevel.computation import Computation
    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology = Topology()
    >>> _ = topology.injector("pairs", BoundedInjector([(("a", 1), 0)]))
    >>> _ = topology.computation("Sum", Computation(), {"pairs": itemgetter(0)})
    >>> obstacle_to_reading_twice(topology)
    >>> _ = topology.computation("Round", Computation(), {"pairs": round})
    >>> obstacle_to_reading_twice(topology)
    "the key of 'Round' is found by a function"
    """
    if len(topology.levels()) != 1:
        return "there are several groupings in a row, or none"
    if weak_streams(topology):
        return "some productions are weak"
    streams = set(topology.injectors)
    for stream, injector in topology.injectors.items():
        if injector.record_ids:
            return f"records of {stream!r} have ids"
    for name in topology.inline_order():
        inline = topology.inlines[name]
        if streams.isdisjoint(inline.inputs):
            continue
        if not inline.computation.is_pure:
            return f"{name!r} may run code of the user's"
        streams |= inline.outputs
    for name, (stream, _) in topology.sinks.items():
        if stream in streams:
            return f"sink {name!r} takes what has no key"
    return next(filter(None, (_obstacle(place, streams) for place in topology.keyed.values())), None)


def _obstacle(place: Keyed, streams: set[str]) -> str | None:
    if place.dead_letters is not None:
        return f"{place.name!r} has dead letters"
    for stream, extract in place.inputs.items():
        # What is written in C or is the engine's own gives the same key for the same value.
        if stream in streams and not isinstance(extract, (itemgetter, ColumnExtractor)):
            return f"the key of {place.name!r} is found by a function"
    return None
