"""Pictures of recordings that nobody meant: any times, values, keys and numbers of things, and files made by others."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import plot
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.recording import (
    Arrival,
    FiredTimer,
    Production,
    RecordedPane,
    Recording,
    RecordingError,
    StepRecording,
    WatermarkStep,
)
from headrace.sdk.visualization.plots.downsampling import MOST_BOXES, MOST_DOTS
from headrace.sdk.visualization.plots.page import page
from headrace.sdk.visualization.plots.panel import panels

times = st.one_of(
    st.integers(0, 100_000_000),
    st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP),
    st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP, 0, -1, 1_700_000_000_000_000]),
)
clocks = st.one_of(st.integers(0, 100_000_000), st.integers(1_700_000_000_000_000, 1_900_000_000_000_000))
texts = st.one_of(
    st.text(max_size=100),
    st.sampled_from(["</script><b>&\"'", "$x^", "\0\x1b[1m", "\ud800", "\u202eright", "键" * 50, "${styles}", "a\nb"]),
)
values = st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), texts)
keys = st.sampled_from(["a", "<b>"])
windows = st.one_of(
    st.just((None, None)), st.tuples(times, times).map(lambda ends: (min(ends), max(ends) + (ends[0] == ends[1])))
)
panes = st.builds(
    lambda clock, key, value, window, timing, index, back: RecordedPane(
        clock, key, value, *window, timing, index, back
    ),
    *(
        clocks,
        keys,
        values,
        windows,
        st.sampled_from(["EARLY", "ON_TIME", "LATE", "UNKNOWN"]),
        st.just(0),
        st.booleans(),
    ),
)


def several(things: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(things, max_size=6).map(lambda made: tuple(sorted(made, key=lambda its: its.processing_time)))


recordings = st.builds(
    StepRecording,
    label=texts,
    arrivals=several(st.builds(Arrival, times, clocks, keys, values, st.booleans())),
    watermarks=several(st.builds(WatermarkStep, clocks, times)),
    panes=several(panes),
    productions=several(st.builds(Production, times, clocks, st.sampled_from(["a", ""]), values)),
    timers=several(st.builds(FiredTimer, times, clocks, keys, texts, st.booleans())),
    dropped=st.integers(0, 10**9),
    left_out=st.integers(0, 10**9),
)


def elements(written: str) -> list[ElementTree.Element]:
    """The drawings of a page; they are XML."""
    drawings = re.findall(r"<svg viewBox.*?</svg>", written, re.DOTALL)
    return [ElementTree.fromstring(one.replace("xml:space", "space")) for one in drawings]


@given(recordings)
def test_whatever_was_recorded_can_be_drawn_or_is_refused_in_words(step: StepRecording) -> None:
    try:
        drawn = panels(step, None, None, None)
    except RecordingError as refused:
        assert not (step.arrivals or step.panes or step.productions or step.timers)
        assert "nothing to draw" in str(refused)
        return
    written = page(drawn)
    written.encode("utf-8")
    (drawing,) = elements(written)
    for name in ("x", "y", "width", "height", "x1", "y2", "r"):
        for its in drawing.iter():
            if its.get(name) is not None:
                assert abs(float(its.get(name, ""))) < 10_000, "nothing is drawn far off"
    assert written.count("</script>") == 1
    assert len(drawn[0].scene.event_time.ticks(62)) < 20 and len(drawn[0].scene.processing_time.ticks(34)) < 20


@given(recordings)
def test_what_is_saved_is_loaded(step: StepRecording) -> None:
    whole = Recording((step,))
    loaded = Recording.of_json(whole.to_json().encode(), "it")
    # By text, as there are numbers that are not equal to themselves.
    assert repr(loaded) == repr(whole)


@given(
    st.recursive(st.one_of(st.none(), st.integers(), texts), lambda its: st.lists(its) | st.dictionaries(texts, its))
)
def test_a_file_of_anything_is_refused_in_words(content: object) -> None:
    for told in (content, {"format": 1, "steps": content}, {"format": 1, "steps": [content]}):
        try:
            Recording.of_json(json.dumps(told).encode(), "it")
        except RecordingError as refused:
            assert str(refused).startswith("it ")


@pytest.mark.parametrize(
    "change",
    [
        {"arrivals": [{"event_time": "5", "processing_time": 1, "key": "a", "value": 1}]},
        {"arrivals": [{"event_time": 5, "processing_time": 1, "key": 3, "value": 1}]},
        {"arrivals": [{"event_time": 5, "processing_time": 1 << 70, "key": "a", "value": 1}]},
        {"arrivals": [{"event_time": 5, "processing_time": 1, "key": "a", "value": [1]}]},
        {"watermarks": [{"processing_time": None, "watermark": 1}]},
        {"panes": [{"processing_time": 1, "key": "a", "value": 1, "start": 0, "end": 1, "timing": "SOON", "index": 0}]},
        {"dropped": "many"},
        {"epochs": [[1]]},
        {"label": 5},
        {"standing": {"clock": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_file_with_something_else_where_a_picture_reckons(change: dict[str, object]) -> None:
    told = {"format": 1, "steps": [{"label": "Sum", "arrivals": [], **change}]}
    with pytest.raises(RecordingError, match=r"it is no recording \("):
        Recording.of_json(json.dumps(told).encode(), "it")


def test_a_large_recording_is_thinned_and_says_so():
    number = 100_000
    arrivals = tuple(Arrival(n * 7919 % 1_000_003, n, "a", n) for n in range(number))
    made = tuple(
        RecordedPane(n * 100, "a", n, n % 7 * 100_000, n % 7 * 100_000 + 90_000 + n, "EARLY", n) for n in range(1000)
    )
    timers = tuple(FiredTimer(n * 10, n, "a", "t") for n in range(5000))
    (panel,) = panels(StepRecording("Sum", arrivals, panes=made, timers=timers), None, None, None)
    assert len(panel.scene.dots) <= MOST_DOTS and len(panel.scene.boxes) == MOST_BOXES
    assert re.search(
        r"\b1,500 of 100,000 inputs drawn; 300 of 1,000 panes drawn; .*11 of 5,000 timers drawn", panel.remark
    )
    assert panel.scene.dots[0].arrival == arrivals[0]
    assert "1,500 of 100,000" in html.unescape(page([panel]))


def test_of_many_panes_the_last_of_each_window_is_drawn():
    made = tuple(RecordedPane(n, "a", n, n % 5 * 10, n % 5 * 10 + 10, "EARLY", n) for n in range(1000))
    (panel,) = panels(StepRecording("Sum", panes=made), None, None, None)
    assert [box.pane.value for box in panel.scene.boxes] == [995, 996, 997, 998, 999]


def test_values_that_do_not_fit_are_not_written_over_others_and_it_is_said():
    made = tuple(RecordedPane(n * 10, "a", 1e6, n * 10, n * 10 + 10, "ON_TIME", 0) for n in range(100))
    (panel,) = panels(StepRecording("Sum", panes=made), None, None, None)
    assert [box.label for box in panel.scene.boxes] == [None] * 100
    assert panel.remark == "0 of 100 panes' values drawn"


def test_elements_without_a_time_are_at_the_edge_and_squeeze_nothing():
    step = StepRecording("Sum", (Arrival(MIN_TIMESTAMP, 5, "a", 1), Arrival(0, 6, "a", 2), Arrival(1000, 7, "a", 3)))
    (panel,) = panels(step, None, None, None)
    first, second, third = panel.scene.dots
    assert first.x == 0 < second.x < panel.scene.width / 4 < third.x
    assert panel.remark == "1 input without timestamp, or outside the calendar, at the edge"


def test_days_are_told():
    day = 86_400_000_000
    step = StepRecording("Sum", tuple(Arrival(19_000 * day + n * day // 4, 19_001 * day + n, "a", n) for n in range(9)))
    axis = panels(step, None, None, None)[0].scene.event_time
    assert axis.title("event time") == "event time, from 2022-01-07 (UTC)"
    assert [text for _, text in axis.ticks(62) if "-" in text] == ["2022-01-08", "2022-01-09", "2022-01-10"]


@pytest.mark.parametrize("text", ["$x^", "a\nb", "\0", "\ud800", "<&>", "键" * 30])
def test_static_pictures_of_awkward_texts(tmp_path: Path, text: str) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    arrivals = (Arrival(5, 5, text, text), Arrival(6, 9, text, "x"))
    step = StepRecording(text, arrivals, panes=(RecordedPane(7, text, text, 0, 9, "LATE", 0),))
    plot.save(step, tmp_path / "it.svg")
    ElementTree.parse(tmp_path / "it.svg")
