"""Beam's example programs write the same with HeadraceRunner, in memory and on Spark, as with Beam's direct runner."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.beam.examples.inputs import write_inputs
from tests.beam.examples.programs import ALL_ON, Output, programs

ON = os.environ.get(ALL_ON, "")
"""The runner of all programs. Without one the quick programs run in memory."""
CASES = [(program.module, ON or "local") for program in programs() if ON or program.quick]
Run = Callable[[str, str], Output]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program, by its module, with a runner; once, even if several tests want to know."""
    inputs: Path = tmp_path_factory.mktemp("inputs")
    write_inputs(inputs)
    by_module = {program.module: program for program in programs()}

    @cache
    def run_once(module: str, runner: str) -> Output:
        return by_module[module].run(runner, inputs, tmp_path_factory.mktemp(runner))

    return run_once


@pytest.mark.slow
@pytest.mark.parametrize(("module", "runner"), CASES)
def test_the_output_is_that_of_beams_runner(module: str, runner: str, run: Run) -> None:
    expected = run(module, "beam")
    # The parts of no line are missing, so that something is compared.
    assert expected and all(lines and any(lines[-1]) for lines in expected.values())
    assert run(module, runner) == expected
