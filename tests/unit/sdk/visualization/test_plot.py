"""Pictures of recorded runs: that what is drawn is where it was, in static figures and in the page."""

from __future__ import annotations

import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples.streaming102 import (
    accumulating_and_retracting,
    early_and_late,
    fixed_windows_streaming,
    sessions,
)
from examples.streaming102.scores import HEURISTIC, PERFECT, SECOND, at
from headrace import plot
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
from headrace.sdk.recording.state_snapshot import OpenWindow, StateSnapshot, WaitingTimer
from headrace.sdk.visualization.plots.drawing import drawing
from headrace.sdk.visualization.plots.labels import GAP, Rectangle, text_rectangle
from headrace.sdk.visualization.plots.panel import panels
from headrace.sdk.visualization.plots.scene import Scene, Spans, scene
from headrace.sdk.visualization.plots.style import VALUE
from tests.recorded import record

MICROS = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"


recorded = cache(record)


def drawn(step: StepRecording) -> Scene:
    return panels(step, None, None, None)[0].scene


def pane(value: object, start: str, came: str, timing: str = "ON_TIME", taken_back: bool = False) -> RecordedPane:
    window = at(start) * MICROS, (at(start) + 120) * MICROS
    return RecordedPane(at(came) * MICROS, "red", value, *window, timing, 0, taken_back)


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (sessions, HEURISTIC),
        (accumulating_and_retracting, HEURISTIC),
        (early_and_late, PERFECT),
        (early_and_late, SECOND),
    ],
)
def test_a_box_is_over_its_window_and_ends_when_the_pane_came(module, given):
    step = recorded(module.build, given)
    picture = drawn(step)
    results = [its for its in step.panes if not its.is_retraction]
    assert [box.pane for box in picture.boxes] == results
    for box in picture.boxes:
        across, up = picture.event_time, picture.processing_time
        assert (box.room.left, box.room.right) == (across.position(box.pane.start), across.position(box.pane.end))
        assert box.room.top == up.position(box.pane.processing_time)
        assert box.text == str(box.pane.value)
        x, y = box.label
        assert box.room.left <= x <= box.room.right and box.room.top <= y <= box.room.bottom
    taken_back = [its for box in picture.boxes for its in box.takes_back]
    assert sorted(map(repr, taken_back)) == sorted(repr(its) for its in step.panes if its.is_retraction)


@pytest.mark.parametrize("module", [sessions, accumulating_and_retracting, fixed_windows_streaming, early_and_late])
def test_texts_cover_neither_each_other_nor_the_inputs(module):
    picture = drawn(recorded(module.build, HEURISTIC))
    texts = [
        text_rectangle(*box.label, GAP.join(filter(None, [box.text, *box.retracted_texts])), VALUE)
        for box in picture.boxes
    ]
    dots = [
        Rectangle(its.x - its.radius, its.y - its.radius, its.x + its.radius, its.y + its.radius)
        for its in picture.dots
    ]
    assert not [
        (one, other) for n, one in enumerate(texts) for other in [*texts[n + 1 :], *dots] if one.overlap(other) > 12
    ]


def test_boxes_of_one_window_stand_on_each_other():
    step = recorded(early_and_late.build, PERFECT)
    second = [box for box in drawn(step).boxes if box.pane.start == at("12:02") * MICROS]
    assert [box.text for box in second] == ["7", "14", "22", "22"]
    assert [box.room.top for box in second[1:-1]] == [box.room.bottom for box in second[2:]]


def test_a_session_grows_out_of_those_that_it_joins():
    picture = drawn(recorded(sessions.build, HEURISTIC))
    boxes = {box.text: box for box in picture.boxes}
    assert boxes["25"].retracted_texts == ["−7", "−10"]
    assert boxes["25"].room.bottom == boxes["10"].room.top
    assert boxes["39"].retracted_texts == ["−5", "−25"]


