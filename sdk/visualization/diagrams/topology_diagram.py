"""The diagram of a topology: levels, fused stages, and shuffled streams."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.topology.topology import Topology
from headrace.sdk.operators.fusion.stage import Stage
from headrace.sdk.visualization.diagrams.diagram import Arrow, Box, Diagram, StepKind

_SINK = " (sink)"


def topology_diagram(topology: Topology) -> Diagram:
    """The diagram of a topology, compiled from a pipeline or written by hand.

    >>> from headrace.lowlevel.topology.computation import Computation
    >>> from headrace.lowlevel.injectors.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([("britney", 1)]))
    >>> topology.computation("count", Computation(), {"queries": lambda query: query}, ["counts"])
    >>> diagram = topology_diagram(topology)
    >>> [(box.lines, box.kind.name) for box in diagram.boxes]
    [(('queries', 'BoundedInjector'), 'SOURCE'), (('count', 'level 1, Computation'), 'KEYED')]
    >>> diagram.arrows
    [Arrow(source='queries', target='count', label='queries', shuffled=True, beside=False)]
    """
    diagram = Diagram("as compiled")
    for stream, injector in topology.injectors.items():
        diagram.boxes.append(Box(stream, (stream, type(injector).__name__), StepKind.SOURCE))
    for level, names in enumerate(topology.levels(), 1):
        for name in names:
            computation = type(topology.keyed[name].computation).__name__
            diagram.boxes.append(Box(name, (name, f"level {level}, {computation}"), StepKind.KEYED))
    for name in topology.inline_order():
        diagram.boxes.append(Box(name, _lines(topology, name), StepKind.STEP))
    for name, (_, sink) in topology.sinks.items():
        diagram.boxes.append(Box(name + _SINK, (name, type(sink).__name__), StepKind.SINK))
    diagram.arrows += _arrows(topology)
    return diagram


def _lines(topology: Topology, name: str) -> tuple[str, ...]:
    """The lines of an inline computation; a fused stage shows its steps."""
    node = topology.inlines[name]
    if isinstance(node.computation, Stage):
        return tuple(step.label for step in node.computation.plan.steps) or (name, "passes on")
    part = () if node.step == name else (f"a part of {node.step}",)
    return (name, *part)


def _arrows(topology: Topology) -> Iterator[Arrow]:
    makers: dict[str, list[str]] = {stream: [stream] for stream in topology.injectors}
    for node in topology.nodes():
        for stream in node.outputs:
            makers.setdefault(stream, []).append(node.name)
    for name, keyed in topology.keyed.items():
        for stream in keyed.inputs:
            beside = stream in keyed.aside
            yield from (Arrow(maker, name, stream, shuffled=True, beside=beside) for maker in makers[stream])
    for name, inline in topology.inlines.items():
        for stream in sorted(inline.inputs):
            yield from (Arrow(maker, name, stream) for maker in makers[stream])
    for name, (stream, _) in topology.sinks.items():
        yield from (Arrow(maker, name + _SINK, stream) for maker in makers[stream])
