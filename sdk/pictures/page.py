"""A page that plays a run: drawings, a slider over processing time, and a small program, all in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from headrace.sdk.pictures import style
from headrace.sdk.pictures.panel import Panel
from headrace.sdk.pictures.style import LOOKS
from headrace.sdk.pictures.svg import drawing, events, styles

_SECONDS = 20
"""That playing takes."""


def page(panels: Sequence[Panel]) -> str:
    """The page of some scenes, side by side, which move together."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape("; ".join(panel.title for panel in panels)),
        drawings="\n".join(drawing(panel, number) for number, panel in enumerate(panels)),
        legend="\n".join(f"<li>{entry}</li>" for entry in _legend(panels)),
        styles=styles(),
        # A value must not end the script that it stands in.
        events=json.dumps(events(panels)).replace("<", "\\u003c"),
        seconds=_SECONDS,
    )


def _legend(panels: Sequence[Panel]) -> Iterator[str]:
    boxes = [box for panel in panels for box in panel.scene.boxes]
    present = {box.pane.timing for box in boxes if box.text}
    if any(panel.scene.dots for panel in panels):
        yield '<svg class="dot" aria-hidden="true"><circle cx="15" cy="9" r="7"/></svg>input'
    if any(panel.scene.actual for panel in panels):
        yield _sample('<path class="actual" d="M0 9H30"/>', "actual watermark")
    if any(panel.scene.ideal for panel in panels):
        yield _sample('<path class="ideal" d="M0 9H30"/>', "ideal watermark")
    for timing, look in LOOKS.items():
        if timing in present:
            size = 'x="1" y="1" width="28" height="16"'
            sample = f'<rect class="{timing.lower()}" {size}/><rect class="pattern {timing.lower()}" {size}/>'
            yield _sample(sample, f"{look.name} pane")
    if any(box.takes_back for box in boxes):
        yield f'<b style="color:{style.RETRACTION}">−7</b> taken back'


def _sample(shape: str, name: str) -> str:
    return f'<svg aria-hidden="true">{shape}</svg>{name}'
