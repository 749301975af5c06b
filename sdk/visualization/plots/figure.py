"""A static plot, drawn by matplotlib: one unit of its axes is one unit of the scene's canvas."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.boxes import Box
from headrace.sdk.visualization.plots.figure_marks import draw_marks, entries_of_marks
from headrace.sdk.visualization.plots.label_placement import GAP, around, width_of
from headrace.sdk.visualization.plots.panel import LINE, Panel
from headrace.sdk.visualization.plots.scene import Point, Scene
from headrace.sdk.visualization.plots.style import DPI, LOOKS, Look, points

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW = 112.0, 26.0, 42.0, 56.0, 26.0
"""Margins around each panel, and the height of a row of the legend."""
_ENTRY = 132.0
"""Width of an entry of the legend."""
Dashes = tuple[float, tuple[float, ...]]
_DASHES: Dashes = (0.0, (1.2, 0.8))
"""Dash pattern of the ideal watermark: offset, then lengths of dash and gap in units of the line's width."""
_HATCHES = {"rising": "///", "crossed": "xxx", "plain": ""}


def draw(panels: Sequence[Panel]) -> Figure:
    """A figure with panels side by side. Raises `ImportError` if matplotlib is not installed."""
    try:
        import_module("matplotlib")
    except ImportError as missing:
        raise ImportError(
            "figures need matplotlib, which is not installed: pip install 'headrace[plot]'; plot.html works without it"
        ) from missing
    from matplotlib import rc_context

    with rc_context({"font.family": _families()}):
        return _figure(panels)


def _families() -> list[str]:
    """The available fonts; a glyph missing in one is taken from the next."""
    from matplotlib.font_manager import fontManager

    available = {font.name for font in fontManager.ttflist}
    return [name for name in style.FONTS if name in available] or ["sans-serif"]


