"""A panel as SVG elements: pages play them, `.svg` files contain them, and matplotlib translates them.

Colours and sizes are attributes, so that no style sheet is needed. `data-at` is the processing time at which a part
appears, in microseconds UTC; `data-since` is the time from which on a part grows. Without a script that reads these
attributes, the elements show the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from headrace.sdk.recording.recording import RecordedPane
from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.axis import brief_time
from headrace.sdk.visualization.plots.labels import Rectangle, item_label, value_label
from headrace.sdk.visualization.plots.panel import LINE, Panel
from headrace.sdk.visualization.plots.scene import Dot, Scene
from headrace.sdk.visualization.plots.shapes import Bar, Bell, Flag, PaneBox, Point
from headrace.sdk.visualization.plots.style import LOOKS, PATTERNS, Look

Attributes = dict[str, str | float]
INSTANT: Attributes = {"stroke": style.INK, "stroke_width": 1.2, "stroke_dasharray": "2 3"}
"""The look of a line at a processing time."""
ROW = 26.0
"""Height of a row of the legend; pixels."""
_SAMPLE, _MIDDLE = Rectangle(1, 1, 29, 17), (15.0, 9.0)
"""Area and centre of a sample in the legend, which is 30 by 18 pixels."""
_TIMERS = (
    (False, True, "timer"),
    (True, True, "wall-time timer"),
    (False, False, "waiting timer"),
    (True, False, "waiting, wall time"),
)
"""Kinds of timers: whether on wall time, whether fired, and the name in the legend."""


def element(tag: str, *contents: Element | str, **attributes: str | float) -> Element:
    """An element with children or a text; `kind` is the attribute `class`, an underscore is a dash.

    >>> from xml.etree.ElementTree import tostring
    >>> tostring(element("text", "<5", kind="value", font_size=12.5))
    b'<text class="value" font-size="12.5">&lt;5</text>'
    """
    made = Element(tag)
    for name, value in attributes.items():
        shown = f"{round(value, 1):g}" if isinstance(value, float) else str(value)
        made.set("class" if name == "kind" else name.replace("_", "-"), shown)
    for content in contents:
        if isinstance(content, str):
            made.text = content
        else:
            made.append(content)
    return made


def text_element(text: str, x: float, y: float, size: float = style.TICK, **attributes: str | float) -> Element:
    """A text that begins at a point; `text_anchor="middle"` and `"end"` are other ways to place it."""
    ink: Attributes = {"fill": style.INK, **attributes}
    return element("text", text, x=x, y=y, font_size=size, **ink)


def polyline(points: Sequence[Point], **attributes: str | float) -> Element:
    """A line through points."""
    return element("polyline", points=_points(points), fill="none", **attributes)


def drawing(panel: Panel) -> Iterator[Element]:
    """All elements of a panel besides its axes; the upper left corner of the canvas is at (0, 0)."""
    scene, lines = panel.scene, len(panel.remarks)
    yield text_element(panel.title, 0.0, -16 - LINE * lines, style.TITLE, font_weight="bold")
    for number, line in enumerate(panel.remarks, 1):
        yield text_element(line, 0.0, -12 - LINE * (lines - number), style.REMARK, fill="#555555")
    yield from (_pane(box) for box in scene.boxes if box.text)
    yield from map(_bar, scene.bars)
    yield from (_restart(scene, height, time) for height, time in scene.restarts)
    # The lines coincide where the watermark is perfect, so the wide line is drawn first.
    yield element("g", _ideal_line(scene.ideal), _actual_line(scene.actual), kind="watermarks")
    yield from map(_dot, scene.dots)
    if scene.now is not None:
        yield polyline([(0, scene.now), (scene.width, scene.now)], **INSTANT)
        yield text_element("last commit", scene.width, scene.now + 15, style.REMARK, text_anchor="end")
    yield from map(_bell, scene.bells)
    yield from map(_flag, scene.flags)
    yield from (_value(box) for box in scene.boxes if box.label is not None)


def legend(scenes: Sequence[Scene]) -> Iterator[tuple[str, list[Element]]]:
    """Names and samples of everything that is in some scene."""
    boxes = [box for scene in scenes for box in scene.boxes]
    if any(scene.dots for scene in scenes):
        yield "input", [_circle(*_MIDDLE, 7.0)]
    for name, line in (("actual watermark", _actual_line), ("ideal watermark", _ideal_line)):
        if any(scene.actual if line is _actual_line else scene.ideal for scene in scenes):
            yield name, [line([(0, 9), (30, 9)])]
    present = {box.pane.timing for box in boxes if box.text}
    for name, look in LOOKS.items():
        if name in present:
            yield "pane" if name == "UNKNOWN" else f"{look.name} pane", list(_area(look, _SAMPLE))
    if any(box.takes_back for box in boxes):
        yield "taken back", [_centred_text("−7", *_MIDDLE, style.VALUE, fill=style.RETRACTION, font_weight="bold")]
    if any(scene.flags for scene in scenes):
        yield "result", [_square(*_MIDDLE)]
    kinds = {(bell.is_wall, bell.fired_at is not None) for scene in scenes for bell in scene.bells}
    yield from ((name, [_triangle(*_MIDDLE, *kind)]) for *kind, name in _TIMERS if tuple(kind) in kinds)
    if any(scene.bars for scene in scenes):
        yield "open window", [_open_window(_SAMPLE)]


def legend_size(entries: int, width: float) -> tuple[int, float]:
    """The number of columns of a legend, so that its rows are about equally full, and its height in pixels."""
    rows = -(-entries // max(1, int(width / style.ENTRY)))
    columns = max(1, -(-entries // max(1, rows)))
    return columns, ROW * -(-entries // columns) + 8


def patterns() -> Element:
    """Definitions of the patterns of panes."""
    return element("defs", *(
        element(
            "pattern", element("path", d=PATTERNS[look.pattern][0], stroke=look.edge, stroke_width=0.7),
            id=look.pattern, width=9, height=9, patternUnits="userSpaceOnUse",
        )
        for look in LOOKS.values() if look.pattern in PATTERNS
    ))  # fmt: skip


def description(pane: RecordedPane, words: str) -> str:
    """A pane in words.

    >>> description(RecordedPane(43_620_000_000, "red", 14, 43_320_000_000, 43_440_000_000, "EARLY", 1), "14, −7")
    '[12:02, 12:04): 14, −7 (early)'
    """
    window = "all of time"
    if pane.start is not None and pane.end is not None:
        window = f"[{brief_time(pane.start)}, {brief_time(pane.end)})"
    return f"{window}: {words} ({LOOKS[pane.timing].name})"


def _with_tooltip(tooltip: str, *parts: Element, **attributes: str | float) -> Element:
    """A group of elements with a tooltip."""
    return element("g", element("title", tooltip), *parts, **attributes)


def _pane(box: PaneBox) -> Element:
    look, room, pane = LOOKS[box.pane.timing], box.room, box.pane
    return _with_tooltip(
        f"{description(pane, box.text)}, came {brief_time(pane.processing_time)}",
        *_area(look, room),
        polyline([(room.left, room.top), (room.right, room.top)], stroke=look.edge, stroke_width=3),
        kind="pane",
        data_at=pane.processing_time,
        data_since=box.since,
        data_bottom=room.bottom,
    )


def _area(look: Look, room: Rectangle) -> Iterator[Element]:
    yield _rect(room, fill=look.colour, fill_opacity=0.3, stroke=look.edge, stroke_width=0.8)
    if look.pattern in PATTERNS:
        yield _rect(room, fill=f"url(#{look.pattern})")


def _value(box: PaneBox) -> Element:
    """The value, and in red the retracted values, with an outline that is readable on any background."""
    assert box.label is not None, "drawing() leaves out boxes without a label"
    words = [element("tspan", box.text, fill=LOOKS[box.pane.timing].edge)] if box.text else []
    words += [element("tspan", text, fill=style.RETRACTION) for text in box.retracted_texts]
    for word in words[:-1]:
        word.tail = "  "
    made = _centred_text(
        "", *box.label, style.VALUE, kind="value", data_at=box.pane.processing_time, font_weight="bold",
        stroke=style.PAPER, stroke_width=4, stroke_linejoin="round", paint_order="stroke",
    )  # fmt: skip
    made.set("xml:space", "preserve")
    made.extend(words)
    return made


def _centred_text(text: str, x: float, y: float, size: float, **attributes: str | float) -> Element:
    """A text whose middle is at a point."""
    return text_element(text, x, y + 0.36 * size, size, text_anchor="middle", **attributes)


def _actual_line(points: Sequence[Point]) -> Element:
    return polyline(points, kind="actual", stroke=style.ACTUAL, stroke_width=2.6, stroke_linejoin="round")


def _ideal_line(points: Sequence[Point]) -> Element:
    return polyline(points, kind="ideal", stroke=style.IDEAL, stroke_width=6.5, stroke_dasharray="8 5")


def _dot(dot: Dot) -> Element:
    arrival = dot.arrival
    times = f"of {brief_time(arrival.event_time)}, came {brief_time(arrival.processing_time)}"
    parts = [_circle(dot.x, dot.y, dot.radius, style.PAPER if dot.text else style.INK)]
    if dot.text:
        parts.append(_centred_text(dot.text, dot.x, dot.y, style.INPUT))
    return _with_tooltip(f"{item_label(arrival)} {times}", *parts, kind="dot", data_at=arrival.processing_time)


def _circle(x: float, y: float, radius: float, fill: str = style.PAPER) -> Element:
    return element("circle", cx=x, cy=y, r=radius, fill=fill, stroke=style.INK, stroke_width=1.4)


def _restart(scene: Scene, height: float, time: int) -> Element:
    ink: Attributes = {"stroke": style.RESTART, "stroke_width": 1.4, "stroke_dasharray": "9 3 2 3"}
    line = polyline([(0, height), (scene.width, height)], **ink)
    text = text_element("restart", scene.width, height - 5, style.REMARK, fill=style.RESTART, text_anchor="end")
    return _with_tooltip(f"restart, {brief_time(time)}", line, text, kind="restart", data_at=time)


def _bar(bar: Bar) -> Element:
    return _with_tooltip(bar.tooltip, _open_window(bar.room), _centred_text(bar.text, *bar.room.middle, style.FLAG))


def _open_window(room: Rectangle) -> Element:
    return _rect(room, fill="#eeeeee", stroke=style.OPEN, stroke_dasharray="5 3")


def _bell(bell: Bell) -> Element:
    appears: Attributes = {} if bell.fired_at is None else {"kind": "bell", "data_at": bell.fired_at}
    mark = _triangle(bell.x, bell.y, bell.is_wall, bell.fired_at is not None)
    return _with_tooltip(bell.tooltip, mark, **appears)


def _triangle(x: float, y: float, is_wall: bool, fired: bool) -> Element:
    corners = ((-5, -6), (6, 0), (-5, 6)) if is_wall else ((-6, 5), (0, -6), (6, 5))
    points, fill = [(x + right, y + down) for right, down in corners], style.TIMER if fired else style.PAPER
    return element("polygon", points=_points(points), fill=fill, stroke=style.TIMER, stroke_width=1.3)


def _flag(flag: Flag) -> Element:
    production, room = flag.production, flag.room
    times = f"of {brief_time(production.event_time)}, at {brief_time(production.processing_time)}"
    parts = [] if flag.on_input else [_square(flag.x, flag.y)]
    if room is not None:
        x = min(max(flag.x, room.left), room.right)
        ink: Attributes = {"stroke": style.RESULT, "stroke_width": 1.3}
        parts.append(polyline([(x, flag.y), (x, room.bottom)], **ink))
        parts.append(_rect(room, fill=style.PAPER, **ink))
        parts.append(_centred_text(flag.text, *room.middle, style.FLAG, fill=style.RESULT, font_weight="bold"))
    tooltip = f"{value_label(production.value)} put out, {times}"
    return _with_tooltip(tooltip, *parts, kind="flag", data_at=production.processing_time)


def _square(x: float, y: float) -> Element:
    return _rect(Rectangle(x - 3.5, y - 3.5, x + 3.5, y + 3.5), fill=style.RESULT)


def _rect(room: Rectangle, **attributes: str | float) -> Element:
    width, height = room.right - room.left, room.bottom - room.top
    return element("rect", x=room.left, y=room.top, width=width, height=height, **attributes)


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
