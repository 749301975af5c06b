"""Ours beside an earlier commit of ours, turn about: `python -m benchmarks.against COMMIT --workload W1`.

The commit is checked out into a worktree of its own below `out/`, and each of the two has one process with one Spark
session, which stay. In each round one after the other runs the same thing on the same input; results must be equal.
A ratio above 1 means that the working tree is quicker. Kinds: those of `benchmarks.throughput` (`bounded`, `streamed`,
`columns bounded`, `columns streamed`), `files` (streamed, its results written as text), and `floor` (an almost empty
epoch, for which no workload is named).
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.dataset import datasets
from benchmarks.generator import Plan
from benchmarks.measurement import Measurement
from benchmarks.report import console, print_table, rounded, save

FLOOR = "floor"
_ROOT = Path(__file__).parents[1]
_TINY = 2_000


class DifferentResultError(Exception):
    """The two put out different results; what they took means nothing."""


class Tree:
    """One process that runs a tree's code."""

    def __init__(self, name: str, folder: Path, log: Path) -> None:
        self.name = name
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(_ROOT / "benchmarks" / "turn.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder)},
            )
        self._log = log

    def run(self, **job: str) -> tuple[float, str]:
        """Seconds, and what stands for the result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended, see {self._log}")
        seconds, result = json.loads(line)
        return seconds, result

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder that goes in the end."""
    folder = _ROOT / "out" / "against" / commit
    git = ["git", "-C", str(_ROOT), "worktree"]
    subprocess.run([*git, "add", "--force", "--detach", str(folder), commit], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def main(
    commit: Annotated[str, typer.Argument(help="what to compare the working tree with")],
    workload: Annotated[list[str] | None, typer.Option(help="W1 to W9; several times for several")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="several times for several")] = None,
    runs: Annotated[int, typer.Option(min=1, help="measured rounds")] = 5,
    events: Annotated[int, typer.Option(help="events of a run")] = 1_000_000,
    steps: Annotated[int, typer.Option(help="almost empty epochs a round")] = 20,
    output: Annotated[Path, typer.Option(help="where the figures go")] = Path("out/benchmarks/against.json"),
) -> None:
    """Run both in turn and compare."""
    kinds = kind or ["bounded", "streamed"]
    jobs = [(name, each) for each in kinds if each != FLOOR for name in workload or ["W1"]]
    jobs += [("", FLOOR)] if FLOOR in kinds else []
    with ExitStack() as stack:
        before = stack.enter_context(worktree(commit))
        data = stack.enter_context(datasets(Plan(events=events), [events, _TINY]))
        logs = _ROOT / "out" / "against"
        trees = [Tree("now", _ROOT, logs / "now.log"), Tree(commit, before, logs / "before.log")]
        for tree in trees:
            stack.callback(tree.close)
        packed = {size: base64.b64encode(pickle.dumps(data[size])).decode() for size in (events, _TINY)}
        measured = [_in_turn(trees, job, packed[events], packed[_TINY], runs, steps, events) for job in jobs]
    _print(commit, jobs, measured)
    figures = {
        f"{name} {each}": [one.seconds for one in pair] for (name, each), pair in zip(jobs, measured, strict=True)
    }
    save(output, {"benchmark": "against", "commit": commit, "runs": runs, "seconds": figures})


def _in_turn(
    trees: list[Tree], job: tuple[str, str], data: str, tiny: str, runs: int, steps: int, events: int
) -> list[Measurement]:
    name, kind = job
    measured = [Measurement(tree.name, events) for tree in trees]
    for tree in trees:
        tree.run(workload=name, kind=kind, data=data, steps=str(steps))
    for number in range(runs):
        # Who goes first changes from round to round: the second one finds the machine warmer.
        turn = list(zip(trees, measured, strict=True))[:: -1 if number % 2 else 1]
        results = set()
        for tree, measurement in turn:
            tree.run(workload=name, kind=kind, data=tiny, steps="2")
            seconds, result = tree.run(workload=name, kind=kind, data=data, steps=str(steps))
            measurement.seconds.append(seconds)
            results.add(result)
        if len(results) > 1:
            raise DifferentResultError(f"{name} {kind}: {results}")
        console.print(f"{name} {kind}: {', '.join(rounded(each.seconds[-1]) for each in measured)} s")
    return measured


def _print(commit: str, jobs: list[tuple[str, str]], measured: list[list[Measurement]]) -> None:
    rows = []
    for (name, kind), (now, before) in zip(jobs, measured, strict=True):
        ratios = sorted(theirs / ours for ours, theirs in zip(now.seconds, before.seconds, strict=True))
        seconds = rounded(now.median), rounded(before.median)
        spread = f"{rounded(ratios[0])} to {rounded(ratios[-1])}"
        rows.append([f"{name} {kind}".strip(), *seconds, rounded(now.times_faster(before)), spread])
    columns = ["what", "s now", f"s {commit}", "times as quick", "rounds"]
    notes = "median of the rounds' ratios; above 1: quicker now"
    print_table(f"The working tree beside {commit}", columns, rows, notes)


if __name__ == "__main__":
    typer.run(main)
