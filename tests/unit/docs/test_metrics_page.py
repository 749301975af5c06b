"""docs/metrics.md has every series and counter of a run; the alert rules and the dashboard ask for no other series."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headrace.lowlevel.metric import ENGINE, TypedMetricName
from headrace.lowlevel.metric_cells import (
    BoundedTrieCell,
    Bucket,
    Cell,
    CounterCell,
    DistributionCell,
    GaugeCell,
    HistogramCell,
    StringSetCell,
)
from headrace.runners.engine.activity import Activity
from headrace.runners.engine.options import EpochProgress, LatencyHistogram
from headrace.runners.reporting.figures import StepFigures
from headrace.runners.reporting.prometheus import PrometheusReporter
from tests.pages import DOCS, ROOT

PAGE = DOCS / "metrics.md"
RULES, DASHBOARD = DOCS / "howto" / "headrace-alerts.yml", DOCS / "howto" / "headrace-grafana.json"
_SERIES = re.compile(r"\bheadrace_\w+")


def served() -> frozenset[str]:
    """The names of all series that a run can have."""
    cells: dict[TypedMetricName, Cell] = {
        TypedMetricName("counter", "mine", "made"): CounterCell(1),
        TypedMetricName("gauge", "mine", "size"): GaugeCell(1, 0),
        TypedMetricName("distribution", "mine", "sizes"): DistributionCell(1, 1, 1, 1),
        TypedMetricName("string_set", "mine", "names"): StringSetCell({"a"}, 1),
        TypedMetricName("bounded_trie", "mine", "paths"): BoundedTrieCell({"a": {}}),
        TypedMetricName("histogram", "mine", "widths"): HistogramCell({Bucket(0, 5, 2, 1): 3}),
    }
    for name in set(StepFigures.__slots__) - {"step"}:
        cells[TypedMetricName("counter", ENGINE, name)] = CounterCell(1)
    reporter = PrometheusReporter()
    reporter.begin(Activity(1))
    reporter(
        EpochProgress(
            *(1, 1, 1, 0, 0, 0, 0, 0, 0.1, {"Sum": cells}, {"tasks": 0.1}, {"Out": 0.1}, {"Sum": (b"", 1.0)}, 1.0),
            latencies={"In": LatencyHistogram().plus(0.1, 2)},
        )
    )
    return frozenset(sample.name for family in reporter.collect() for sample in family.samples)


def counted() -> Iterator[str]:
    """Counters that the source code counts, by the forms in which it does."""
    for package in ("lowlevel", "sdk", "runners/engine"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            yield from re.findall(r'(?:\.count\(|\bcounters\[)"(\w+)"', text)
            for name in re.findall(r"(?:(?<!\btext)\.count\(|\.add_counters\(\w+, \{|\bcounters\[)([A-Z_]+)\b", text):
                yield value_of(name)


def value_of(name: str) -> str:
    """What a constant of the source code is."""
    for package in ("lowlevel", "sdk"):
        for path in (ROOT / package).rglob("*.py"):
            if found := re.search(rf'^{name}(?:: Final)? = "(\w+)"', path.read_text(encoding="utf-8"), re.M):
                return found[1]
    raise AssertionError(f"nothing says what {name} is")


def listed(page: str, section: str) -> set[str]:
    """The first column of the table below a heading."""
    part = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert part is not None, f"no section {section}"
    return set(re.findall(r"^\| `(\w+)", part[1], re.M))


def test_the_page_has_every_series_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert listed(page, "Prometheus") == served()


def test_the_page_has_every_counter() -> None:
    found = set(counted())
    assert {"late", "dropped_late", "dead_letters", "outside_windows"} <= found
    page = PAGE.read_text(encoding="utf-8")
    renamed = {"records", "rows"}
    assert (found - renamed) | set(StepFigures.__slots__) - {"step"} == listed(page, "Metrics of the engine")


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_what_is_asked_for_is_served(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    json.loads(text) if file is DASHBOARD else yaml.safe_load(text)
    asked = set(_SERIES.findall(text))
    assert asked
    assert asked <= served(), "rename it here as well"


def test_the_alerts_on_the_page_are_those_of_the_file() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    page = (DOCS / "howto" / "alerts.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", page, re.M) == [rule["alert"] for rule in rules]
