"""Arguments of Beam's combiners that are changed between two runs of a program."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners

from headrace.lowlevel.errors import TopologyChangeError
from headrace.runners.beam import HeadraceRunner


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (combiners.Top.LargestPerKey(2), combiners.Top.SmallestPerKey(2)),
        (combiners.Top.LargestPerKey(2), combiners.Top.LargestPerKey(2, key=abs)),
        (combiners.Sample.FixedSizePerKey(1), combiners.Sample.FixedSizePerKey(2)),
    ],
)
def test_arguments_of_combiners_of_beams_are_compared(before: object, after: object, tmp_path: Path) -> None:
    def run(made: object) -> None:
        with beam.Pipeline(HeadraceRunner("LocalRunner"), PipelineOptions([f"--checkpoint={tmp_path}"])) as pipeline:
            _ = pipeline | beam.Create([("tea", 3)]) | "Combined" >> made

    run(before)
    with pytest.raises(TopologyChangeError, match="instead of"):
        run(after)
