"""A static picture, drawn by matplotlib: one unit of its axes is one unit of the scene's canvas."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk.pictures import style
from headrace.sdk.pictures.axis import text_of
from headrace.sdk.pictures.panel import Panel
from headrace.sdk.pictures.placing import GAP, around, width_of
from headrace.sdk.pictures.scene import Box, Point, Scene
from headrace.sdk.pictures.style import LOOKS, Look

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW = 112.0, 26.0, 58.0, 56.0, 26.0
"""Margins around each panel, and the height of a row of the legend."""
_ENTRY = 132.0
"""Width of an entry of the legend."""
_DPI = 100
_HATCHES = {"rising": "///", "crossed": "xxx", "plain": ""}


def _points(pixels: float) -> float:
    """Sizes of texts and lines in matplotlib's unit."""
    return pixels * 72 / _DPI


def draw(panels: Sequence[Panel]) -> Figure:
    """A figure of some scenes, side by side. Raises `ImportError` without matplotlib."""
    try:
        import_module("matplotlib")
    except ImportError as missing:
        raise ImportError(
            "matplotlib is missing, which draws the figures: pip install 'headrace[plot]'; plot.html needs none"
        ) from missing
    from matplotlib.figure import Figure

    width = sum(_LEFT + panel.scene.width + _RIGHT for panel in panels)
    entries = _entries(panels)
    columns = min(len(entries), int(width / _ENTRY))
    legend = 8 + _ROW * -(-len(entries) // columns)
    height = _TOP + panels[0].scene.height + _BOTTOM + legend
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor=style.PAPER)
    left = 0.0
    for panel in panels:
        scene = panel.scene
        place = (left + _LEFT, _BOTTOM + legend, scene.width, scene.height)
        axes = figure.add_axes((place[0] / width, place[1] / height, place[2] / width, place[3] / height))
        _draw_panel(axes, panel)
        left += _LEFT + scene.width + _RIGHT
    _legend(figure, entries, columns)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    scene = panel.scene
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    _axes(axes, scene)
    axes.text(0, -32 if panel.remark else -14, panel.title, size=_points(style.TITLE), weight="bold", color=style.INK)
    axes.text(0, -12, panel.remark, size=_points(style.TICK), color="#555555")
    for box in scene.boxes:
        _box(axes, box)
    _line(axes, scene.actual, style.ACTUAL, "-", 2.8)
    # Above the other, as they coincide where the watermark is perfect.
    _line(axes, scene.ideal, style.IDEAL, "--", 1.4)
    for dot in scene.dots:
        at, size = (dot.x, dot.y), _points(style.INPUT)
        axes.scatter(
            *at,
            s=_points(dot.radius * 2) ** 2,
            c=style.PAPER if dot.text else style.INK,
            edgecolors=style.INK,
            zorder=5,
        )
        if dot.text:
            axes.text(*at, dot.text, size=size, ha="center", va="center_baseline", zorder=6)
    for box in scene.boxes:
        _label(axes, box)


def _axes(axes: Axes, scene: Scene) -> None:
    across, up = scene.event_time, scene.processing_time
    times, heights = across.ticks(62), up.ticks(34)
    axes.set_xticks([across.place(time) for time in times], [text_of(time, across.step(62)) for time in times])
    axes.set_yticks([up.place(time) for time in heights], [text_of(time, up.step(34)) for time in heights])
    axes.tick_params(labelsize=_points(style.TICK), colors=style.INK)
    axes.grid(color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("event time", size=_points(style.TICK))
    axes.set_ylabel("processing time", size=_points(style.TICK))


def _line(axes: Axes, points: Sequence[Point], colour: str, dashes: str, width: float) -> None:
    if points:
        across, up = zip(*points, strict=True)
        axes.plot(across, up, linestyle=dashes, linewidth=width, color=colour, zorder=4, solid_joinstyle="round")


def _box(axes: Axes, box: Box) -> None:
    if not box.text:
        return
    look, room = LOOKS[box.pane.timing], box.room
    axes.add_patch(_patch(look, (room.left, room.top), room.right - room.left, room.bottom - room.top))
    axes.plot([room.left, room.right], [room.top] * 2, color=look.edge, linewidth=2.2, zorder=3, solid_capstyle="butt")


def _patch(look: Look, corner: Point, width: float, height: float) -> Patch:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    return Rectangle(
        corner, width, height,
        facecolor=to_rgba(look.colour, 0.30), edgecolor=to_rgba(look.edge, 0.75), linewidth=0.8,
        hatch=_HATCHES[look.pattern], hatch_linewidth=0.5, zorder=2,
    )  # fmt: skip


def _label(axes: Axes, box: Box) -> None:
    """The value, and in red what is taken back, in one line."""
    if box.label is None:
        return
    x, y = box.label
    words = [(box.text, LOOKS[box.pane.timing].edge)] if box.text else []
    words += [(text, style.RETRACTION) for text in box.taken_back]
    whole = GAP.join(text for text, _ in words)
    left = around(x, y, whole, style.VALUE).left
    for text, colour in words:
        wide = width_of(text, style.VALUE)
        _value(axes, left + wide / 2, y, text, colour)
        left += wide + width_of(GAP, style.VALUE)


def _value(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    """A text that can be read on anything; what is around it is drawn apart, so that a file has the text as text."""
    from matplotlib.patheffects import Stroke

    for ink, effects in ((style.PAPER, [Stroke(linewidth=3.5, foreground=style.PAPER)]), (colour, None)):
        axes.text(
            x, y, text, size=_points(style.VALUE), weight="bold", color=ink, path_effects=effects, zorder=7,
            ha="center", va="center_baseline",
        )  # fmt: skip


Entry = tuple["Artist", str]


def _entries(panels: Sequence[Panel]) -> list[Entry]:
    """The legend: what is in the picture, and nothing else."""
    from matplotlib.lines import Line2D

    scenes = [panel.scene for panel in panels]
    boxes = [box for scene in scenes for box in scene.boxes]
    dot = Line2D([], [], marker="o", linestyle="", markerfacecolor=style.PAPER, markeredgecolor=style.INK, markersize=9)
    entries: list[Entry] = [(dot, "input")] if any(scene.dots for scene in scenes) else []
    if any(scene.actual for scene in scenes):
        entries.append((Line2D([], [], color=style.ACTUAL, linewidth=2.8), "actual watermark"))
    if any(scene.ideal for scene in scenes):
        entries.append((Line2D([], [], color=style.IDEAL, linestyle="--", linewidth=1.4), "ideal watermark"))
    present = {box.pane.timing for box in boxes if box.text}
    entries += [(_patch(look, (0, 0), 1, 1), f"{look.name} pane") for name, look in LOOKS.items() if name in present]
    if any(box.takes_back for box in boxes):
        minus = Line2D([], [], marker="$−7$", linestyle="", color=style.RETRACTION, markersize=13)
        entries.append((minus, "taken back"))
    return entries


def _legend(figure: Figure, entries: Sequence[Entry], columns: int) -> None:
    handles, names = zip(*entries, strict=True)
    figure.legend(
        handles, names, loc="lower center", ncols=columns, frameon=False, borderaxespad=0.5, columnspacing=1.6,
        handletextpad=0.5, prop={"size": _points(style.TICK)},
    )  # fmt: skip


def write(figure: Figure, path: Path) -> None:
    """Save a figure; what is saved twice is the same."""
    from matplotlib import rc_context

    # As text, so that it can be searched and read aloud.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "headrace"}):
        kind = path.suffix.lower()
        undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind, {})
        figure.savefig(path, dpi=2 * _DPI if kind == ".png" else _DPI, metadata=undated)
