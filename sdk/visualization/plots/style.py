"""Colours, patterns and sizes: the palette of Okabe and Ito for colour-blind readers, and patterns for grey prints."""

from __future__ import annotations

from dataclasses import dataclass

BLACK, ORANGE, SKY, GREEN, BLUE = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2"
INK, FAINT, PAPER = "#222222", "#d9d9d9", "#ffffff"
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS", "Arial")
"""Fonts of static plots, if available; those after the first have East Asian letters."""
ACTUAL, IDEAL = BLUE, "#9a9a9a"
"""Colours of the two watermarks. The actual one is solid and thin; the ideal one is dashed, wide and below it, so that
both are visible where they coincide."""
ACTUAL_WIDTH, IDEAL_WIDTH = 2.6, 6.5
"""Widths of the watermarks' lines, pixels."""
RESULT, TIMER, OPEN = "#7a3b69", "#6b4a00", "#555555"
"""Colours of productions (flags), timers (triangles) and open windows (dashed bars), which also differ in form."""
RESTART = "#8a2be2"
"""Colour of the line at which another driver began; the line also has dots and dashes, and a label."""
RETRACTION = "#b3001b"
"""Colour of retracted values: red; the minus sign says the same without colour."""


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a pane."""

    name: str
    colour: str
    pattern: str
    """`rising` and `crossed` lines, or `plain`."""
    edge: str
    """Colour of the border and the value: dark enough to be readable."""


LOOKS = {
    "EARLY": Look("early", SKY, "rising", "#0b4f7a"),
    "ON_TIME": Look("on time", GREEN, "plain", "#004d38"),
    "LATE": Look("late", ORANGE, "crossed", "#6b4a00"),
    "UNKNOWN": Look("pane", "#999999", "plain", "#444444"),
}
"""Timing of a pane -> look."""
VALUE, INPUT, TICK, TITLE, FLAG, REMARK = 15.0, 11.0, 12.0, 14.0, 12.0, 12.0
"""Sizes of texts, in units of the canvas (pixels)."""
KINDS = (
    (False, True, "timer"),
    (True, True, "wall-time timer"),
    (False, False, "waiting timer"),
    (True, False, "waiting, wall time"),
)
"""Kinds of timers: whether on wall time, whether fired, and the name in the legend."""
DPI = 100


def points(pixels: float) -> float:
    """Convert pixels to points, matplotlib's unit for texts and lines, at `DPI`."""
    return pixels * 72 / DPI
