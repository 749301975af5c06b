"""The graph of a pipeline for the page: what `headrace draw --view=compiled` shows, from the fingerprint of a topology.

A checkpoint has the fingerprint, so the graph needs no program. Parts that the engine adds are left out: partial sums
before a shuffle, marks of panes for files, and the sinks of a recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.lowlevel.checkpoint.manifest.fingerprint import COMPUTATION, INJECTOR, INLINE, SINK, Fingerprint, Member
from headrace.lowlevel.sinks.sink import TapSink
from headrace.lowlevel.stored_names import public_name
from headrace.sdk.visualization.diagrams.diagram import Arrow, Box, Diagram, StepKind
from headrace.sdk.visualization.diagrams.svg import LINE, PADDING, DiagramLayout
from headrace.ui.course import is_of_program

_KINDS = {INJECTOR: StepKind.SOURCE, COMPUTATION: StepKind.KEYED, INLINE: StepKind.STEP, SINK: StepKind.SINK}
_SINK = " (sink)"
_WIDEST_FIGURES = ("8,888,888/s", "lag 23 h 59 min · 888 KiB")
"""What the figures of a step may be, for the size of its box."""


@dataclass(frozen=True, slots=True)
class BoxPlace:
    """A box of the graph; pixels."""

    name: str
    title: str
    about: str
    kind: str
    step: str
    """The step whose figures are those of the box."""
    first: str
    """If no step has this name, it is a chain of steps: the one that takes the records in."""
    last: str
    """The last step of the chain, which puts the records out."""
    x: float
    """The left edge."""
    y: float
    """The upper edge."""
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ArrowPlace:
    """An arrow of the graph."""

    source: str
    target: str
    path: str
    """The attribute `d` of its path."""
    shuffled: bool


@dataclass(frozen=True, slots=True)
class GraphPlace:
    """One arrangement of the graph."""

    width: float
    height: float
    boxes: Sequence[BoxPlace]
    arrows: Sequence[ArrowPlace]


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph from left to right and, for narrow screens, from top to bottom."""

    across: GraphPlace
    down: GraphPlace
    line: float = LINE
    padding: float = PADDING


def graph_of(topology: Fingerprint) -> Graph:
    """Arrange the graph of a topology. Raises `ImportError` if the layout library is missing."""
    diagram = diagram_of(topology)
    return Graph(
        _place_of_graph(diagram, DiagramLayout(diagram)),
        _place_of_graph(diagram, DiagramLayout(diagram, downwards=True)),
    )


def diagram_of(topology: Fingerprint) -> Diagram:
    """The boxes and arrows of a topology."""
    tap = public_name(TapSink)
    members = [member for member in topology.members if not (member.kind == SINK and member.class_name == tap)]
    inner = {member.name for member in members if member.kind == INLINE and _is_inner(member, members)}
    levels = topology.level_of()
    diagram = Diagram("as compiled")
    for member in sorted(members, key=lambda member: (list(_KINDS).index(member.kind), levels.get(member.name, 0))):
        if member.name not in inner or member.kind != INLINE:
            lines = (_title(member), _about(member, levels), *_WIDEST_FIGURES)
            diagram.boxes.append(Box(_id(member), lines, _KINDS[member.kind]))
    diagram.arrows += dict.fromkeys(_arrows(members, inner, topology.makers()))
    return diagram


def _is_inner(member: Member, members: Sequence[Member]) -> bool:
    """Whether an inline computation is none of the program's, or only leads to sinks of a recording."""
    first, _, last = member.name.partition(" to ")
    if "#" in member.name or not (is_of_program(first) or is_of_program(last or first)):
        return True
    return not any(stream in each.inputs for stream in member.outputs for each in members)


def _id(member: Member) -> str:
    """The name of a member's box: a sink may have the name of a computation."""
    return member.name + _SINK if member.kind == SINK else member.name


def _title(member: Member) -> str:
    """The name of a member; of a chain that ends in a step of the engine, that of its first step."""
    first, _, last = member.name.partition(" to ")
    return first if member.kind == INLINE and last and not is_of_program(last) else member.name


def _about(member: Member, levels: Mapping[str, int]) -> str:
    name = member.class_name.rpartition(".")[2]
    if member.kind == COMPUTATION:
        return f"level {levels.get(member.name, 0)}, {name}"
    if name == "Stage":
        return "chain of steps" if " to " in member.name else "step"
    return name


def _arrows(members: Sequence[Member], inner: set[str], makers: Mapping[str, Sequence[Member]]) -> Iterator[Arrow]:
    def sources(streams: Sequence[str], seen: frozenset[str] = frozenset()) -> Iterator[Member]:
        for stream in streams:
            for maker in makers.get(stream, ()):
                if maker.kind != INLINE or maker.name not in inner:
                    yield maker
                elif maker.name not in seen:
                    yield from sources(maker.inputs, seen | {maker.name})

    for member in members:
        if member.kind != INLINE or member.name not in inner:
            for source in sources(member.inputs):
                yield Arrow(_id(source), _id(member), shuffled=member.kind == COMPUTATION)


def _place_of_graph(diagram: Diagram, layout: DiagramLayout) -> GraphPlace:
    boxes = []
    for box in diagram.boxes:
        rect, name = layout.boxes[box.name], box.name.removesuffix(_SINK)
        first, _, last = name.partition(" to ")
        left, top = rect.x - rect.width / 2, rect.y - rect.height / 2
        boxes.append(
            BoxPlace(
                *(
                    box.name,
                    rect.lines[0],
                    box.lines[1],
                    box.kind.value,
                    name,
                    first,
                    last if last and is_of_program(last) else first,
                ),
                *(round(number, 1) for number in (left, top, rect.width, rect.height)),
            )
        )
    arrows = [ArrowPlace(each.source, each.target, layout.path(each), each.shuffled) for each in diagram.arrows]
    width, height = layout.size
    return GraphPlace(round(width, 1), round(height, 1), boxes, arrows)