def test_the_ideal_watermark_is_the_perfect_one():
    perfect, heuristic = (drawn(recorded(fixed_windows_streaming.build, given)) for given in (PERFECT, HEURISTIC))
    assert perfect.ideal == heuristic.ideal
    moves = {point for point in perfect.actual if 0 < point[0] < perfect.width}
    assert moves <= set(perfect.ideal)
    assert not {point for point in heuristic.actual if 0 < point[0] < heuristic.width} <= set(heuristic.ideal)


def test_a_retraction_without_a_new_pane_is_shown_by_itself():
    step = StepRecording(
        "Sum", panes=(pane(5, "12:00", "12:03"), pane(5, "12:00", "12:04", taken_back=True), pane(1, "12:02", "12:05"))
    )
    alone = [box for box in drawn(step).boxes if not box.text]
    assert [(box.retracted_texts, box.pane.processing_time) for box in alone] == [(["−5"], at("12:04") * MICROS)]


def test_a_key_of_several():
    arrivals = (Arrival(1, 5 * MICROS, "a", 1), Arrival(2, 6 * MICROS, "b", 2), Arrival(3, 7 * MICROS, "b", 3))
    step = StepRecording("Sum", arrivals)
    (panel,) = panels(step, None, None, None)
    assert panel.remark == "key b of 2 keys"
    assert [dot.text for dot in panel.scene.dots] == ["2", "3"]
    assert [dot.text for dot in panels(step, None, "a", None)[0].scene.dots] == ["1"]
    with pytest.raises(RecordingError, match="step 'Sum' has seen no key 'c'; it has seen 'b', 'a'"):
        panels(step, None, "c", None)


def test_many_arrivals_are_dots_without_values():
    step = StepRecording("Sum", tuple(Arrival(n, n * MICROS, "a", n) for n in range(500)))
    assert {dot.text for dot in drawn(step).dots} == {""}


def test_an_instant_is_drawn_too():
    step = StepRecording("Sum", (Arrival(5, 5, "a", 1),), (WatermarkStep(5, 5),))
    assert scene(step, Spans.of([step]), 100, 100).dots[0].text == "1"


def test_the_ideal_watermark_is_not_ahead_of_the_clock():
    step = StepRecording("Sum", tuple(Arrival(n * MICROS, n * MICROS, "a", n) for n in (10, 20, 40)))
    picture = drawn(step)
    across, up = picture.event_time, picture.processing_time
    moves = [(across.position(n * MICROS), up.position(n * MICROS)) for n in (10, 20, 40)]
    assert set(moves) <= set(picture.ideal)


def test_the_ideal_watermark_goes_on_where_the_clock_stands():
    step = StepRecording("Sum", (Arrival(45 * MICROS, 0, "a", 5), Arrival(150 * MICROS, 0, "a", 7)))
    picture = drawn(step)
    assert [x for x, _ in picture.ideal] == sorted(x for x, _ in picture.ideal)


def texts_at(picture) -> dict[str, list[tuple[float, float]]]:
    (axes,) = picture.axes
    places: dict[str, list[tuple[float, float]]] = {}
    for text in axes.texts:
        places.setdefault(text.get_text(), []).append(text.get_position())
    return places


