"""How the benchmark talks to frameworks in processes of their own, and what it does without them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.dataset import Dataset, datasets
from benchmarks.generator import Plan
from benchmarks.peak import PeakMemory
from benchmarks.peers import process
from benchmarks.peers.environment import ENVIRONMENTS, Environment
from benchmarks.peers.foreign.protocol import Answer, Job
from benchmarks.peers.foreign.serving import answer_all
from benchmarks.peers.frameworks import FRAMEWORKS
from benchmarks.peers.peer import Outcome, Peer, able
from benchmarks.peers.process import ForeignError, ForeignProcess, foreign_peer

PROGRAM = """
import os, sys
import pyarrow as pa
from benchmarks.peers.foreign.serving import serve

def run(job):
    print("talk", flush=True)
    if job.workload == "W2":
        raise ValueError("no sessions here")
    if job.workload == "W3":
        os._exit(7)
    return pa.table({"key": [os.path.basename(job.many[0])], "start": [job.delay], "sum": [os.getpid()]})

serve(lambda: dict.fromkeys(("W1", "W2", "W3"), run))
"""


class Own(Environment):
    """Our own environment, as if it were a framework's."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


@pytest.fixture
def dataset() -> Iterator[Dataset]:
    with datasets(Plan(events=10), [10]) as data:
        yield data[10]


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForeignProcess]:
    (tmp_path / "a_framework.py").write_text(PROGRAM)
    monkeypatch.setattr(process, "SEARCHED", f"{process.SEARCHED}:{tmp_path}")
    made = ForeignProcess(Own("own"), "a_framework")
    yield made
    made.close()


def job(tmp_path: Path, workload: str) -> Job:
    return Job(workload, "one", ["many"], 3, 2, 1, str(tmp_path / "result"))


def test_a_result_comes_with_its_own_seconds(framework: ForeignProcess, dataset: Dataset) -> None:
    first, second = framework.run("W1", dataset), framework.run("W1", dataset)
    assert first.result.to_pylist() == [
        {"key": "part-000.parquet", "start": dataset.plan.greatest_delay, "sum": framework.pids()[0]}
    ]
    assert first.result.equals(second.result), "the process did not stay"
    assert 0 < first.seconds < 60


def test_an_error_is_told_and_the_process_stays(framework: ForeignProcess, dataset: Dataset) -> None:
    with pytest.raises(ForeignError, match=r"W2 failed[\s\S]*no sessions here"):
        framework.run("W2", dataset)
    assert framework.run("W1", dataset).result.num_rows == 1


def test_an_end_is_told_with_the_last_words(framework: ForeignProcess, dataset: Dataset) -> None:
    with pytest.raises(ForeignError, match=r"status 7[\s\S]*talk"):
        framework.run("W3", dataset)


def test_preparing_is_not_timed(tmp_path: Path) -> None:
    prepared: list[str] = []

    def run(asked: Job) -> pa.Table:
        assert prepared == [asked.workload]
        return pa.table({"key": ["a"]})

    answers = io.StringIO()
    answer_all(
        io.StringIO(job(tmp_path, "W1").line()), answers, {"W1": run}, lambda asked: prepared.append(asked.workload)
    )
    assert Answer.read(answers.getvalue()).error is None
    assert (tmp_path / "result").is_file()


def test_what_is_not_installed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_PEERS", str(tmp_path))
    here = Peer("here", {}, events=1)
    assert able([here, *FRAMEWORKS]) == [here]
    said = capsys.readouterr().out
    for peer in FRAMEWORKS:
        assert f"left out: {peer.name}, not installed: python -m benchmarks.peers.install" in said.replace("\n", " ")


def test_an_environment_is_complete_for_its_pins_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PEERS", str(tmp_path))
    for environment in ENVIRONMENTS.values():
        assert all("==" in line for line in environment.requirements.read_text().splitlines())
        assert not environment.complete()
        environment.folder.mkdir()
        environment.finish()
        assert environment.lacking() is None
        (environment.folder / "installed.txt").write_text("other==1\n")
        assert not environment.complete()


def test_peak_memory_is_that_of_the_process(framework: ForeignProcess, dataset: Dataset) -> None:
    outcome: Outcome = framework.run("W1", dataset)
    with PeakMemory(framework.pids()) as peak:
        assert framework.run("W1", dataset).result.equals(outcome.result)
    assert 10 < peak.megabytes()["Python"] < 10_000
    with PeakMemory([]) as nothing:
        pass
    assert nothing.megabytes() == {}


def test_a_peer_is_made_for_each_workload_of_its_own() -> None:
    peer = foreign_peer("some", Environment("none"), "with_nothing", ("W1", "W3"), events=5)
    assert list(peer.runs) == ["W1", "W3"]
    assert peer.processes() == []
    assert peer.lacking() is not None
