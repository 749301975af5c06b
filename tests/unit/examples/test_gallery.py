"""The gallery: every figure from a run, and what is said where a benchmark was not run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import _BUCKETS, histogram
from benchmarks.simulation import MISHAPS, WORKERS, Costs, simulate
from examples import gallery, gallery_millwheel
from examples.streaming102.scores import SCORES, clock
from headrace.recording import StepRecording
from headrace.sdk.visualization.plots.panel import panels
from headrace.sdk.visualization.plots.scene import Scene

pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")


def measured(folder: Path) -> None:
    """Files in the form of the benchmarks'."""
    histograms = {f"guarantees {n}": histogram([n / 100, n / 20, n / 8]) for n in range(1, 5)}
    stages = {f"stage {n}": [(at / 10, n * (at % 7) / 50) for at in range(100)] for n in range(1, 4)}
    told = {"bucket ends, ms": _BUCKETS, "histograms": histograms, "lags": stages}
    (folder / "figures.json").write_text(json.dumps(told))
    costs = Costs(0.05, 0.0, 0.01, 0.01, 1e-6, 1e-5, 0.0, 0.0, 0.0)
    found = {
        str(chance): [
            {"median": its.median, "high": its.high} for its in (simulate(costs, of, 50, chance) for of in (20, 2000))
        ]
        for chance in MISHAPS
    }
    (folder / "simulation.json").write_text(json.dumps({"workers": [WORKERS[0], WORKERS[-1]], "s": found}))
    sizes = {f"{share}% of all states": {"seconds": [2 - share / 100, 2 - share / 90]} for share in (0, 50, 100)}
    sizes["50% by recency alone"] = {"seconds": [1.0, 1.0]}
    (folder / "cache.json").write_text(json.dumps({"states": {"25 numbers": sizes, "2500 numbers": sizes}}))


def test_there_is_every_figure_of_the_article():
    numbers = [number for number, *_ in (*gallery.panels(), *gallery.bars())]
    assert sorted(numbers) == list(range(2, 18))


# What the article says that each figure shows, panel by panel, in the order in which the panes come; what is taken back
# has a minus.
VALUES = {
    2: [["51"]],
    4: [["14", "22", "3", "12"]],
    5: [[]],
    6: [["14", "22", "3", "12"], ["5", "22", "3", "12"]],
    # Of the second window: 7, 14, then 22; the 9 comes late, "a new, corrected pane with value of 14".
    7: [
        ["5", "7", "14", "3", "22", "3", "11", "14", "22", "3", "12"],
        ["5", "7", "14", "3", "22", "3", "3", "11", "14", "12"],
    ],
    # "The 6 gets incorporated into an updated result with value 11. The 9 is simply dropped."
    8: [["5", "7", "14", "3", "11", "22", "3", "3", "11", "12"]],
    # Table 1: 7, 7, 8 and 7, 14 −7, 22 −14.
    9: [["5", "7", "7", "3", "8", "0", "3", "8", "9", "1"]],
    10: [["5", "7", "14 −7", "3", "22 −14", "3 −3", "3", "11 −3", "14 −5", "12 −11"]],
    12: [[], []],
    14: [["12", "21", "18"], ["7", "40", "4"]],
    15: [["12", "21", "18"], ["7", "40", "4"]],
    17: [["5", "7", "10", "25 −7 −10", "3", "11 −3", "39 −5 −25", "12 −11"]],
}
FINAL = {"12:00": 14, "12:02": 22, "12:04": 3, "12:06": 12}
"""Of the four windows, whatever the order of arrival."""


