"""The topology that a program compiles to: levels, fused chains, and where records are shuffled."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lowlevel.topology import Topology
from headrace.sdk.drawing.drawing import Arrow, Box, Drawing, Kind
from headrace.sdk.fusion.stage import Stage

_SINK = " (sink)"


def compiled(topology: Topology) -> Drawing:
    """The drawing of a topology; also of one that was made by hand.

    >>> from headrace.lowlevel.computation import Computation
    >>> from headrace.lowlevel.injector import BoundedInjector
    >>> topology = Topology()
    >>> topology.injector("queries", BoundedInjector([("britney", 1)]))
    >>> topology.computation("count", Computation(), {"queries": lambda query: query}, ["counts"])
    >>> drawing = compiled(topology)
    >>> [(box.lines, box.kind.name) for box in drawing.boxes]
    [(('queries', 'BoundedInjector'), 'SOURCE'), (('count', 'level 1, Computation'), 'KEYED')]
    >>> drawing.arrows
    [Arrow(source='queries', target='count', label='queries', shuffled=True, beside=False)]
    """
    drawing = Drawing("as compiled")
    for stream, injector in topology.injectors.items():
        drawing.boxes.append(Box(stream, (stream, type(injector).__name__), Kind.SOURCE))
    for level, names in enumerate(topology.levels(), 1):
        for name in names:
            computation = type(topology.keyed[name].computation).__name__
            drawing.boxes.append(Box(name, (name, f"level {level}, {computation}"), Kind.KEYED))
    for name in topology.inline_order():
        drawing.boxes.append(Box(name, _lines(topology, name), Kind.STEP))
    for name, (_, sink) in topology.sinks.items():
        drawing.boxes.append(Box(name + _SINK, (name, type(sink).__name__), Kind.SINK))
    drawing.arrows += _arrows(topology)
    return drawing


def _lines(topology: Topology, name: str) -> tuple[str, ...]:
    """A fused chain shows its steps."""
    place = topology.inlines[name]
    if isinstance(place.computation, Stage):
        return tuple(step.label for step in place.computation.plan.steps) or (name, "passes on")
    part = () if place.step == name else (f"a part of {place.step}",)
    return (name, *part)


def _arrows(topology: Topology) -> Iterator[Arrow]:
    makers: dict[str, list[str]] = {stream: [stream] for stream in topology.injectors}
    for place in topology.places():
        for stream in place.outputs:
            makers.setdefault(stream, []).append(place.name)
    for name, keyed in topology.keyed.items():
        for stream in keyed.inputs:
            beside = stream in keyed.aside
            yield from (Arrow(maker, name, stream, shuffled=True, beside=beside) for maker in makers[stream])
    for name, inline in topology.inlines.items():
        for stream in sorted(inline.inputs):
            yield from (Arrow(maker, name, stream) for maker in makers[stream])
    for name, (stream, _) in topology.sinks.items():
        yield from (Arrow(maker, name + _SINK, stream) for maker in makers[stream])
