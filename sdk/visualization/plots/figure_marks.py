"""Flags, timers and open windows in a static plot, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.marks import Bar, Bell, Flag
from headrace.sdk.visualization.plots.scene import Scene
from headrace.sdk.visualization.plots.style import KINDS, points

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


def draw_marks(axes: Axes, scene: Scene) -> None:
    """Draw all marks of a scene."""
    for bar in scene.bars:
        _bar(axes, bar)
    for height, _ in scene.restarts:
        axes.plot(
            [0, scene.width], [height] * 2, color=style.RESTART, linewidth=1.4, linestyle=(0, (6, 2, 1, 2)), zorder=3
        )
        axes.text(
            scene.width, height - 4, "restart", size=points(style.REMARK), ha="right", va="bottom", color=style.RESTART,
            zorder=7,
        )  # fmt: skip
    if scene.now is not None:
        axes.plot([0, scene.width], [scene.now] * 2, color=style.INK, linewidth=1.0, linestyle=(0, (2, 3)), zorder=3)
        axes.text(
            scene.width, scene.now + 4, "last commit", size=points(style.REMARK), ha="right", va="top", color=style.INK
        )
    for bell in scene.bells:
        _bell(axes, bell)
    for flag in scene.flags:
        _flag(axes, flag)


def _bar(axes: Axes, bar: Bar) -> None:
    from matplotlib.patches import Rectangle

    room = bar.room
    axes.add_patch(Rectangle(
        (room.left, room.top), room.right - room.left, room.bottom - room.top, facecolor="#eeeeee",
        edgecolor=style.OPEN, linestyle="--", linewidth=1.0, zorder=2,
    ))  # fmt: skip
    axes.text(*room.middle, bar.text, size=points(style.FLAG), ha="center", va="center_baseline", color=style.INK,
              zorder=4, parse_math=False)  # fmt: skip


def _bell(axes: Axes, bell: Bell) -> None:
    axes.scatter(
        bell.x, bell.y, marker=">" if bell.is_wall else "^", s=points(11) ** 2, zorder=6, clip_on=False,
        facecolors=style.PAPER if bell.fired_at is None else style.TIMER, edgecolors=style.TIMER,
    )  # fmt: skip


def _flag(axes: Axes, flag: Flag) -> None:
    from matplotlib.patches import Rectangle

    if not flag.on_input:
        axes.scatter(flag.x, flag.y, marker="s", s=points(6) ** 2, color=style.RESULT, zorder=7)
    if (room := flag.room) is None:
        return
    x = min(max(flag.x, room.left), room.right)
    axes.plot([x, x], [flag.y, room.bottom], color=style.RESULT, linewidth=1.2, zorder=6)
    axes.add_patch(Rectangle(
        (room.left, room.top), room.right - room.left, room.bottom - room.top, facecolor=style.PAPER,
        edgecolor=style.RESULT, linewidth=1.2, zorder=6,
    ))  # fmt: skip
    axes.text(*room.middle, flag.text, size=points(style.FLAG), ha="center", va="center_baseline", color=style.RESULT,
              weight="bold", zorder=7, parse_math=False)  # fmt: skip


def entries_of_marks(scenes: Sequence[Scene]) -> list[tuple[Artist, str]]:
    """The legend's entries for the kinds of marks in the scenes."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[tuple[Artist, str]] = []
    if any(scene.flags for scene in scenes):
        entries.append((Line2D([], [], marker="s", linestyle="", color=style.RESULT, markersize=9), "result"))
    bells = [bell for scene in scenes for bell in scene.bells]
    for is_wall, fired, name in KINDS:
        if any(bell.is_wall == is_wall and (bell.fired_at is not None) == fired for bell in bells):
            entries.append((Line2D(
                [], [], marker=">" if is_wall else "^", linestyle="", color=style.TIMER, markersize=9,
                markerfacecolor=style.TIMER if fired else style.PAPER,
            ), name))  # fmt: skip
    if any(scene.bars for scene in scenes):
        entries.append((Patch(facecolor="#eeeeee", edgecolor=style.OPEN, linestyle="--"), "open window"))
    return entries
