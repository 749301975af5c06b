"""A diagram as SVG: ranks from left to right, arranged by fast-sugiyama (`pip install headrace[plot]`)."""

from __future__ import annotations

from html import escape

from headrace.sdk.visualization.diagrams.diagram import Arrow, Box, Diagram, StepKind
from headrace.sdk.visualization.diagrams.layout import LINE, PADDING, DiagramLayout, Rect

_FILL = {StepKind.SOURCE: "#e8f4ec", StepKind.STEP: "#ffffff", StepKind.KEYED: "#e6f1fa", StepKind.SINK: "#fdf1e3"}
_STROKE = {StepKind.SOURCE: "#009e73", StepKind.STEP: "#777777", StepKind.KEYED: "#0072b2", StepKind.SINK: "#d55e00"}
_ROUND = {StepKind.SOURCE: 16, StepKind.STEP: 3, StepKind.KEYED: 3, StepKind.SINK: 16}
_HEAD = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>'
)


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
