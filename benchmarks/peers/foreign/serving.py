"""A framework's side of the protocol: run what is asked for, and measure it."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TextIO

import pyarrow as pa

from benchmarks.peers.foreign.arrivals import Rows, table
from benchmarks.peers.foreign.protocol import Answer, Job


@dataclass(frozen=True, slots=True)
class Started:
    """A result of a framework that starts something anew in each run, and when that was ready."""

    result: pa.Table
    ready: float
    """By `time.perf_counter`, which is one clock for all processes of a machine on Linux."""


Run = Callable[[Job], pa.Table | Rows | Started]
"""Reads the job's files and computes the workload; columns in the workload's order, times as int64 microseconds."""


def nothing(job: Job) -> None:
    """What most frameworks need before a run."""


def serve(start: Callable[[], Mapping[str, Run]], prepare: Callable[[Job], None] = nothing) -> None:
    """Start the framework, then answer jobs from the standard input until it ends.

    What the framework prints goes to the standard error, as answers have the standard output to themselves. `prepare`
    comes before each run and is not timed: it makes of the files what the framework can read.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer_all(sys.stdin, answers, start(), prepare)


def answer_all(
    jobs: TextIO, answers: TextIO, runs: Mapping[str, Run], prepare: Callable[[Job], None] = nothing
) -> None:
    """Answer each line."""
    for line in jobs:
        answers.write(_answer(Job.read(line), runs, prepare).line())
        answers.flush()


def _answer(job: Job, runs: Mapping[str, Run], prepare: Callable[[Job], None]) -> Answer:
    try:
        prepare(job)
        ready = time.perf_counter()
        result = runs[job.workload](job)
        end = time.perf_counter()
        if isinstance(result, Started):
            result, ready = result.result, result.ready
        if not isinstance(result, pa.Table):
            result = table(job.workload, result)
        with pa.OSFile(job.result, "wb") as file, pa.ipc.new_file(file, result.schema) as writer:
            writer.write_table(result)
    except Exception:
        return Answer(error=traceback.format_exc())
    return Answer(end - ready)
