"""How things look: colours of Okabe and Ito, which colour-blind people tell apart, and patterns for print in grey."""

from __future__ import annotations

from dataclasses import dataclass

BLACK, ORANGE, SKY, GREEN, BLUE = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2"
INK, FAINT, PAPER = "#222222", "#d9d9d9", "#ffffff"
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Arial Unicode MS", "Arial")
"""Of static pictures, as far as they are there; those after the first have letters of East Asia."""
ACTUAL, IDEAL = BLUE, "#9a9a9a"
"""Colours of the two watermarks. They also differ in line: solid and thin; dashed and wide, and below the other one, so
that both are seen where they coincide."""
ACTUAL_WIDTH, IDEAL_WIDTH = 2.6, 6.5
"""Of their lines, pixels."""
RESULT, TIMER, OPEN = "#7a3b69", "#6b4a00", "#555555"
"""Of productions (flags), timers (triangles) and windows that are open (dashed bars), which also differ in form."""
RESTART = "#8a2be2"
"""Of the line at which another driver began; it also differs from others in its dots and dashes, and has its name."""
RETRACTION = "#b3001b"
"""Red; for who does not see that, the minus sign tells it."""


@dataclass(frozen=True, slots=True)
class Look:
    """Of a pane."""

    name: str
    colour: str
    pattern: str
    """`rising` and `crossed` lines, or `plain`."""
    edge: str
    """Of its border and its value: dark enough to be read."""


LOOKS = {
    "EARLY": Look("early", SKY, "rising", "#0b4f7a"),
    "ON_TIME": Look("on time", GREEN, "plain", "#004d38"),
    "LATE": Look("late", ORANGE, "crossed", "#6b4a00"),
    "UNKNOWN": Look("pane", "#999999", "plain", "#444444"),
}
"""By timing."""
VALUE, INPUT, TICK, TITLE, FLAG, REMARK = 15.0, 11.0, 12.0, 14.0, 12.0, 12.0
"""Sizes of texts, in units of the canvas (pixels)."""
KINDS = (
    (False, True, "timer"),
    (True, True, "wall-time timer"),
    (False, False, "waiting timer"),
    (True, False, "waiting, wall time"),
)
"""Kinds of timers: whether on the wall clock, whether fired, and their name in the legend."""
DPI = 100


def points(pixels: float) -> float:
    """Sizes of texts and lines in matplotlib's unit, in a figure of `DPI`."""
    return pixels * 72 / DPI
