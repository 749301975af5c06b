"""Panels as SVG: an `svg` element for each, and a file with all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, tostring

from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.drawing import (
    INSTANT,
    ROW,
    drawing,
    element,
    legend,
    legend_size,
    patterns,
    polyline,
    text_element,
)
from headrace.sdk.visualization.plots.panel import LINE, Panel
from headrace.sdk.visualization.plots.scene import Scene

LEFT, RIGHT, TOP, BOTTOM = 112.0, 38.0, 38.0, 58.0
"""Margins around the canvas of a panel; pixels."""


def drawings(panels: Sequence[Panel]) -> Iterator[Element]:
    """The `svg` elements of panels, all of one height."""
    top = TOP + LINE * max(len(panel.remarks) for panel in panels)
    for number, panel in enumerate(panels):
        scene = panel.scene
        made = element("g", *_axes(scene), *drawing(panel), transform=f"translate({LEFT:g} {top:g})")
        for group in made.iterfind("g[@class='watermarks']"):
            group.set("clip-path", f"url(#past{number})")
        past = element("rect", kind="past", x=-2, y=-2, width=scene.width + 4, height=scene.height + 4)
        made.insert(0, element("clipPath", past, id=f"past{number}"))
        now = polyline([(0, 0), (scene.width, 0)], **INSTANT)
        made.append(element("g", now, kind="now ahead", visibility="hidden"))
        width, height = LEFT + scene.width + RIGHT, top + scene.height + BOTTOM
        yield element(
            "svg", made, viewBox=f"0 0 {width:g} {height:g}", width=width, height=height, role="img",
            aria_label=panel.title, font_family=style.FAMILY, data_first=scene.processing_time.first,
            data_last=scene.processing_time.last, data_height=scene.height,
        )  # fmt: skip


def _axes(scene: Scene) -> Iterator[Element]:
    across, up, width, height = scene.event_time, scene.processing_time, scene.width, scene.height
    for time, text in across.ticks(62):
        x = across.position(time)
        yield polyline([(x, 0), (x, height)], stroke=style.FAINT, stroke_width=0.8)
        yield text_element(text, x, height + 18, text_anchor="middle")
    ticks = up.ticks(34)
    for time, text in ticks:
        y = up.position(time)
        yield polyline([(0, y), (width, y)], stroke=style.FAINT, stroke_width=0.8)
        yield text_element(text, -8.0, y + 4, text_anchor="end")
    yield polyline([(0, 0), (0, height), (width, height)], stroke=style.INK, stroke_width=1.2)
    yield text_element(across.title("event time"), width / 2, height + 40, text_anchor="middle")
    longest = max((len(text) for _, text in ticks), default=0)
    turned = f"translate({-16 - 7 * longest} {height / 2:g}) rotate(-90)"
    yield text_element(up.title("processing time"), 0.0, 0.0, text_anchor="middle", transform=turned)


def document(panels: Sequence[Panel]) -> str:
    """An SVG file with panels side by side and their legend; equal panels give equal files."""
    parts = list(drawings(panels))
    x, height = 0.0, float(parts[0].get("height", 0))
    for part in parts:
        part.set("x", f"{x:g}")
        x += float(part.get("width", 0))
    entries = list(legend([panel.scene for panel in panels]))
    columns, below = legend_size(len(entries), x)
    left = (x - columns * style.ENTRY) / 2
    for number, (name, sample) in enumerate(entries):
        place = f"translate({left + number % columns * style.ENTRY:g} {height + number // columns * ROW:g})"
        parts.append(element("g", *sample, text_element(name, 38.0, 13.0), transform=place))
    height += below
    paper = element("rect", width="100%", height="100%", fill=style.PAPER)
    whole = element(
        "svg", patterns(), paper, *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {x:g} {height:g}", width=x,
        height=height, font_family=style.FAMILY,
    )  # fmt: skip
    return tostring(whole, encoding="unicode") + "\n"
