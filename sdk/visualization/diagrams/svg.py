"""A diagram as SVG, and the places of its boxes and arrows, in ranks (`pip install headrace[plot]`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import cast

from headrace.sdk.model.short_text import cut_text
from headrace.sdk.visualization.diagrams.diagram import Arrow, Box, Diagram, StepKind

CHARACTER, BOLD, LINE, PADDING = 6.4, 7.2, 16, 10
"""Pixels: width of a character and of a bold one, height of a line (font size 11), padding around the text."""
_BETWEEN_RANKS, _BETWEEN_BOXES, _MARGIN = 70, 26, 20
_BETWEEN_RANKS_DOWNWARDS = 34
_LONGEST = 44
"""Most characters in a line."""
Point = tuple[float, float]
_FILL = {StepKind.SOURCE: "#e8f4ec", StepKind.STEP: "#ffffff", StepKind.KEYED: "#e6f1fa", StepKind.SINK: "#fdf1e3"}
_STROKE = {StepKind.SOURCE: "#009e73", StepKind.STEP: "#777777", StepKind.KEYED: "#0072b2", StepKind.SINK: "#d55e00"}
_ROUND = {StepKind.SOURCE: 16, StepKind.STEP: 3, StepKind.KEYED: 3, StepKind.SINK: 16}
_HEAD = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>'
)


class Rect:
    """Lines, size and centre of a box."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = [cut_text(line, _LONGEST) for line in lines]
        widths = [len(line) * (BOLD if index == 0 else CHARACTER) for index, line in enumerate(self.lines)]
        self.width = 2 * PADDING + max(widths, default=CHARACTER)
        self.height = 2 * PADDING + LINE * len(self.lines)
        self.x = self.y = 0.0


class DiagramLayout:
    """The positions of the boxes and arrows of a diagram.

    Args:
        diagram: The boxes and arrows.
        downwards: Whether ranks follow each other from top to bottom, for narrow screens; else from left to right.

    Raises:
        ImportError: The layout library is missing; the message names the extra.
    """

    def __init__(self, diagram: Diagram, downwards: bool = False) -> None:
        self.downwards = downwards
        self.boxes = {box.name: Rect(box.lines) for box in diagram.boxes}
        self.bends: dict[tuple[str, str], list[Point]] = {}
        """Source and target -> points at which an arrow bends to pass the ranks between."""
        self._numbers = {box.name: number for number, box in enumerate(diagram.boxes)}
        self._names = {number: name for name, number in self._numbers.items()}
        beside = float(_MARGIN)
        for vertices, edges in _layouts(diagram, self._numbers, self._extent_across() + _BETWEEN_BOXES):
            beside = self._place(vertices, edges, beside) + _BETWEEN_BOXES
        bends = [point for points in self.bends.values() for point in points]
        rights = [rect.x + rect.width / 2 for rect in self.boxes.values()] + [x for x, _ in bends]
        bottoms = [rect.y + rect.height / 2 for rect in self.boxes.values()] + [y for _, y in bends]
        self.size = (max(rights, default=0) + _MARGIN, max(bottoms, default=0) + _MARGIN)

    def path(self, arrow: Arrow) -> str:
        """The path of an arrow, as the attribute `d` of SVG: a curve through its bends, along the ranks at each."""
        source, target = self.boxes[arrow.source], self.boxes[arrow.target]
        bends = self.bends.get((arrow.source, arrow.target), [])
        if self.downwards:
            ends = (source.x, source.y + source.height / 2), (target.x, target.y - target.height / 2)
        else:
            ends = (source.x + source.width / 2, source.y), (target.x - target.width / 2, target.y)
        return _curve([ends[0], *bends, ends[1]], self.downwards)

    def _extent_across(self) -> float:
        """The largest extent of a box across that direction."""
        return max((rect.width if self.downwards else rect.height for rect in self.boxes.values()), default=0)

    def _place(self, vertices: dict[int, Point], edges: Iterable[tuple[int, int]], before: float) -> float:
        """Place a connected part of the diagram beside what ends at `before`; returns where this part ends."""
        ranks = sorted({-y for _, y in vertices.values()})
        extents = {rank: 0.0 for rank in ranks}
        for number, (_, y) in vertices.items():
            if number in self._names:
                rect = self.boxes[self._names[number]]
                extents[-y] = max(extents[-y], rect.height if self.downwards else rect.width)
        middles, begin = {}, float(_MARGIN)
        for rank in ranks:
            middles[rank] = begin + extents[rank] / 2
            begin += extents[rank] + (_BETWEEN_RANKS_DOWNWARDS if self.downwards else _BETWEEN_RANKS)
        least = min(x for x, _ in vertices.values())
        points = {n: (middles[-y], before + self._extent_across() / 2 + x - least) for n, (x, y) in vertices.items()}
        end = max(across for _, across in points.values()) + self._extent_across() / 2
        if self.downwards:
            points = {number: (across, along) for number, (along, across) in points.items()}
        for number, (x, y) in points.items():
            if number in self._names:
                rect = self.boxes[self._names[number]]
                rect.x, rect.y = x, y
        self._bend(points, edges)
        return end

    def _bend(self, points: Mapping[int, Point], edges: Iterable[tuple[int, int]]) -> None:
        """Find the bends of each arrow, which lead it between the boxes of other ranks."""
        following: dict[int, list[int]] = {}
        for source, target in edges:
            following.setdefault(source, []).append(target)
        for number, name in self._names.items():
            for target in following.get(number, ()) if number in points else ():
                bends: list[Point] = []
                while target not in self._names:
                    bends.append(points[target])
                    target = following[target][0]
                self.bends[name, self._names[target]] = bends


