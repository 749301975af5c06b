"""An HTML page that plays a run: plots, a slider over processing time, and a script, all in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from headrace.sdk.visualization.plots import style
from headrace.sdk.visualization.plots.panel import Panel
from headrace.sdk.visualization.plots.style import KINDS, LOOKS
from headrace.sdk.visualization.plots.svg import drawing, events, styles
from headrace.sdk.visualization.plots.svg_marks import SIDEWAYS, TRIANGLE

_SECONDS = 20
"""Duration of playing, seconds."""


def page(panels: Sequence[Panel]) -> str:
    """The page with panels side by side, which play together."""
    lines = max(len(panel.remarks) for panel in panels)
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape("; ".join(panel.title for panel in panels)),
        drawings="\n".join(drawing(panel, number, lines) for number, panel in enumerate(panels)),
        legend="\n".join(f"<li>{entry}</li>" for entry in _legend(panels)),
        styles=styles(),
        # A value that contains `</script>` must not end the script.
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
    yield from _legend_of_marks(panels)


def _legend_of_marks(panels: Sequence[Panel]) -> Iterator[str]:
    if any(panel.scene.flags for panel in panels):
        yield _sample('<g class="flag"><rect class="point" x="11" y="5" width="8" height="8"/></g>', "result")
    bells = [bell for panel in panels for bell in panel.scene.bells]
    for is_wall, fired, name in KINDS:
        if any(bell.is_wall == is_wall and (bell.fired_at is not None) == fired for bell in bells):
            kind, shape = "bell" if fired else "bell waits", SIDEWAYS if is_wall else TRIANGLE
            yield _sample(f'<g class="{kind}" transform="translate(15 10)"><path d="{shape}"/></g>', name)
    if any(panel.scene.bars for panel in panels):
        yield _sample('<rect class="open" x="1" y="1" width="28" height="16"/>', "open window")


def _sample(shape: str, name: str) -> str:
    return f'<svg aria-hidden="true">{shape}</svg>{name}'
