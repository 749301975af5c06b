"""What a grouping has to come to, computed element by element with no regard to how the engine does it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.sdk.windows import BoundedWindow, IntervalWindow, Sessions
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Element, Pane
from tests.properties.scripts import Script


@dataclass
class Contents:
    """What each key and window holds in the end, and what was dropped."""

    windows: dict[tuple[object, BoundedWindow], Counter[object]] = field(default_factory=dict)
    dropped: set[object] = field(default_factory=set)
    outside: set[object] = field(default_factory=set)


def contents(windowing: Windowing, script: Script) -> Contents:
    """The contents that windows close with."""
    model = Contents()
    before = MIN_TIMESTAMP
    for elements, watermark, _ in script.bundles:
        for element in elements:
            if isinstance(windowing.window_fn, Sessions):
                _add_to_session(model, windowing, windowing.window_fn, element, before)
            else:
                _add(model, windowing, element, before)
        before = watermark
    return model


def _add(model: Contents, windowing: Windowing, element: Element, watermark: int) -> None:
    key, value, time = element
    windows = windowing.window_fn.assign_all([time], [value])[0]
    taken = [window for window in windows if window.end_us + windowing.allowed_lateness_us > watermark]
    if not windows:
        model.outside.add(value)
    elif max(windows, key=lambda window: window.end_us) not in taken:
        model.dropped.add(value)
    for window in taken:
        model.windows.setdefault((key, window), Counter())[value] += 1


def _add_to_session(
    model: Contents, windowing: Windowing, window_fn: Sessions, element: Element, watermark: int
) -> None:
    key, value, time = element
    start, end, held = time, time + window_fn.gap_size.micros, Counter([value])
    if end + windowing.allowed_lateness_us <= watermark:
        model.dropped.add(value)
        return
    for of, window in list(model.windows):
        assert isinstance(window, IntervalWindow)
        is_open = window.end_us + windowing.allowed_lateness_us > watermark
        if of == key and is_open and window.start_us < end and start < window.end_us:
            held += model.windows.pop((of, window))
            start, end = min(start, window.start_us), max(end, window.end_us)
    model.windows[key, IntervalWindow.of_micros(start, end)] = held


def last_contents(panes: list[Pane]) -> dict[tuple[object, BoundedWindow], Counter[object]]:
    """What the last pane of each key and window holds."""
    return {(pane.key, pane.window): Counter(pane.value) for pane in panes}


def all_contents(panes: list[Pane]) -> dict[tuple[object, BoundedWindow], Counter[object]]:
    """What all panes of each key and window hold together."""
    together: dict[tuple[object, BoundedWindow], Counter[object]] = {}
    for pane in panes:
        together.setdefault((pane.key, pane.window), Counter()).update(pane.value)
    return together
