"""A program as boxes and arrows, and as Mermaid text, which GitHub, GitLab and many editors render."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum


class StepKind(Enum):
    """The kind of step that a box shows."""

    SOURCE = "source"
    STEP = "step"
    """A step that runs in the task that produces its input."""
    KEYED = "keyed"
    """A step that works by key: its input is shuffled."""
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Box:
    """A step, or several steps joined to one."""

    name: str
    """Unique in the diagram."""
    lines: tuple[str, ...]
    """The lines of text; the first is the title."""
    kind: StepKind
    group: tuple[str, ...] = ()
    """Labels of the composite transforms around the step, the outermost first."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A stream or collection that flows from one box to another."""

    source: str
    target: str
    label: str = ""
    shuffled: bool = False
    """Whether records travel to the owners of their keys."""
    beside: bool = False
    """Whether the arrow is a side input."""


@dataclass(slots=True)
class Diagram:
    """Boxes in topological order, and arrows."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)


_SHAPES = {
    StepKind.SOURCE: ("([", "])"),
    StepKind.STEP: ("[", "]"),
    StepKind.KEYED: ("[[", "]]"),
    StepKind.SINK: ("[/", "/]"),
}
_STYLES = {
    StepKind.SOURCE: "fill:#e8f4ec,stroke:#009e73,color:#111",
    StepKind.STEP: "fill:#ffffff,stroke:#777777,color:#111",
    StepKind.KEYED: "fill:#e6f1fa,stroke:#0072b2,stroke-width:2px,color:#111",
    StepKind.SINK: "fill:#fdf1e3,stroke:#d55e00,color:#111",
}


def mermaid(diagram: Diagram) -> str:
    """A Mermaid `flowchart` from left to right.

    >>> diagram = Diagram("", [Box("a", ("a",), StepKind.SOURCE), Box("b", ("b", "GroupByKey"), StepKind.KEYED)])
    >>> diagram.arrows.append(Arrow("a", "b", shuffled=True))
    >>> print(mermaid(diagram).partition("classDef")[0].rstrip())
    flowchart LR
      n0(["a"]):::source
      n1[["b<br/>GroupByKey"]]:::keyed
      n0 ==>|shuffle| n1
    """
    numbers = {box.name: f"n{index}" for index, box in enumerate(diagram.boxes)}
    lines = ["flowchart LR"]
    lines += _boxes(diagram.boxes, numbers, (), 1)
    lines += [f"  {_arrow(arrow, numbers)}" for arrow in diagram.arrows]
    lines += [f"  classDef {kind.value} {style}" for kind, style in _STYLES.items()]
    return "\n".join(lines)


def _boxes(boxes: list[Box], numbers: dict[str, str], around: tuple[str, ...], depth: int) -> Iterator[str]:
    """The lines of the boxes of one group; groups inside it are subgraphs."""
    indent = "  " * depth
    inner: dict[tuple[str, ...], list[Box]] = {}
    for box in boxes:
        if box.group == around:
            begin, end = _SHAPES[box.kind]
            text = "<br/>".join(map(_escaped_text, box.lines))
            yield f'{indent}{numbers[box.name]}{begin}"{text}"{end}:::{box.kind.value}'
        else:
            inner.setdefault(box.group[: len(around) + 1], []).append(box)
    for group, members in inner.items():
        yield f'{indent}subgraph g{numbers[members[0].name]}x{depth} ["{_escaped_text(group[-1])}"]'
        yield from _boxes(members, numbers, group, depth + 1)
        yield f"{indent}end"


def _arrow(arrow: Arrow, numbers: dict[str, str]) -> str:
    line = "-.->" if arrow.beside else "==>" if arrow.shuffled else "-->"
    label = "side input" if arrow.beside else "shuffle" if arrow.shuffled else _escaped_text(arrow.label)
    between = f"{line}|{label}|" if label and (arrow.beside or arrow.shuffled) else line
    return f"{numbers[arrow.source]} {between} {numbers[arrow.target]}"


def _escaped_text(text: str) -> str:
    """Escape the characters of a text that Mermaid would interpret."""
    marks = {"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "#": "&#35;"}
    return "".join(marks.get(mark, mark) for mark in text)
