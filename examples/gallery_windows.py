"""Windows as bars over event time, for the figures of the gallery that are about windows alone (3 and 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.gallery_style import minute_ticks, plain, save
from headrace.recording import Arrival, RecordedPane, StepRecording

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LANE = 0.34
"""Height of a lane, inches."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of windows: a run with one pane a window."""

    title: str
    step: StepRecording


def lanes(panes: Sequence[RecordedPane]) -> list[list[RecordedPane]]:
    """The windows in as few lanes as can be, so that none covers another.

    >>> panes = [RecordedPane(0, "", 1, start, start + 2, "ON_TIME", 0) for start in (0, 1, 2)]
    >>> [[pane.start for pane in lane] for lane in lanes(panes)]
    [[0, 2], [1]]
    """
    found: list[list[RecordedPane]] = []
    for pane in sorted(panes, key=lambda its: its.start or 0):
        for lane in found:
            if (lane[-1].end or 0) <= (pane.start or 0):
                lane.append(pane)
                break
        else:
            found.append([pane])
    return found


def draw_windows(rows: Sequence[Row], files: Sequence[Path]) -> None:
    """Draw them below each other, with the scores above, and save the picture under each name."""
    from matplotlib.figure import Figure

    found = [(row.title, lanes(row.step.panes)) for row in rows]
    height = 1.5 + sum(1.7 + len(its) for _, its in found)
    figure = Figure(figsize=(8.6, height * _LANE + 0.6), layout="constrained")
    axes = figure.add_subplot()
    plain(axes)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    _scores(axes, rows[0].step.arrivals)
    axes.use_sticky_edges = False
    top = 0.0
    for title, its in found:
        top -= 1.7
        axes.text(0, top + 0.25, title, transform=axes.get_yaxis_transform(), fontsize=10, weight="bold",
                  va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        for lane in its:
            top -= 1
            for pane in lane:
                _bar(axes, pane, top)
    axes.set_ylim(top - 0.5, 0.9)
    axes.margins(x=0.03)
    minute_ticks(axes)
    axes.set_xlabel("event time")
    save(figure, files)


def _scores(axes: Axes, arrivals: Sequence[Arrival]) -> None:
    for arrival in arrivals:
        x = arrival.event_time / 60e6
        axes.axvline(x, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
        axes.scatter([x], [0], s=280, facecolor="white", edgecolor="#222222", zorder=3)
        axes.text(x, 0, str(arrival.value), ha="center", va="center_baseline", fontsize=9, zorder=4)


def _bar(axes: Axes, pane: RecordedPane, lane: float) -> None:
    assert pane.start is not None and pane.end is not None, "these windows have ends"
    start, length = pane.start / 60e6, (pane.end - pane.start) / 60e6
    axes.barh(
        [lane], [length], left=[start], height=0.78, color="#b2e2d5", edgecolor="#004d38", linewidth=1.0, zorder=2
    )
    axes.text(start + length / 2, lane, str(pane.value), ha="center", va="center_baseline", fontsize=10, weight="bold",
              color="#004d38", zorder=4)  # fmt: skip
