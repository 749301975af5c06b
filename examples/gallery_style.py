"""What the figures of the gallery that are no pictures of recorded runs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from examples.streaming102.scores import clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00")
"""Of Okabe and Ito; the forms below tell the same apart in print."""
MARKERS, LINES, HATCHES = "os^D", ("-", "--", "-.", ":"), ("", "///", "...", "xx")


def plain(axes: Axes) -> None:
    """Faint lines behind, no frame."""
    axes.grid(color="#d9d9d9", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def minute_ticks(axes: Axes) -> None:
    """Label an axis that counts minutes with times of day."""
    first, last = axes.get_xlim()
    minutes = range(int(first) + (first > int(first)), int(last) + 1)
    axes.set_xticks(minutes, [clock(60 * minute).removesuffix(":00") for minute in minutes])


def save(figure: Figure, files: Sequence[Path]) -> None:
    """Write it under each name; the end says in which format."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "headrace"}):
        for file in files:
            figure.savefig(file, dpi=200, metadata={"Date": None} if file.suffix == ".svg" else {})
