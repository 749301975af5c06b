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
_CLOSE, _RAISED = 0.25, 0.42
"""Minutes between scores whose circles would touch, and by how much of a lane one is raised then."""


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


def keys_of(step: StepRecording) -> list[str]:
    """In the order in which they come."""
    return list(dict.fromkeys(its.key for its in step.arrivals))


def draw_windows(rows: Sequence[Row], files: Sequence[Path]) -> None:
    """Draw them below each other, key by key, with the scores above, and save the picture under each name."""
    from matplotlib.figure import Figure

    keys = keys_of(rows[0].step)
    found = [
        (row.title, {key: lanes([its for its in row.step.panes if its.key == key]) for key in keys}) for row in rows
    ]
    height = 0.5 + len(keys) + sum(1.7 + sum(map(len, its.values())) for _, its in found)
    figure = Figure(figsize=(8.6, height * _LANE + 0.6), layout="constrained")
    axes = figure.add_subplot()
    plain(axes)
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    several = len(keys) > 1
    for number, key in enumerate(keys):
        _scores(axes, [its for its in rows[0].step.arrivals if its.key == key], -number)
        _key(axes, key if several else "", -number)
    axes.use_sticky_edges = False
    top = 1.0 - len(keys)
    for title, by_key in found:
        top -= 1.7
        axes.text(0, top + 0.25, title, transform=axes.get_yaxis_transform(), fontsize=10, weight="bold",
                  va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        for key, its in by_key.items():
            _key(axes, key if several else "", top - (1 + len(its)) / 2)
            for lane in its:
                top -= 1
                for pane in lane:
                    _bar(axes, pane, top)
    axes.set_ylim(top - 0.5, 0.9)
    axes.margins(x=0.03)
    minute_ticks(axes)
    axes.set_xlabel("event time")
    save(figure, files)


def _key(axes: Axes, key: str, y: float) -> None:
    axes.text(-0.01, y, key, transform=axes.get_yaxis_transform(), fontsize=10, ha="right", va="center")


def _scores(axes: Axes, arrivals: Sequence[Arrival], y: float) -> None:
    before, raised = -1.0, 0.0
    for arrival in sorted(arrivals, key=lambda its: its.event_time):
        x = arrival.event_time / 60e6
        # Of two that are close the second stands a little higher.
        raised = _RAISED if x - before < _CLOSE and not raised else 0.0
        axes.axvline(x, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
        axes.scatter([x], [y + raised], s=190, facecolor="white", edgecolor="#222222", zorder=3)
        axes.text(x, y + raised, str(arrival.value), ha="center", va="center_baseline", fontsize=8.5, zorder=4)
        before = x


def _bar(axes: Axes, pane: RecordedPane, lane: float) -> None:
    assert pane.start is not None and pane.end is not None, "these windows have ends"
    start, length = pane.start / 60e6, (pane.end - pane.start) / 60e6
    axes.barh(
        [lane], [length], left=[start], height=0.78, color="#b2e2d5", edgecolor="#004d38", linewidth=1.0, zorder=2
    )
    axes.text(start + length / 2, lane, str(pane.value), ha="center", va="center_baseline", fontsize=10, weight="bold",
              color="#004d38", zorder=4)  # fmt: skip
