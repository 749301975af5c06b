"""Elements of Beam's `Create` between two runs of a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.runners.beam import HeadraceRunner

PROGRAM = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from headrace.runners.beam import HeadraceRunner

def fail(each):
    if sys.argv[1] == "fail" and each[1] == 5:
        raise ValueError("stop")
    return each[1]

options = PipelineOptions(["--checkpoint=checkpoint", "--max_records_per_epoch=2"])
with beam.Pipeline(HeadraceRunner("LocalRunner"), options) as pipeline:
    sets = pipeline | beam.Create([({f"{number}", "a", "b", "c"}, number) for number in range(8)])
    sets | beam.Map(fail) | beam.Map(print)
"""


def test_sets_are_the_same_elements_in_each_process(tmp_path: Path) -> None:
    """The order in which they are encoded is not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    runs = [
        subprocess.run([sys.executable, "program.py", word], cwd=tmp_path, capture_output=True, text=True, check=False)
        for word in ("fail", "go on", "go on")
    ]
    assert [run.returncode for run in runs] == [1, 0, 0], runs[1].stderr + runs[2].stderr
    assert {*"".join(run.stdout for run in runs).split()} == {*"01234567"}


def run(folder: Path, elements: list[object]) -> None:
    options = PipelineOptions([f"--checkpoint={folder}/checkpoint"])
    with beam.Pipeline(HeadraceRunner("LocalRunner"), options) as pipeline:
        _ = pipeline | "Read" >> beam.Create(elements) | beam.Map(print)


@pytest.mark.parametrize("elements", [["a", "b"], [("a", 1), ("b", {2})]], ids=["as they are", "encoded"])
def test_elements_that_are_added_after_the_end_are_refused(tmp_path: Path, elements: list[object]) -> None:
    run(tmp_path, elements[:1])
    run(tmp_path, elements[:1])
    with pytest.raises(ValueError, match=r"of its elements was 1 when its input ended and is 2 now\. .* 'Read"):
        run(tmp_path, elements)
    with pytest.raises(ValueError, match=r"its elements are no longer those .* 'Read"):
        run(tmp_path, elements[1:])
