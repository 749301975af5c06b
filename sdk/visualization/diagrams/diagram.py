"""A program as boxes and arrows, before anybody has decided how to draw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What a box stands for."""

    SOURCE = "source"
    STEP = "step"
    """Runs where its input is made."""
    KEYED = "keyed"
    """Has state by key: its input is shuffled to it."""
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Box:
    """A step, or what several steps have become."""

    name: str
    """Unique in its drawing."""
    lines: tuple[str, ...]
    """What is written in it; the first is its title."""
    kind: Kind
    group: tuple[str, ...] = ()
    """Labels of the composite transforms around it, the outermost first."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """What flows from a box to another."""

    source: str
    target: str
    label: str = ""
    shuffled: bool = False
    """Whether records travel to where their key is."""
    beside: bool = False
    """Whether it is a side input."""


@dataclass(slots=True)
class Drawing:
    """Boxes in the order of the flow, and arrows."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
