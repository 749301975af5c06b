"""A framework that runs in a process of its own, which stays from run to run and is asked line by line."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from benchmarks.dataset import Dataset
from benchmarks.peers.environment import ROOT, Environment
from benchmarks.peers.foreign.protocol import Answer, Job
from benchmarks.peers.peer import Outcome, Peer, Run
from benchmarks.workload import GAP, WINDOW

SEARCHED = str(ROOT)
"""Where its Python looks for programs, beside its environment."""
_PATIENCE = 20
"""Seconds for a process to end by itself when its input has ended."""
_SHOWN = 3_000
"""Characters of what it printed last, in an error."""


class ForeignError(Exception):
    """A framework's process failed, or ended; nothing was measured."""


@dataclass(slots=True)
class ForeignProcess:
    """A program of `benchmarks.peers.foreign` in the environment of its framework. It starts with its first job."""

    environment: Environment
    program: str
    arguments: Sequence[str] = ()
    _process: subprocess.Popen[str] | None = None
    _printed: IO[bytes] | None = None

    def pids(self) -> list[int]:
        """Its process, while there is one."""
        return [self._process.pid] if self._process is not None else []

    def run(self, workload: str, dataset: Dataset) -> Outcome:
        """Have it run a workload. Raises `ForeignError`."""
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
            result = f"{folder}/result.arrow"
            many = sorted(map(str, dataset.many.iterdir()))
            job = Job(workload, str(dataset.one), many, dataset.plan.greatest_delay, WINDOW, GAP, result)
            answer = self._ask(job)
            if answer.error is not None:
                raise ForeignError(f"{self.program}: {workload} failed\n{answer.error}")
            with pa.OSFile(result) as file:
                return Outcome(pa.ipc.open_file(file).read_all(), answer.seconds)

    def _ask(self, job: Job) -> Answer:
        if self._process is None:
            self._process = self._start()
            atexit.register(self.close)
        questions, answers = self._process.stdin, self._process.stdout
        assert questions is not None and answers is not None
        try:
            questions.write(job.line())
            questions.flush()
        except BrokenPipeError:
            pass
        line = answers.readline()
        if not line:
            raise ForeignError(f"{self.program} has ended (status {self._process.wait()})\n{self._last_words()}")
        return Answer.read(line)

    def _start(self) -> subprocess.Popen[str]:
        self._printed = _unnamed_file()
        python = self.environment.python
        path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return subprocess.Popen(
            [python, "-m", self.program, *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PATH": path, "PYTHONPATH": SEARCHED, "VIRTUAL_ENV": str(self.environment.folder)},
        )

    def _last_words(self) -> str:
        assert self._printed is not None
        end = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, end - _SHOWN))
        return self._printed.read().decode(errors="replace")

    def close(self) -> None:
        """End it."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _unnamed_file() -> IO[bytes]:
    """Goes when it is closed, as the process does."""
    return tempfile.TemporaryFile()


def foreign_peer(
    name: str,
    environment: Environment,
    program: str,
    workloads: Sequence[str],
    events: int,
    arguments: Sequence[str] = (),
    note: str = "",
    warm_whole: bool = False,
    fewer: Mapping[str, int] | None = None,
) -> Peer:
    """A system whose program `benchmarks.peers.foreign.PROGRAM` runs these workloads."""
    process = ForeignProcess(environment, f"benchmarks.peers.foreign.{program}", arguments)
    runs = {workload: _run(process, workload) for workload in workloads}
    return Peer(
        name,
        runs,
        events,
        warm_whole,
        note,
        fewer=fewer or {},
        lacking=environment.lacking,
        processes=process.pids,
    )


def _run(process: ForeignProcess, workload: str) -> Run:
    return lambda dataset: process.run(workload, dataset)
