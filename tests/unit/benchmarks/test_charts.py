"""The pictures and tables of the page on performance are those of the published figures, and can be read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from benchmarks.charts import (
    CHARTS,
    LEFT,
    PAGE,
    PICTURES,
    PUBLISHED,
    RIGHT,
    THEMES,
    WIDTH,
    Chart,
    number_text,
    picture,
    published,
    runs_table,
    table,
    taken_over,
    with_tables,
)
from tests.pages import ROOT

SVG = "{http://www.w3.org/2000/svg}"
CHARACTER = 7.0
"""Pixels of a character of 12 pixels, on the average; a little more than in any font of the pictures."""
RUNS, FIGURES = published()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_the_pictures_of_the_page_are_those_of_the_figures(chart: Chart, theme: str) -> None:
    path = PICTURES / f"performance-{chart.name}-{theme}.svg"
    remedy = "python -m benchmarks.charts draws them anew"
    assert path.read_text(encoding="utf-8") == picture(chart, FIGURES, THEMES[theme]), remedy
    shown = f"pictures/{path.name}#gh-{theme}-mode-only"
    assert shown in PAGE.read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_those_of_the_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for each in (table(FIGURES), runs_table(RUNS)):
        assert f"\n{each}\n\n" in page, "python -m benchmarks.charts writes them anew"
    assert with_tables(page, [table(FIGURES), runs_table(RUNS)]) == page
    with pytest.raises(ValueError, match="the page has no table with the line"):
        with_tables("A page.\n", [table(FIGURES)])


def test_each_figure_is_of_a_run_and_is_in_the_log() -> None:
    log = (ROOT / "benchmarks" / "LOG.md").read_text(encoding="utf-8")
    assert {figure.run for figure in FIGURES} == set(RUNS)
    for figure in FIGURES:
        assert figure.bounded is not None or figure.streamed is not None, figure
        for part in figure.source.split("; "):
            assert part.partition(",")[0] in log, figure
    for run in RUNS.values():
        module = run["command"].split()[0]
        assert (ROOT / "benchmarks" / f"{module}.py").is_file() or (ROOT / "benchmarks" / module).is_dir()


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_nothing_is_cut_off_and_bars_are_as_long_as_their_numbers_say(chart: Chart) -> None:
    drawn = fromstring(picture(chart, FIGURES, THEMES["light"]))
    bars = [each for each in drawn.iter(f"{SVG}rect") if each.get("x")]
    texts = list(drawn.iter(f"{SVG}text"))
    names = [each for each in texts if each.get("text-anchor") == "end" and float(each.get("x", 0)) < LEFT]
    numbers = [each for each in texts if float(each.get("x", 0)) > LEFT and each.get("text-anchor") is None]
    assert len(bars) == len(names) == len(numbers) > 0
    for bar, name, number in zip(bars, names, numbers, strict=True):
        assert CHARACTER * len(name.text or "") < LEFT, name.text
        assert float(bar.get("x", 0)) + float(bar.get("width", 0)) <= float(number.get("x", 0))
        assert float(number.get("x", 0)) + CHARACTER * len(number.text or "") < WIDTH
    lengths = [float((number.text or "").replace(",", "")) for number in numbers]
    shown = [float(bar.get("width", 0)) for bar in bars]
    # The longest of all has the whole width, and within the panel of the first bar lengths are in proportion.
    assert max(shown) == pytest.approx(WIDTH - LEFT - RIGHT)
    assert shown[1] / shown[0] == pytest.approx(lengths[1] / lengths[0], rel=0.01)


def test_what_has_no_number_has_no_bar() -> None:
    chart = CHARTS[0]
    with pytest.raises(ValueError, match="is no number"):
        picture(chart, [replace(FIGURES[0], bounded="1 to 2")], THEMES["light"])
    with pytest.raises(ValueError, match="no published figure belongs to"):
        picture(chart, [], THEMES["light"])


def test_newer_figures_are_taken_from_what_benchmarks_save(tmp_path: Path) -> None:
    workloads = {"W1": {"Headrace columns bounded": {"rate": 2_345_678.9}}}
    (tmp_path / "throughput.json").write_text(json.dumps({"workloads": workloads}), encoding="utf-8")
    ratios = {"sum, streamed, columns": {"float64": 1.2345}}
    (tmp_path / "value_types.json").write_text(json.dumps({"ratios": ratios}), encoding="utf-8")
    found = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    assert taken_over(found, tmp_path) == [
        "sums in minutes, Headrace, by columns, bounded: 2346",
        "sum of float64, Headrace, by columns, streamed: 1.23",
    ]
    assert found["figures"][0]["bounded"] == 2346
    assert number_text(found["figures"][0]["bounded"]) == "2,346"
