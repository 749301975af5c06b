"""The fault suite runs with tasks that stay and without: one variable decides, also in programs that tests start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import tests
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.sdk.pipeline.runner_choice import run_options
print(run_options(PipelineOptions([])).task_idle_seconds, end=" ")
print(RunOptions().task_idle_seconds, RunOptions("place", task_idle_seconds=3).task_idle_seconds)
"""


@pytest.mark.parametrize(("given", "expected"), [("0", "0.0 0.0 3"), ("", "60.0 60.0 3")])
def test_one_variable_says_whether_tasks_stay(given: str, expected: str) -> None:
    environment = {**os.environ, "HEADRACE_TASK_IDLE_SECONDS": given}
    program = [sys.executable, "-c", _PROGRAM]
    assert subprocess.run(program, env=environment, capture_output=True, text=True).stdout.strip() == expected
