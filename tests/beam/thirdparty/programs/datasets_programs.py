"""Programs with the builders of datasets that Beam fills: BeamBasedBuilder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import datasets
import pytest


def _example(each: int) -> tuple[int, dict[str, object]]:
    return each, {"text": f"line {each}", "number": each, "parts": [each] * (each % 3), "name": {"de": "x"}}


class Numbers(datasets.BeamBasedBuilder):
    """A dataset of two splits, with lists and nested values."""

    VERSION = datasets.Version("1.0.0")

    def _info(self) -> datasets.DatasetInfo:
        value = datasets.Value
        parts = datasets.Sequence(value("int64"))
        columns = {"text": value("string"), "number": value("int32"), "parts": parts, "name": {"de": value("string")}}
        return datasets.DatasetInfo(features=datasets.Features(columns))

    def _split_generators(self, dl_manager: object, pipeline: beam.Pipeline) -> list[datasets.SplitGenerator]:
        splits = {datasets.Split.TRAIN: range(70), datasets.Split.TEST: range(70, 90)}
        return [datasets.SplitGenerator(name, {"numbers": list(numbers)}) for name, numbers in splits.items()]

    def _build_pcollection(self, pipeline: beam.Pipeline, numbers: list[int]) -> beam.PCollection:
        return pipeline | beam.Create(numbers) | beam.Map(_example)


def test_builder(tmp_path: Path, record_property: Any) -> None:
    builder = Numbers(cache_dir=str(tmp_path), beam_runner="DirectRunner")
    builder.download_and_prepare()
    for name in ("train", "test"):
        split = builder.as_dataset(split=name)
        record_property(name, sorted(map(str, split)))
        assert builder.info.splits[name].num_examples == len(split) == {"train": 70, "test": 20}[name]


def test_no_runner(tmp_path: Path) -> None:
    with pytest.raises(datasets.builder.MissingBeamOptions):
        Numbers(cache_dir=str(tmp_path)).download_and_prepare()