def _layouts(
    diagram: Diagram, numbers: Mapping[str, int], spacing: float
) -> Iterator[tuple[dict[int, Point], list[tuple[int, int]]]]:
    """For each connected part the points of its vertices (y is minus the rank) and its edges, split at bends."""
    edges = {(numbers[arrow.source], numbers[arrow.target]) for arrow in diagram.arrows}
    edges = {(source, target) for source, target in edges if source != target}
    alone = set(numbers.values()).difference(*edges)
    if edges:
        try:
            from fast_sugiyama import from_edges
        except ImportError as error:
            raise ImportError("SVG needs the library fast-sugiyama: pip install 'headrace[plot]'") from error
        for vertices, _, _, through in from_edges(sorted(edges), vertex_spacing=spacing, dummy_vertices=True):
            yield cast("dict[int, Point]", dict(vertices)), cast("list[tuple[int, int]]", list(through or ()))
    for number in sorted(alone):
        yield {number: (0.0, 0.0)}, []


def _curve(points: list[Point], downwards: bool) -> str:
    """A curve through all points, in the direction of the ranks at each."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle_x, middle_y = (x + to_x) / 2, (y + to_y) / 2
        controls = ((x, middle_y), (to_x, middle_y)) if downwards else ((middle_x, y), (middle_x, to_y))
        path += " C" + " ".join(f"{across:.1f} {down:.1f}" for across, down in (*controls, (to_x, to_y)))
    return path


def svg(diagram: Diagram) -> str:
    """A complete SVG document. Raises `ImportError`, which names the extra, if the layout library is missing."""
    layout = DiagramLayout(diagram)
    parts = [_arrow(arrow, layout) for arrow in diagram.arrows]
    parts += [_box(box, layout.boxes[box.name]) for box in diagram.boxes]
    width, height = (f"{size:.0f}" for size in layout.size)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="11" role="img"><title>{escape(diagram.title)}</title>{_HEAD}'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _box(box: Box, rect: Rect) -> str:
    left, top = rect.x - rect.width / 2, rect.y - rect.height / 2
    frame = (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{rect.width:.1f}" height="{rect.height:.1f}" '
        f'rx="{_ROUND[box.kind]}" fill="{_FILL[box.kind]}" stroke="{_STROKE[box.kind]}" '
        f'stroke-width="{2 if box.kind is StepKind.KEYED else 1}"><title>{escape(box.name)}</title></rect>'
    )
    texts = [
        f'<text x="{rect.x:.1f}" y="{top + PADDING + LINE * (index + 0.7):.1f}" text-anchor="middle" fill="#111"'
        f"{' font-weight=' + chr(34) + '600' + chr(34) if index == 0 else ''}>{escape(line)}</text>"
        for index, line in enumerate(rect.lines)
    ]
    return frame + "".join(texts)


def _arrow(arrow: Arrow, layout: DiagramLayout) -> str:
    style = 'stroke-dasharray="4 3"' if arrow.beside else 'stroke-width="2.5"' if arrow.shuffled else ""
    return f'<path d="{layout.path(arrow)}" fill="none" stroke="#555" {style} marker-end="url(#end)"/>'