class TestStatic:
    """Drawn by matplotlib."""

    @pytest.fixture(autouse=True)
    def matplotlib(self) -> None:
        pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")

    def test_each_value_is_in_its_box(self):
        step = recorded(sessions.build, HEURISTIC)
        picture, places = drawn(step), texts_at(plot.figure(step))
        for box in picture.boxes:
            assert any(
                box.room.left - 1 <= x <= box.room.right + 1 and box.room.top <= y <= box.room.bottom
                for x, y in places[box.text]
            ), box.text
            for value in box.retracted_texts:
                assert places[value]
        patches = [its for its in plot.figure(step).axes[0].patches if type(its).__name__ == "Rectangle"]
        assert {(its.get_x(), its.get_y(), its.get_width()) for its in patches} == {
            tuple(round(its, 1) for its in (box.room.left, box.room.top, box.room.right - box.room.left))
            for box in picture.boxes
        }

    def test_all_elements_become_artists(self):
        step = with_all_marks()
        tags = Counter(part.tag for whole in drawing(panels(step, None, None, None)[0]) for part in whole.iter())
        assert tags.keys() == {"g", "title", "text", "tspan", "rect", "circle", "polyline", "polygon"}
        figure = plot.figure(step)
        (axes,) = figure.axes
        kinds = Counter(type(artist).__name__ for artist in axes.get_children())
        names = {"rect": "Rectangle", "circle": "Circle", "polyline": "Line2D", "polygon": "Polygon"}
        background = {"rect": 1}
        assert {tag: tags[tag] + background.get(tag, 0) for tag in names} == {
            tag: kinds[name] for tag, name in names.items()
        }
        # The words of values, each with its outline, instead of the texts around them.
        assert len(axes.texts) == tags["text"] + 2 * tags["tspan"] - len([*drawn(step).boxes])
        assert [text.get_text() for text in figure.legends[0].get_texts()] == LEGEND

    @pytest.mark.parametrize("kind", ["png", "pdf"])
    def test_files(self, tmp_path: Path, kind: str) -> None:
        step = recorded(sessions.build, HEURISTIC)
        for name in ("one", "two"):
            plot.save(step, tmp_path / f"{name}.{kind}", title="Sessions")
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()

    def test_several_side_by_side(self):
        picture = plot.figure(
            [recorded(early_and_late.build, given) for given in (PERFECT, HEURISTIC)], title=["perfect", "heuristic"]
        )
        assert [axes.texts[0].get_text() for axes in picture.axes] == ["perfect", "heuristic"]
        assert len({axes.get_xlim() for axes in picture.axes}) == 1


LEGEND = [
    *("input", "actual watermark", "ideal watermark", "late pane", "pane", "taken back"),
    *("result", "timer", "wall-time timer"),
]


def with_all_marks() -> StepRecording:
    return StepRecording(
        "Sum",
        tuple(Arrival(at(f"12:0{n}") * MICROS, at(f"12:0{n + 1}") * MICROS, "red", n) for n in range(4)),
        tuple(WatermarkStep(at(f"12:0{n}") * MICROS, at(f"12:0{n + 2}") * MICROS) for n in range(4)),
        (
            pane(7, "12:00", "12:03", "UNKNOWN"),
            pane(9, "12:02", "12:05", "LATE"),
            pane(7, "12:00", "12:06", taken_back=True),
        ),
        productions=(Production(at("12:02") * MICROS, at("12:04") * MICROS, "red", "total"),),
        timers=tuple(FiredTimer(at("12:02") * MICROS, at("12:04") * MICROS, "red", "", wall) for wall in (False, True)),
        restarts=(at("12:03") * MICROS,),
    )


class TestFile:
    """A file of SVG."""

    def test_equal_recordings_give_equal_files_with_all_texts(self, tmp_path):
        step = recorded(sessions.build, HEURISTIC)
        for name in ("one", "two"):
            plot.save(step, tmp_path / f"{name}.svg", title="Sessions")
        assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
        written = "".join(ElementTree.parse(tmp_path / "one.svg").getroot().itertext())
        for text in ("Sessions", "event time", "processing time", "25", "−10", "39", "late pane", "12:09:00"):
            assert text in written

    def test_it_has_panels_beside_each_other_and_a_legend_within_it(self, tmp_path):
        plot.save([with_all_marks()] * 2, tmp_path / "two.svg")
        root = ElementTree.parse(tmp_path / "two.svg").getroot()
        first, second = root.findall(f"{SVG}svg")
        assert float(second.get("x")) == float(first.get("width")) == float(root.get("width")) / 2
        entries = [its for its in root.findall(f"{SVG}g") if its.get("transform")]
        assert [its.find(f"{SVG}text[last()]").text for its in entries] == LEGEND
        for entry in entries:
            x, y = map(float, re.findall(r"[\d.]+", entry.get("transform")))
            assert 0 <= x <= float(root.get("width")) - 140
            assert float(first.get("height")) <= y <= float(root.get("height")) - 18

    def test_it_refers_to_nothing_that_it_does_not_have(self, tmp_path):
        plot.save(with_all_marks(), tmp_path / "it.svg")
        written = (tmp_path / "it.svg").read_text(encoding="utf-8")
        ids = set(re.findall(r'\bid="([^"]+)"', written))
        assert {"crossed", "past0"} <= set(re.findall(r"url\(#(.*?)\)", written)) <= ids