def test_every_run_can_be_drawn():
    shown = {}
    for number, _, _, run in gallery.panels():
        titles, steps = zip(*run(), strict=True)
        shown[number] = [[" ".join([box.text, *box.retracted_texts]) for box in scene_of(step).boxes] for step in steps]
        scenes = [panel.scene for panel in panels(steps, None, None, titles)]
        assert all(len(scene.dots) in (10, 11) for scene in scenes)
        assert all(scene.boxes for scene in scenes) != (number in (5, 12)), number
        # Whatever is left without a value would be a riddle.
        assert all(box.label is not None for scene in scenes for box in scene.boxes), number
        if number == 13:
            for step in steps:
                assert {clock(pane.start // 10**6)[:5]: pane.value for pane in step.panes} == FINAL
    assert {number: shown[number] for number in VALUES} == VALUES
    assert shown[11] == [*shown[9], shown[7][1], *shown[10]]


def test_figure_3_has_windows_of_three_kinds_for_three_keys():
    found = dict((number, rows) for number, _, _, rows in gallery.bars())
    fixed, sliding, sessions = (
        {key: sorted(spans(row.step, key)) for key in ("red", "blue", "green")} for row in found[3]
    )
    assert {start[:5]: value for start, _, value in fixed["red"]} == FINAL
    # Aligned: windows of one key are among those of all.
    lengths = {key: {length for _, length, _ in its} for kind in (fixed, sliding) for key, its in kind.items()}
    assert lengths == {key: {120} for key in ("red", "blue", "green")}
    starts = [{key: {start for start, *_ in its} for key, its in kind.items()} for kind in (fixed, sessions)]
    assert starts[0]["green"] < starts[0]["red"] and starts[0]["blue"] < starts[0]["red"]
    assert not starts[1]["green"] & starts[1]["red"] and not starts[1]["blue"] & starts[1]["red"]
    assert [value for *_, value in sessions["red"]] == [39, 12]
    # Figure 16: each by itself, then merged.
    alone, merged = (sorted(spans(row.step, "red")) for row in found[16])
    assert sorted(value for *_, value in alone) == sorted(score.points for score in SCORES)
    assert {length for _, length, _ in alone} == {60}
    assert [value for *_, value in merged] == [39, 12]


def spans(step: StepRecording, key: str) -> list[tuple[str, int, object]]:
    """Start, seconds and value of each window of a key."""
    panes = (pane for pane in step.panes if pane.key == key)
    return [(clock(pane.start // 10**6), (pane.end - pane.start) // 10**6, pane.value) for pane in panes]


def scene_of(step: StepRecording) -> Scene:
    return panels(step, None, None, None)[0].scene


def test_the_gallery(tmp_path, capsys):
    only = (3, 17)
    (tmp_path / "measured").mkdir()
    measured(tmp_path / "measured")
    gallery.main(
        ["--output", str(tmp_path / "out"), "--measured", str(tmp_path / "measured"), "--only", *map(str, only)]
    )
    told = capsys.readouterr().out
    for number in only:
        assert f"Streaming 102, figure {number}: " in told
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    links = set(re.findall(r'(?:src|href)="([^"]+)"', index))
    assert {f"streaming102-{number:02}.svg" for number in only} <= links
    assert {f"millwheel-{number}.svg" for number in range(13, 17)} <= links
    assert links == {path.name for path in (tmp_path / "out").iterdir()} - {"index.html"}
    sessions = "".join(ElementTree.parse(tmp_path / "out" / "streaming102-17.svg").getroot().itertext())
    assert all(value in sessions for value in ("25", "−10", "39", "−25", "12"))
    workers = "".join(ElementTree.parse(tmp_path / "out" / "millwheel-14.svg").getroot().itertext())
    assert "2,000" in workers and "99th percentile, mishaps 0.0001" in workers


def test_what_was_not_measured(tmp_path):
    told = [its.remark for its in gallery.paper(tmp_path, tmp_path)]
    assert [remark.rpartition("python -m ")[2] for remark in told] == [
        "benchmarks.figures --runs 1",
        "benchmarks.simulation",
        "benchmarks.figures --runs 1",
        "benchmarks.cache --runs 1",
    ]
    assert f"{tmp_path / 'cache.json'} is missing; make it with: " in told[-1]
    assert not list(tmp_path.iterdir())
    assert [its.number for its in gallery_millwheel.FIGURES] == [13, 14, 15, 16]


def test_only_what_was_not_measured_is_measured(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append((command[1:], check)))
    (tmp_path / "figures.json").write_text("{}")
    gallery_millwheel.measure(tmp_path)
    assert ran == [
        (["-m", "benchmarks.simulation", "--output", str(tmp_path / "simulation.json")], True),
        (["-m", "benchmarks.cache", "--runs", "1", "--output", str(tmp_path / "cache.json")], True),
    ]
