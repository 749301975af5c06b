"""Transforms of Headrace in pipelines of Beam's SDK, and the refusal of transforms of other languages."""

from __future__ import annotations

import re
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.testing.test_pipeline import TestPipeline as CheckedPipeline
from apache_beam.transforms.external import ExternalTransform
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.io import GenerateSequence, WriteToText
from headrace.runners.beam import HeadraceRunner, Native
from headrace.runners.beam.windowings import UntranslatableError


@pytest.mark.parametrize("make", [beam.Pipeline, CheckedPipeline], ids=["plain", "checked"])
def test_a_source_and_a_sink_of_headrace(tmp_path: Path, make: type[beam.Pipeline]) -> None:
    pipeline = make(runner=HeadraceRunner())
    numbers = pipeline | Native(GenerateSequence(1, 4, timestamp=float))
    windows = numbers | beam.WindowInto(FixedWindows(2)) | beam.WithKeys("k") | beam.GroupByKey()
    _ = (
        windows
        | beam.MapTuple(lambda key, group: f"{key} {sorted(group)}")
        | "Write" >> Native(WriteToText(f"{tmp_path}/n"))
    )
    beam.Pipeline.run(pipeline)
    lines = [line for path in tmp_path.glob("n*") for line in path.read_text().splitlines()]
    assert sorted(lines) == ["k [1]", "k [2, 3]"]


def test_labels_windows_and_boundedness() -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    endless = pipeline | Native(GenerateSequence(rate=1))
    assert endless.producer.full_label == "GenerateSequence"
    assert not endless.is_bounded
    windowed = pipeline | beam.Create([1]) | beam.WindowInto(FixedWindows(7))
    passed = windowed | Native(headrace.Map(str))
    assert passed.is_bounded and passed.windowing.windowfn == FixedWindows(7)


class Halves(headrace.PTransform):
    def expand(self, numbers):
        return numbers | "A" >> headrace.Filter(bool), numbers | "B" >> headrace.Filter(bool)


def test_several_outputs_are_refused() -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    _ = pipeline | beam.Create([1]) | "Halves" >> Native(Halves())
    with pytest.raises(UntranslatableError, match="step 'Halves' gives several collections, but a Native has one"):
        pipeline.run()


def test_a_transform_of_beam_needs_no_adapter() -> None:
    with pytest.raises(TypeError, match=r"Native takes a transform of Headrace, got <.*; transforms of Beam need no"):
        Native(beam.Map(str))


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (
            ReadFromKafka({"bootstrap.servers": "nowhere"}, ["topic"]),
            "step 'Theirs': ReadFromKafka runs in another language by an expansion service, which this runner does not "
            "have; use headrace.runners.beam.Native(headrace.io.ReadFromKafka(...))",
        ),
        (ExternalTransform("urn", b"", "nowhere:1"), "use a transform of Beam's Python SDK, or one of Headrace's"),
    ],
)
def test_another_languages_transforms_are_refused_when_the_pipeline_is_built(
    transform: beam.PTransform, text: str
) -> None:
    pipeline = beam.Pipeline(runner=HeadraceRunner())
    with pytest.raises(UntranslatableError, match=re.escape(text)):
        _ = pipeline | "Theirs" >> transform