class TestPage:
    """The page that plays."""

    def test_it_needs_nothing_else(self, tmp_path):
        plot.html(recorded(sessions.build, HEURISTIC), tmp_path / "page.html")
        written = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert not re.search(r"https?:|\b(?:src|href)=|@import|url\((?!#)|fetch\(|\bimport\b", written)

    def test_values_and_places_are_those_of_the_scene(self, tmp_path):
        step = recorded(sessions.build, HEURISTIC)
        plot.html(step, tmp_path / "page.html")
        written = (tmp_path / "page.html").read_text(encoding="utf-8")
        root = ElementTree.fromstring(re.search(r"<svg viewBox.*?</svg>", written, re.DOTALL)[0])
        values = [its for its in root.iter("text") if its.get("class") == "value"]
        boxes = drawn(step).boxes
        assert ["".join(its.itertext()).split() for its in values] == [
            [box.text, *box.retracted_texts] for box in boxes
        ]
        assert [float(its.get("x")) for its in values] == [round(box.label[0], 1) for box in boxes]
        tops = [its.find("rect").get("y") for its in root.iter("g") if its.get("class") == "pane"]
        assert [float(top) for top in tops] == [round(box.room.top, 1) for box in boxes]

    def test_text_of_the_user_is_text(self, tmp_path):
        bad = "</script><b>$&"
        step = StepRecording(
            bad,
            (Arrival(5, 5, bad, bad),),
            panes=(RecordedPane(6, bad, bad, 0, 9, "LATE", 0),),
            productions=(Production(9, 6, bad, bad),),
            timers=(FiredTimer(2, 6, bad, bad),),
        )
        plot.html(step, tmp_path / "page.html")
        written = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert written.count("</script>") == 1 and "<b>" not in written.replace("<b style", "")
        standing = StateSnapshot(5, (OpenWindow(bad, 0, 1_000_000),), (WaitingTimer(bad, 9, bad, False),))
        plot.html(StepRecording(bad, standing=standing), tmp_path / "page.html")
        written = (tmp_path / "page.html").read_text(encoding="utf-8")
        assert written.count("</script>") == 1 and "<b>" not in written


class TestWrongInput:
    """What is said."""

    def test_nothing_to_draw(self, tmp_path):
        for empty in (StepRecording("Sum"), Recording((StepRecording("Sum", watermarks=(WatermarkStep(1, 1),)),))):
            with pytest.raises(RecordingError, match="no arrivals and no panes, so there is nothing to draw"):
                plot.html(empty, tmp_path / "page.html")
        with pytest.raises(RecordingError, match="there is nothing to draw: no step was recorded"):
            plot.html(Recording(), tmp_path / "page.html")

    def test_an_unknown_step(self, tmp_path):
        recording = Recording((StepRecording("Sum", (Arrival(5, 5, "a", 1),)),))
        with pytest.raises(RecordingError, match="the recording has no step named 'Mean'; it has 'Sum'"):
            plot.html(recording, tmp_path / "page.html", step="Mean")

    def test_titles(self, tmp_path):
        step = StepRecording("Sum", (Arrival(5, 5, "a", 1),))
        with pytest.raises(ValueError, match="there are 2 titles for 1 recordings; give one for each"):
            plot.html(step, tmp_path / "page.html", title=["one", "two"])
        with pytest.raises(ValueError, match="there is no recording to draw"):
            plot.html([], tmp_path / "page.html")

    def test_without_matplotlib(self, tmp_path, monkeypatch):
        step = recorded(sessions.build, HEURISTIC)
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delitem(sys.modules, "headrace.sdk.visualization.plots.figure", raising=False)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        for draw in (plot.figure, lambda it: plot.save(it, tmp_path / "picture.png")):
            with pytest.raises(ImportError, match=re.escape("pip install 'headrace[plot]'")):
                draw(step)
        plot.save(step, tmp_path / "picture.svg")
        plot.html(step, tmp_path / "page.html")
