"""Flags, timers and open windows as SVG elements with the times at which they appear (see `svg.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from headrace.sdk.visualization.plots.axis import briefly
from headrace.sdk.visualization.plots.labels import value_label
from headrace.sdk.visualization.plots.marks import Bar, Bell, Flag
from headrace.sdk.visualization.plots.scene import Scene

TRIANGLE, SIDEWAYS = "M-6 5L0 -6L6 5Z", "M-5 -6L6 0L-5 6Z"
"""SVG paths around (0, 0): a timer on event time, and a timer on wall time."""


def marks(scene: Scene) -> Iterator[str]:
    """The SVG elements of all marks of a scene."""
    for bar in scene.bars:
        yield from _bar(bar)
    for height, time in scene.restarts:
        yield f'<g class="restart" data-at="{time}"><title>restart, {briefly(time)}</title>'
        yield f'<line x1="0" x2="{scene.width:g}" y1="{height:.1f}" y2="{height:.1f}"/>'
        yield f'<text x="{scene.width:g}" y="{height - 5:.1f}" text-anchor="end">restart</text></g>'
    if scene.now is not None:
        y = scene.now
        yield f'<line class="committed" x1="0" x2="{scene.width:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{scene.width:g}" y="{y + 15:.1f}" text-anchor="end">last commit</text>'
    for bell in scene.bells:
        yield from _bell(bell)
    for flag in scene.flags:
        yield from _flag(flag)


def _bar(bar: Bar) -> Iterator[str]:
    room = bar.room
    size = f'width="{room.right - room.left:.1f}" height="{room.bottom - room.top:g}"'
    yield f"<g><title>{escape(bar.tooltip)}</title>"
    yield f'<rect class="open" x="{room.left:.1f}" y="{room.top:.1f}" {size}/>'
    x, y = room.middle
    yield f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(bar.text)}</text></g>'


def _bell(bell: Bell) -> Iterator[str]:
    attributes = f'class="bell waits" transform="translate({bell.x:.1f} {bell.y:.1f})"'
    if bell.fired_at is not None:
        attributes = f'class="bell" data-at="{bell.fired_at}" transform="translate({bell.x:.1f} {bell.y:.1f})"'
    shape = SIDEWAYS if bell.is_wall else TRIANGLE
    yield f'<g {attributes}><title>{escape(bell.tooltip)}</title><path d="{shape}"/></g>'


def _flag(flag: Flag) -> Iterator[str]:
    production, room = flag.production, flag.room
    yield f'<g class="flag" data-at="{production.processing_time}">'
    times = f"of {briefly(production.event_time)}, at {briefly(production.processing_time)}"
    tooltip = f"{value_label(production.value)} put out, {times}"
    yield f"<title>{escape(tooltip)}</title>"
    if not flag.on_input:
        yield f'<rect class="point" x="{flag.x - 3:.1f}" y="{flag.y - 3:.1f}" width="6" height="6"/>'
    if room is not None:
        x = min(max(flag.x, room.left), room.right)
        yield f'<path d="M{x:.1f} {flag.y:.1f}V{room.bottom:.1f}"/>'
        size = f'width="{room.right - room.left:.1f}" height="{room.bottom - room.top:g}"'
        yield f'<rect x="{room.left:.1f}" y="{room.top:.1f}" {size}/>'
        x, y = room.middle
        yield f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{escape(flag.text)}</text>'
    yield "</g>"
