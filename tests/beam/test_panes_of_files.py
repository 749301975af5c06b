"""Beam's own sinks of files: a further pane of a window replaces no file of an earlier one."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, window

from headrace.runners.beam.runner import HeadraceRunner

TRIGGERS = {
    "early and late": trigger.AfterWatermark(early=trigger.AfterCount(1), late=trigger.AfterCount(1)),
    "count": trigger.Repeatedly(trigger.AfterCount(1)),
}


def named(w, pane, shard, shards, compression, destination):
    return f"{w.max_timestamp().micros}-{pane.index}-{shard}.txt"


SINKS = {
    "files": lambda folder: fileio.WriteToFiles(f"{folder}/out"),
    "own names": lambda folder: fileio.WriteToFiles(
        f"{folder}/out", shards=1, max_writers_per_bundle=0, file_naming=named
    ),
    "single": lambda folder: fileio.WriteToFiles(
        f"{folder}/out", shards=1, max_writers_per_bundle=0, file_naming=fileio.single_file_naming("x", ".txt")
    ),
    "text": lambda folder: beam.io.WriteToText(f"{folder}/out/x", ".txt"),
}


def run(sink, windows, trigger_of_panes):
    def timed(value, at):
        return window.TimestampedValue(value, at)

    stream = TestStream().add_elements([timed("a", 1), timed("b", 2)]).advance_watermark_to(100)
    stream = stream.add_elements([timed("c", 3)]).add_elements([timed("d", 4)]).advance_watermark_to_infinity()
    options = PipelineOptions(["--allow_unsafe_triggers"], streaming=True)
    with beam.Pipeline(HeadraceRunner(), options) as pipeline:
        discarding = trigger.AccumulationMode.DISCARDING
        windowed = (
            pipeline
            | stream
            | beam.WindowInto(windows, trigger=trigger_of_panes, accumulation_mode=discarding, allowed_lateness=1000)
        )
        _ = windowed | sink


@pytest.mark.parametrize("name", TRIGGERS)
@pytest.mark.parametrize("sink", SINKS)
def test_no_element_is_lost(tmp_path, sink, name):
    try:
        run(SINKS[sink](tmp_path), window.FixedWindows(10), TRIGGERS[name])
    except TypeError:
        # Beam's finalization takes the side input of an early pane, which is empty, for a list; so it does by itself.
        assert sink == "text"
        return
    paths = [path for path in tmp_path.rglob("*") if path.is_file() and "temp" not in str(path.relative_to(tmp_path))]
    assert sorted(line for path in paths for line in path.read_text().split()) == ["a", "b", "c", "d"]
    assert all(path.suffix == ".txt" for path in paths) or sink == "files"
    if sink == "own names":
        assert not [path for path in paths if "pane" in path.name]
