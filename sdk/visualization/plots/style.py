"""Colours, patterns and sizes: the palette of Okabe and Ito for colour-blind readers, and patterns for grey prints."""

from __future__ import annotations

from dataclasses import dataclass

BLACK, ORANGE, SKY, GREEN, BLUE = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2"
INK, FAINT, PAPER = "#222222", "#d9d9d9", "#ffffff"
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS", "Arial")
"""Fonts of plots, if available; those after the first have East Asian letters."""
FAMILY = ", ".join(f"'{font}'" for font in (FONTS[0], "Verdana", *FONTS[1:])) + ", sans-serif"
"""The fonts as a value of SVG's `font-family`."""
ACTUAL, IDEAL = BLUE, "#9a9a9a"
"""Colours of the two watermarks. The actual one is solid and thin; the ideal one is dashed, wide and below it, so that
both are visible where they coincide."""
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
    """A name in `PATTERNS`, or `plain`."""
    edge: str
    """Colour of the border and the value: dark enough to be readable."""


LOOKS = {
    "EARLY": Look("early", SKY, "rising", "#0b4f7a"),
    "ON_TIME": Look("on time", GREEN, "plain", "#004d38"),
    "LATE": Look("late", ORANGE, "crossed", "#6b4a00"),
    "UNKNOWN": Look("pane", "#999999", "plain", "#444444"),
}
"""Timing of a pane -> look."""
PATTERNS = {"rising": ("M-1 10L10 -1M-1 1L1 -1M8 10L10 8", "///"), "crossed": ("M-1 10L10 -1M-1 -1L10 10", "xxx")}
"""Lines over a pane: path in a square of 9 pixels, and hatch of matplotlib."""
VALUE, INPUT, TICK, TITLE, FLAG, REMARK = 15.0, 11.0, 12.0, 14.0, 12.0, 12.0
"""Sizes of texts, in units of the canvas (pixels)."""
ENTRY = 160.0
"""Width of an entry of the legend; pixels."""
DPI = 100


def points(pixels: float) -> float:
    """Convert pixels to points, matplotlib's unit for texts and lines, at `DPI`."""
    return pixels * 72 / DPI
