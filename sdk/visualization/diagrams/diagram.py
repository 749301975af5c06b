"""A program as boxes and arrows, independent of the output format."""

from __future__ import annotations

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
