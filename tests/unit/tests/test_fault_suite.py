"""The frame of the fault suite: what it counts, what it refuses, and that its page is what it has seen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import report
from tests.faults.figures import Figure, load
from tests.faults.rows import ROWS
from tests.faults.tally import Tally

ROOT = Path(__file__).parents[3]
SUITE = """
import pytest

pytestmark = pytest.mark.faults

@pytest.mark.parametrize("block", range(2))
def test_good(tally, block):
    run = tally(row=1)
    for seed in run.seeds(quick=4, full=50, block=block, blocks=2):
        run.plan()
        run.fire()
        run.compare([seed], [seed])
    run.recovered(block)
    run.note("most", 1)
    run.note("most at once", 3 + block)
    run.note("all", 2)

def test_does_not_fire(tally):
    tally(row=2).plan()

def test_wrong(tally):
    run = tally(row=3)
    for seed in run.seeds(quick=4, full=50):
        run.plan()
        run.fire()
        run.compare([1, 1, 2], [1, 2, 2] if seed == 3 else [2, 1, 1])
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Figure]]:
    """What a small suite in two processes printed, and its figures."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_small.py").write_text(SUITE)
    (folder / "conftest.py").write_text("from tests.conftest import *\nfrom tests.conftest import pytest_configure\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    environment = {"HEADRACE_FAULTS": "2", "HEADRACE_FAULTS_REPORT": str(folder / "figures.json"), "PATH": ""}
    ran = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout, {figure.test.split("::")[-1]: figure for figure in load(folder / "figures.json")}


def test_tallies_of_all_processes_and_parameters_are_added_up(session: tuple[str, dict[str, Figure]]) -> None:
    _, figures = session
    good = figures["test_good"]
    assert (good.row, good.depth, good.passed) == (1, "2", True)
    assert (good.planned, good.fired, good.lost, good.duplicated, good.recovery_seconds) == (8, 8, 0, 0, 1)
    assert good.notes == {"most": 2, "most at once": 4, "all": 4}


def test_a_planned_fault_that_does_not_fire_is_a_failure(session: tuple[str, dict[str, Figure]]) -> None:
    text, figures = session
    assert not figures["test_does_not_fire"].passed
    assert "1 faults were planned, 0 fired" in text


def test_a_failure_says_what_differs_and_which_seed_repeats_it(session: tuple[str, dict[str, Figure]]) -> None:
    text, figures = session
    wrong = figures["test_wrong"]
    assert (wrong.passed, wrong.lost, wrong.duplicated) == (False, 1, 1)
    assert "HEADRACE_SEED=3 repeats it" in text
    assert "missing 1 (1 × 1), too many 1 (1 × 2)" in text


def test_one_seed_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SEED", "417")
    assert list(Tally(1).seeds(quick=5, full=1000)) == [417]
    assert [list(Tally(1).seeds(5, 1000, block, 4)) for block in range(4)] == [[], [417], [], []]


def test_a_row_passes_only_with_all_its_tests_and_in_time() -> None:
    quick, full = Figure("a", 1), Figure("a", 1, "full", recovery_seconds=12.0)
    late, failed = Figure("a", 1, "full", recovery_seconds=61.0), Figure("a", 1, "full", passed=False)
    verdicts = [report.verdict(row) for row in ([], [quick, full], [full, full], [full, late], [full, failed])]
    assert verdicts == ["-", "yes, at less than full depth", "yes", "**too slow**", "**no**"]


def test_connectors_have_a_table_of_their_own() -> None:
    notes = {"faults of WriteToDelta": 1200, "faults of WriteToIceberg": 7, "lives": 3}
    figures = [
        Figure("tests/test_a.py::test_killed_again", 1, lost=2, notes=notes),
        Figure("tests/test_b.py::test_b", 2),
    ]
    assert report.connectors(figures).splitlines() == [
        "| connector | fault | fired | lost | duplicated |",
        "| --- | --- | --- | --- | --- |",
        "| WriteToDelta | killed again | 1,200 | 2 | 0 |",
        "| WriteToIceberg | killed again | 7 | 2 | 0 |",
    ]


def test_the_pages_show_the_figures_that_were_seen() -> None:
    for page, text in report.pages(load(report.FIGURES)).items():
        assert page.read_text(encoding="utf-8") == text, "make it again: python -m tests.faults.report FIGURES --write"


def test_tests_that_the_page_names_exist_and_belong_to_the_suite() -> None:
    assert sorted(ROWS) == list(range(1, 22))
    named = [figure.test for figure in load(report.FIGURES)] + [test for row in ROWS.values() for test in row.further]
    for path, _, test in (name.partition("::") for name in named):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert "mark.faults" in text, path
        function = test.rpartition("::")[2]
        assert not test or re.search(rf"\bdef {function}\b", text), f"{path}: no {test}"