def _figure(panels: Sequence[Panel]) -> Figure:
    from matplotlib.figure import Figure

    width = sum(_LEFT + panel.scene.width + _RIGHT for panel in panels)
    entries = _entries(panels)
    rows = -(-len(entries) // max(1, int(width / _ENTRY)))
    # Each row has the same number of columns, so that entries are aligned.
    columns = -(-len(entries) // max(1, rows))
    legend = 8 + _ROW * rows
    top = _TOP + LINE * max(len(panel.remarks) for panel in panels)
    height = top + panels[0].scene.height + _BOTTOM + legend
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor=style.PAPER)
    left = 0.0
    for panel in panels:
        scene = panel.scene
        x, y = left + _LEFT, _BOTTOM + legend
        axes = figure.add_axes((x / width, y / height, scene.width / width, scene.height / height))
        _draw_panel(axes, panel)
        left += _LEFT + scene.width + _RIGHT
    _legend(figure, entries, columns)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    scene = panel.scene
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    _axes(axes, scene)
    lines = len(panel.remarks)
    title, size = -14 - LINE * lines - 4 * bool(lines), points(style.TITLE)
    axes.text(0, title, panel.title, size=size, weight="bold", color=style.INK, parse_math=False)
    for number, line in enumerate(panel.remarks, 1):
        y = -12 - LINE * (lines - number)
        axes.text(0, y, line, size=points(style.REMARK), color="#555555", parse_math=False)
    for box in scene.boxes:
        _box(axes, box)
    # The lines coincide where the watermark is perfect, so the wide line is drawn first.
    _line(axes, scene.ideal, style.IDEAL, _DASHES, style.IDEAL_WIDTH)
    _line(axes, scene.actual, style.ACTUAL, "-", style.ACTUAL_WIDTH)
    for dot in scene.dots:
        at, size = (dot.x, dot.y), points(style.INPUT)
        axes.scatter(
            *at,
            s=points(dot.radius * 2) ** 2,
            c=style.PAPER if dot.text else style.INK,
            edgecolors=style.INK,
            zorder=5,
        )
        if dot.text:
            axes.text(*at, dot.text, size=size, ha="center", va="center_baseline", zorder=6, parse_math=False)
    draw_marks(axes, scene)
    for box in scene.boxes:
        _label(axes, box)


def _axes(axes: Axes, scene: Scene) -> None:
    across, up = scene.event_time, scene.processing_time
    times, heights = across.ticks(62), up.ticks(34)
    axes.set_xticks([across.position(time) for time, _ in times], [text for _, text in times])
    axes.set_yticks([up.position(time) for time, _ in heights], [text for _, text in heights])
    axes.tick_params(labelsize=points(style.TICK), colors=style.INK)
    axes.grid(color=style.FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(across.named("event time"), size=points(style.TICK))
    axes.set_ylabel(up.named("processing time"), size=points(style.TICK))


def _line(axes: Axes, along: Sequence[Point], colour: str, dashes: str | Dashes, width: float) -> None:
    if along:
        across, up = zip(*along, strict=True)
        axes.plot(
            across, up, linestyle=dashes, linewidth=points(width), color=colour, zorder=4, solid_joinstyle="round",
            dash_capstyle="butt",
        )  # fmt: skip


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
    """Write the value, and in red the retracted values, in one line."""
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
    """Write a text with an outline, readable on any background; drawn separately, so that files contain the text."""
    from matplotlib.patheffects import Stroke

    for ink, effects in ((style.PAPER, [Stroke(linewidth=3.5, foreground=style.PAPER)]), (colour, None)):
        axes.text(
            x, y, text, size=points(style.VALUE), weight="bold", color=ink, path_effects=effects, zorder=7,
            ha="center", va="center_baseline", parse_math=False,
        )  # fmt: skip


LegendEntry = tuple["Artist", str]


def _entries(panels: Sequence[Panel]) -> list[LegendEntry]:
    """The legend's entries for everything that is in some panel."""
    from matplotlib.lines import Line2D

    scenes = [panel.scene for panel in panels]
    boxes = [box for scene in scenes for box in scene.boxes]
    dot = Line2D([], [], marker="o", linestyle="", markerfacecolor=style.PAPER, markeredgecolor=style.INK, markersize=9)
    entries: list[LegendEntry] = [(dot, "input")] if any(scene.dots for scene in scenes) else []
    if any(scene.actual for scene in scenes):
        entries.append((Line2D([], [], color=style.ACTUAL, linewidth=points(style.ACTUAL_WIDTH)), "actual watermark"))
    if any(scene.ideal for scene in scenes):
        wide = points(style.IDEAL_WIDTH)
        entries.append((Line2D([], [], color=style.IDEAL, linestyle=_DASHES, linewidth=wide), "ideal watermark"))
    present = {box.pane.timing for box in boxes if box.text}
    entries += [(_patch(look, (0, 0), 1, 1), f"{look.name} pane") for name, look in LOOKS.items() if name in present]
    if any(box.takes_back for box in boxes):
        minus = Line2D([], [], marker="$−7$", linestyle="", color=style.RETRACTION, markersize=13)
        entries.append((minus, "taken back"))
    return entries + entries_of_marks(scenes)


def _legend(figure: Figure, entries: Sequence[LegendEntry], columns: int) -> None:
    if not entries:
        return
    handles, names = zip(*entries, strict=True)
    figure.legend(
        handles, names, loc="lower center", ncols=columns, frameon=False, borderaxespad=0.5, columnspacing=1.6,
        handletextpad=0.5, prop={"size": points(style.TICK)},
    )  # fmt: skip


def write(figure: Figure, path: Path) -> None:
    """Save a figure; equal figures give equal files."""
    from matplotlib import rc_context

    # Text is saved as text, so that it can be searched and read aloud.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "headrace"}):
        kind = path.suffix.lower()
        undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind, {})
        figure.savefig(path, dpi=2 * DPI if kind == ".png" else DPI, metadata=undated)
