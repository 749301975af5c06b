"""An HTML page that plays a run: plots, a slider over processing time, and a script, all in one file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from xml.etree.ElementTree import tostring

from headrace.sdk.visualization.plots.axis import brief_time
from headrace.sdk.visualization.plots.drawing import description, element, legend, patterns
from headrace.sdk.visualization.plots.labels import item_label, value_label
from headrace.sdk.visualization.plots.panel import Panel
from headrace.sdk.visualization.plots.scene import Scene
from headrace.sdk.visualization.plots.svg import drawings

_SECONDS = 20
"""Duration of playing, seconds."""
_INPUTS = "inputs arrive"
_NAMED = 6
"""Most events of one kind and instant that are listed; if there are more, only their number is."""


def page(panels: Sequence[Panel]) -> str:
    """The page with panels side by side, which play together."""
    parts = list(drawings(panels))
    for part in parts:
        part.set("style", f"max-width:{1.3 * float(part.get('width', 0)):g}px")
    samples = []
    for name, sample in legend([panel.scene for panel in panels]):
        samples.append(element("li", element("svg", *sample, aria_hidden="true")))
        samples[-1][0].tail = name
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape("; ".join(panel.title for panel in panels)),
        patterns=tostring(patterns(), encoding="unicode"),
        drawings="\n".join(tostring(part, encoding="unicode") for part in parts),
        legend="\n".join(tostring(sample, encoding="unicode") for sample in samples),
        # A value that contains `</script>` must not end the script.
        events=json.dumps(_event_list(panels)).replace("<", "\\u003c"),
        seconds=_SECONDS,
    )


def _event_list(panels: Sequence[Panel]) -> list[tuple[int, str]]:
    """Processing times and descriptions of all events, in order; many events of a kind at one time are only counted."""
    groups: dict[tuple[int, str], list[str]] = {}
    for panel in panels:
        where = f"{panel.title}: " if len(panels) > 1 else ""
        for time, kind, words in _events(panel.scene):
            groups.setdefault((time, f"{where}{{}} {kind}"), []).append(f"{where if kind != _INPUTS else ''}{words}")
    found: dict[tuple[int, str], None] = {}
    for (time, count), descriptions in groups.items():
        for words in descriptions if len(descriptions) <= _NAMED else [count.format(f"{len(descriptions):,}")]:
            found[time, words] = None
    return sorted(found, key=lambda event: event[0])


def _events(scene: Scene) -> Iterator[tuple[int, str, str]]:
    """The events of a scene: processing time, plural of the kind, and description."""
    for arrival in scene.inputs:
        yield arrival.processing_time, _INPUTS, f"{item_label(arrival)} arrives, of {brief_time(arrival.event_time)}"
    for bell in scene.bells:
        if bell.fired_at is not None:
            yield bell.fired_at, "timers fire", bell.tooltip
    for flag in scene.flags:
        result = flag.production
        words = f"{value_label(result.value)} is put out, of {brief_time(result.event_time)}"
        yield result.processing_time, "results", words
    for _, time in scene.restarts:
        yield time, "restarts", "the run goes on with another driver"
    for box in scene.boxes:
        words = ", ".join(filter(None, [box.text, *box.retracted_texts]))
        yield box.pane.processing_time, "panes", f"pane {description(box.pane, words)}"
