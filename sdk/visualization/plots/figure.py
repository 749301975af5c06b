"""A plot as a figure of matplotlib, which also writes PNG and PDF: the elements of `drawing.py` become its artists.

One unit of its axes is one pixel. Axes, ticks and legend are matplotlib's own, so that whoever has the figure can
change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast
from xml.etree.ElementTree import Element

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.offsetbox import DrawingArea
from matplotlib.patches import Circle, Polygon, Rectangle
from matplotlib.patheffects import Stroke
from matplotlib.text import Text
from matplotlib.transforms import Affine2D

from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.drawing import drawing, legend, legend_size
from headrace.sdk.visualization.plots.labels import GAP, width_of
from headrace.sdk.visualization.plots.panel import LINE, Panel
from headrace.sdk.visualization.plots.scene import Scene
from headrace.sdk.visualization.plots.shapes import Point
from headrace.sdk.visualization.plots.style import DPI, LOOKS, PATTERNS, points
from headrace.sdk.visualization.plots.svg import BOTTOM, LEFT, RIGHT, TOP

_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def figure_of(panels: Sequence[Panel]) -> Figure:
    """A figure with panels side by side."""
    available = {font.name for font in fontManager.ttflist}
    # A glyph missing in one font is taken from the next.
    families = [name for name in style.FONTS if name in available] or ["sans-serif"]
    with rc_context({"font.family": families}):
        return _figure(panels)


def _figure(panels: Sequence[Panel]) -> Figure:
    entries = list(legend([panel.scene for panel in panels]))
    width = sum(LEFT + panel.scene.width + RIGHT for panel in panels)
    columns, below = legend_size(len(entries), width)
    below += BOTTOM
    height = TOP + LINE * max(len(panel.remarks) for panel in panels) + panels[0].scene.height + below
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=style.PAPER)
    left = LEFT
    for panel in panels:
        scene = panel.scene
        axes = figure.add_axes((left / width, below / height, scene.width / width, scene.height / height))
        _axes(axes, scene)
        for artist in _artists(drawing(panel)):
            axes.add_artist(artist)
        left += scene.width + RIGHT + LEFT
    samples = [_LegendSample(sample) for _, sample in entries]
    figure.legend(
        cast("list[Artist]", samples), [name for name, _ in entries], handler_map={its: its for its in samples},
        loc="lower center", ncols=columns, frameon=False, columnspacing=1.6, handlelength=2.5, labelspacing=1,
        prop={"size": points(style.TICK)},
    )  # fmt: skip
    return figure


def _axes(axes: Axes, scene: Scene) -> None:
    across, up = scene.event_time, scene.processing_time
    times, heights = across.ticks(62), up.ticks(34)
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.set_xticks([across.position(time) for time, _ in times], [text for _, text in times])
    axes.set_yticks([up.position(time) for time, _ in heights], [text for _, text in heights])
    axes.tick_params(labelsize=points(style.TICK), colors=style.INK)
    axes.grid(color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(across.title("event time"), size=points(style.TICK))
    axes.set_ylabel(up.title("processing time"), size=points(style.TICK))


class _LegendSample:
    """A sample of the legend, and matplotlib's handler for it."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = elements

    def legend_artist(self, legend: Legend, handle: _LegendSample, fontsize: float, box: DrawingArea) -> Artist:
        """Draw the sample into its place in the legend."""
        upright = Affine2D().scale(points(1), -points(1)).translate(0, points(13))
        artists = list(_artists(self._elements))
        for artist in artists:
            artist.set_transform(upright + box.get_transform())
            box.add_artist(artist)
        return artists[0]


def _artists(elements: Iterable[Element]) -> Iterator[Artist]:
    """The artists of elements, in the order in which they cover each other."""
    for element in (part for whole in elements for part in whole.iter()):
        match element.tag:
            case "text":
                yield from _texts(element)
            case "rect":
                x, y, width, height = _numbers(element, "x", "y", "width", "height")
                yield Rectangle((x, y), width, height, **_ink(element))
            case "circle":
                x, y, radius = _numbers(element, "cx", "cy", "r")
                yield Circle((x, y), radius, **_ink(element))
            case "polyline" if corners := _corners(element):
                line = Line2D(*zip(*corners, strict=True), color=element.get("stroke"), **_stroke(element))
                line.set_solid_capstyle("butt")
                line.set_dash_capstyle("butt")
                yield line
            case "polygon":
                yield Polygon(_corners(element), **_ink(element))


def _numbers(element: Element, *names: str) -> Iterator[float]:
    return (float(element.get(name, 0)) for name in names)


def _corners(element: Element) -> list[Point]:
    numbers = [float(number) for number in element.get("points", "").replace(",", " ").split()]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _ink(element: Element) -> dict[str, Any]:
    """Fill and stroke of an element as matplotlib's properties of a patch."""
    fill = element.get("fill", "none")
    for look in LOOKS.values():
        if fill == f"url(#{look.pattern})":
            lines = {"hatch": PATTERNS[look.pattern][1], "hatch_linewidth": 0.5, "edgecolor": look.edge}
            return {**_stroke(element), "facecolor": "none", "linewidth": 0, **lines}
    colour = to_rgba(fill, float(element.get("fill-opacity", 1)))
    return {**_stroke(element), "facecolor": colour, "edgecolor": element.get("stroke", "none")}


def _stroke(element: Element) -> dict[str, Any]:
    width = float(element.get("stroke-width", 1))
    # Dashes are in units of the line's width.
    dashes = tuple(float(length) / width for length in element.get("stroke-dasharray", "").split())
    style = (0, dashes) if dashes else "-"
    return {"linewidth": points(width), "linestyle": style, "zorder": 2, "clip_on": False}


def _texts(element: Element) -> Iterator[Artist]:
    """The words of a text. An outline is drawn separately, so that files contain the text."""
    x, y, size, outline = _numbers(element, "x", "y", "font-size", "stroke-width")
    words, anchor = list(element) or [element], _ANCHORS[element.get("text-anchor", "start")]
    left = x - width_of(GAP.join(word.text or "" for word in words), size) / 2
    for word in words:
        wide = width_of(word.text or "", size)
        inks: list[tuple[str, Any]] = [(word.get("fill", style.INK), None)]
        if colour := element.get("stroke"):
            inks.insert(0, (colour, [Stroke(linewidth=points(outline), foreground=colour)]))
        for ink, effects in inks:
            yield Text(
                left + wide / 2 if len(words) > 1 else x, y, word.text or "", color=ink, path_effects=effects,
                size=points(size), weight=element.get("font-weight", "normal"), ha=anchor, va="baseline",
                parse_math=False, zorder=2, clip_on=False,
            )  # fmt: skip
        left += wide + width_of(GAP, size)
