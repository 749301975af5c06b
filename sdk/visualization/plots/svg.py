"""A scene as SVG with the times at which its parts appear, for the page that plays (`page.py`).

`data-at` is the processing time at which a part appears, in microseconds UTC; `data-since` is the time from which on a
part grows. Without a script that reads these attributes, the drawing shows the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from headrace.sdk.recording.recording import RecordedPane
from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.axis import briefly
from headrace.sdk.visualization.plots.boxes import Box
from headrace.sdk.visualization.plots.labels import retracted_label, value_label
from headrace.sdk.visualization.plots.panel import LINE, Panel
from headrace.sdk.visualization.plots.scene import Dot, Point, Scene
from headrace.sdk.visualization.plots.style import LOOKS
from headrace.sdk.visualization.plots.svg_marks import marks

LEFT, RIGHT, TOP, BOTTOM = 104.0, 26.0, 34.0, 50.0
"""Margins, in units of the canvas."""
_INPUTS = "inputs arrive"
_NAMED = 6
"""Most events of one kind and instant that are listed; if there are more, only their number is."""


def drawing(panel: Panel, number: int, lines: int = 0) -> str:
    """The `svg` element of a panel.

    `number` is unique in the page; `lines` is the least number of lines to leave for remarks.
    """
    scene = panel.scene
    top = TOP + LINE * max(lines, len(panel.remarks))
    width, height = LEFT + scene.width + RIGHT, top + scene.height + BOTTOM
    return "\n".join(
        [
            f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(panel.title)}" '
            f'data-first="{scene.processing_time.first}" data-last="{scene.processing_time.last}" '
            f'data-height="{scene.height:g}" style="max-width:{1.3 * width:g}px">',
            f'<text class="title" x="{LEFT:g}" y="{top - 16 - LINE * len(panel.remarks):g}">'
            f"{escape(panel.title)}</text>",
            *_remarks(panel.remarks, top),
            f'<g transform="translate({LEFT:g} {top:g})">',
            f'<clipPath id="past{number}"><rect class="past" x="-2" y="-2" width="{scene.width + 4:g}" '
            f'height="{scene.height + 4:g}"/></clipPath>',
            *_axes(scene),
            *(line for box in scene.boxes for line in _box(box)),
            f'<g clip-path="url(#past{number})">',
            _line("ideal", scene.ideal),
            _line("actual", scene.actual),
            "</g>",
            *(line for dot in scene.dots for line in _dot(dot)),
            *marks(scene),
            *(line for box in scene.boxes for line in _label(box)),
            f'<g class="now"><line x1="0" x2="{scene.width:g}" y1="0" y2="0"/></g>',
            "</g>",
            "</svg>",
        ]
    )


def _remarks(remarks: Sequence[str], top: float) -> Iterator[str]:
    for number, line in enumerate(remarks):
        y = top - 12 - LINE * (len(remarks) - 1 - number)
        yield f'<text class="remark" x="{LEFT:g}" y="{y:g}">{escape(line)}</text>'


def _axes(scene: Scene) -> Iterator[str]:
    across, up = scene.event_time, scene.processing_time
    yield '<g class="axes">'
    for time, text in across.ticks(62):
        x = across.position(time)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{scene.height:g}"/>'
        yield f'<text x="{x:.1f}" y="{scene.height + 18:g}" text-anchor="middle">{text}</text>'
    for time, text in up.ticks(34):
        y = up.position(time)
        yield f'<line class="grid" x1="0" x2="{scene.width:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    yield f'<path class="frame" d="M0 0V{scene.height:g}H{scene.width:g}"/>'
    position, name = f'x="{scene.width / 2:g}" y="{scene.height + 40:g}"', across.named("event time")
    yield f'<text {position} text-anchor="middle">{name}</text>'
    position, name = f"-90 {scene.height / 2:g}", up.named("processing time")
    yield f'<text text-anchor="middle" transform="translate({position}) rotate(-90)">{name}</text>'
    yield "</g>"


def _line(name: str, points: Sequence[Point]) -> str:
    return f'<polyline class="{name}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _dot(dot: Dot) -> Iterator[str]:
    arrival = dot.arrival
    kind = "dot" if dot.text else "dot small"
    yield f'<g class="{kind}" data-at="{arrival.processing_time}" transform="translate({dot.x:.1f} {dot.y:.1f})">'
    times = f"of {briefly(arrival.event_time)}, came {briefly(arrival.processing_time)}"
    yield f"<title>{escape(_value(dot))} {times}</title>"
    yield f'<circle r="{dot.radius:g}"/><text y="4" text-anchor="middle">{escape(dot.text)}</text></g>'


def _value(dot: Dot) -> str:
    return retracted_label(dot.arrival.value) if dot.arrival.is_retraction else value_label(dot.arrival.value)


def _box(box: Box) -> Iterator[str]:
    if not box.text:
        return
    room, pane = box.room, box.pane
    size = f'x="{room.left:.1f}" width="{room.right - room.left:.1f}"'
    look = f'class="{pane.timing.lower()}" {size} y="{room.top:.1f}" height="{room.bottom - room.top:.1f}"'
    yield f'<g class="pane" data-at="{pane.processing_time}" data-since="{box.since}" data-bottom="{room.bottom:.1f}">'
    yield f"<title>{escape(_description(pane, box.text))}, came {briefly(pane.processing_time)}</title>"
    yield f'<rect {look}/><rect class="pattern {pane.timing.lower()}" {look.partition(" ")[2]}/>'
    yield f'<path class="edge {pane.timing.lower()}" d="M{room.left:.1f} {room.top:.1f}H{room.right:.1f}"/></g>'


def _label(box: Box) -> Iterator[str]:
    if box.label is None:
        return
    x, y = box.label
    words = [f'<tspan class="{box.pane.timing.lower()}">{escape(box.text)}</tspan>'] if box.text else []
    words += [f'<tspan class="back">{escape(text)}</tspan>' for text in box.taken_back]
    text = '<tspan xml:space="preserve">  </tspan>'.join(words)
    yield f'<text class="value" data-at="{box.pane.processing_time}" x="{x:.1f}" y="{y + 5:.1f}">{text}</text>'


def _description(pane: RecordedPane, words: str) -> str:
    """A pane in words.

    >>> _description(RecordedPane(43_620_000_000, "red", 14, 43_320_000_000, 43_440_000_000, "EARLY", 1), "14, −7")
    '[12:02, 12:04): 14, −7 (early)'
    """
    window = "all of time"
    if pane.start is not None and pane.end is not None:
        window = f"[{briefly(pane.start)}, {briefly(pane.end)})"
    return f"{window}: {words} ({LOOKS[pane.timing].name})"


def events(panels: Sequence[Panel]) -> list[tuple[int, str]]:
    """Processing times and descriptions of all events, in order; many events of a kind at one time are only counted."""
    groups: dict[tuple[int, str], list[str]] = {}
    for panel in panels:
        where = f"{panel.title}: " if len(panels) > 1 else ""
        for time, kind, words in _events(panel.scene):
            groups.setdefault((time, f"{where}{{}} {kind}"), []).append(f"{where if kind != _INPUTS else ''}{words}")
    found: dict[tuple[int, str], None] = {}
    for (time, count), descriptions in groups.items():
        for words in descriptions if len(descriptions) <= _NAMED else [count.format(f"{len(descriptions):,}")]:
            found[time, words] = None
    return sorted(found, key=lambda event: event[0])


def _events(scene: Scene) -> Iterator[tuple[int, str, str]]:
    """The events of a scene: processing time, plural of the kind, and description."""
    for arrival in scene.inputs:
        value = retracted_label(arrival.value) if arrival.is_retraction else value_label(arrival.value)
        yield arrival.processing_time, _INPUTS, f"{value} arrives, of {briefly(arrival.event_time)}"
    for bell in scene.bells:
        if bell.fired_at is not None:
            yield bell.fired_at, "timers fire", bell.tooltip
    for flag in scene.flags:
        result = flag.production
        words = f"{value_label(result.value)} is put out, of {briefly(result.event_time)}"
        yield result.processing_time, "results", words
    for _, time in scene.restarts:
        yield time, "restarts", "the run goes on with another driver"
    for box in scene.boxes:
        words = ", ".join(filter(None, [box.text, *box.taken_back]))
        yield box.pane.processing_time, "panes", f"pane {_description(box.pane, words)}"


def styles() -> str:
    """The CSS rules for colours and patterns, which are those of static plots."""
    rules = []
    for name, look in LOOKS.items():
        kind = name.lower()
        rules.append(f"rect.{kind}{{fill:{look.colour};fill-opacity:.3;stroke:{look.edge};stroke-width:.8}}")
        fill = f"url(#{look.pattern})" if look.pattern != "plain" else "none"
        rules.append(f"rect.pattern.{kind}{{fill:{fill};fill-opacity:1;color:{look.edge};stroke:none}}")
        rules.append(f"path.edge.{kind}{{stroke:{look.edge}}}tspan.{kind}{{fill:{look.edge}}}")
    rules.append(f".back{{fill:{style.RETRACTION}}}")
    rules.append(f".actual{{stroke:{style.ACTUAL};stroke-width:{style.ACTUAL_WIDTH}}}")
    rules.append(f".ideal{{stroke:{style.IDEAL};stroke-width:{style.IDEAL_WIDTH}}}")
    rules.append(f".restart line{{stroke:{style.RESTART}}}.restart text{{fill:{style.RESTART}}}")
    return "\n".join(rules)
