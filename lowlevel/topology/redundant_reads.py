"""Redundant reads: several tasks read the same input, and each keeps the records of its own key intervals.

The engine's own addition to the paper's model (§4.2). Only code of the engine may see a record before its key interval
is known: user code could give another result in each task, or have side effects twice.
"""

from __future__ import annotations

from operator import itemgetter

from headrace.lowlevel.records.column_batch import ColumnExtractor
from headrace.lowlevel.topology.nodes import Keyed
from headrace.lowlevel.topology.topology import Topology
from headrace.lowlevel.topology.weak_productions import weak_streams


def obstacle_to_reading_twice(topology: Topology) -> str | None:
    """The reason why only one task may read each record; None if several tasks may.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
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
            return f"{name!r} may run user code"
        streams |= inline.outputs
    for name, (stream, _) in topology.sinks.items():
        if stream in streams:
            return f"sink {name!r} takes records without a key"
    return next(filter(None, (_obstacle(node, streams) for node in topology.keyed.values())), None)


def _obstacle(node: Keyed, streams: set[str]) -> str | None:
    if node.dead_letters is not None:
        return f"{node.name!r} has dead letters"
    for stream, extract in node.inputs.items():
        # An extractor that is written in C or belongs to the engine gives equal keys for equal values.
        if stream in streams and not isinstance(extract, (itemgetter, ColumnExtractor)):
            return f"the key of {node.name!r} is found by a function"
    return None
