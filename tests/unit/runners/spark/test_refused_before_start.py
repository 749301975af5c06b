"""A program that its checkpoint refuses is refused before a Spark session is started for it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import headrace as beam
from headrace.lowlevel import CheckpointError, TopologyChangeError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.spark import runner


class StartedError(Exception):
    """Spark is started."""


@pytest.fixture
def starts(monkeypatch):
    made = Counter()

    def start():
        made["started"] += 1
        raise StartedError

    monkeypatch.setattr(runner, "has_session", lambda: False)
    monkeypatch.setattr(runner, "open_session", start)
    return made


def run(place, label="Sum", on="SparkRunner", **options):
    with beam.Pipeline(on, PipelineOptions(checkpoint=str(place), **options)) as pipeline:
        pipeline | "In" >> beam.Create([("a", 1)]) | label >> beam.CombinePerKey(sum)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_changed_program(tmp_path, starts):
    run(tmp_path, on="LocalRunner")
    before = contents(tmp_path)
    with pytest.raises(TopologyChangeError, match="'Sum' is gone") as refused:
        run(tmp_path, "Total")
    assert (contents(tmp_path), starts) == (before, {})
    with pytest.raises(TopologyChangeError) as locally:
        run(tmp_path, "Total", on="LocalRunner")
    assert str(refused.value) == str(locally.value)


def test_a_place_with_something_else(tmp_path, starts):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="is no checkpoint of Headrace"):
        run(tmp_path)
    assert (contents(tmp_path), starts) == ({tmp_path / "notes.txt": b"mine"}, {})


@pytest.mark.parametrize("is_there", [False, True])
def test_no_other_program_is(tmp_path, starts, is_there):
    if is_there:
        run(tmp_path, on="LocalRunner")
    before = contents(tmp_path)
    with pytest.raises(StartedError):
        run(tmp_path)
    assert (contents(tmp_path), starts) == (before, {"started": 1})


def test_a_change_that_is_agreed_to_is_not(tmp_path, starts):
    run(tmp_path, on="LocalRunner")
    with pytest.raises(StartedError):
        run(tmp_path, "Total", allow_removed=["Sum"])
