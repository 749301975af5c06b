"""The gallery: every figure from a run, and what is said where a benchmark was not run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.figures import _BUCKETS, histogram
from benchmarks.simulation import MISHAPS, WORKERS, Costs, simulate
from examples import gallery, gallery_millwheel
from headrace.sdk.pictures.panel import panels

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


def test_every_run_can_be_drawn():
    for number, _, _, run in gallery.panels():
        titles, steps = zip(*run(), strict=True)
        scenes = [panel.scene for panel in panels(steps, None, None, titles)]
        assert all(len(scene.dots) in (10, 11) for scene in scenes)
        assert all(scene.boxes for scene in scenes) != (number in (5, 12)), number
        # Whatever is left without a value would be a riddle.
        assert all(box.label is not None for scene in scenes for box in scene.boxes), number


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
        "benchmarks.figures",
        "benchmarks.simulation",
        "benchmarks.figures",
        "benchmarks.cache",
    ]
    assert f"{tmp_path / 'cache.json'} is missing; make it with: " in told[-1]
    assert not list(tmp_path.iterdir())
    assert [its.number for its in gallery_millwheel.FIGURES] == [13, 14, 15, 16]
