"""Recorded runs: what is kept for a picture, against the article's numbers, and that the run is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headrace as beam
from examples.streaming102 import accumulating_and_retracting, classic_batch, fixed_windows_streaming, sessions
from examples.streaming102.panes import Case, play
from examples.streaming102.scores import BOUNDED, HEURISTIC, PERFECT, heuristic, of_lines
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.options.pipeline_options import PipelineOptions
from headrace.recording import Recording, RecordingError, StepRecording
from headrace.runners.local import LocalRunner
from headrace.sdk.recording import recorded_step
from headrace.sdk.recording.recorded_step import recorded_value
from tests.recorded import (
    ARRIVALS_OF_SHORT,
    PANES_OF_SHORT,
    arrivals_of,
    as_printed,
    panes_of,
    record,
    short_pipeline,
)


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (accumulating_and_retracting, HEURISTIC),
        (sessions, HEURISTIC),
        (fixed_windows_streaming, PERFECT),
        (fixed_windows_streaming, HEURISTIC),
    ],
)
def test_the_panes_are_those_that_the_example_prints(module, given):
    step = record(module.build, given)
    printed = play([Case("case", module.build, given)], LocalRunner())["case"]
    assert [as_printed(pane) for pane in step.panes] == printed.panes
    assert step.dropped == printed.dropped
    # The article's numbers: table 1 and figure 6.
    second = [as_printed(pane).points for pane in step.panes if pane.start == 43_320 * 1_000_000]
    assert second == {accumulating_and_retracting: [7, -7, 14, -14, 22], fixed_windows_streaming: [22]}.get(module, [])


def test_the_arrivals_are_the_scores():
    step = record(sessions.build, HEURISTIC)
    seen = [(its.value, its.event_time // 10**6, its.processing_time // 10**6) for its in step.arrivals]
    assert seen == sorted(
        ((score.points, score.happened, score.arrives) for score in HEURISTIC.scores), key=lambda one: one[2]
    )
    assert {its.key for its in step.arrivals} == {"red"}


def test_the_watermark_is_the_one_that_was_given_at_each_time():
    step = record(sessions.build, HEURISTIC)
    assert (step.watermarks[0].watermark, step.watermarks[-1].watermark) == (MIN_TIMESTAMP, MAX_TIMESTAMP)
    for move in step.watermarks[1:-1]:
        now = move.processing_time // 10**6
        to_come = [score for score in HEURISTIC.scores if score.arrives > now]
        assert move.watermark == heuristic(now, to_come) * 10**6
    moves = [move.watermark for move in step.watermarks]
    assert moves == sorted(set(moves)), "only moves are kept"


def test_a_window_of_all_time_has_no_bounds():
    (pane,) = record(classic_batch.build, of_lines(BOUNDED)).panes
    assert (pane.value, pane.start, pane.end, pane.timing) == (51, None, None, "ON_TIME")


def test_several_keys_late_panes_and_retractions():
    step = short_pipeline("LocalRunner", record="Totals").run().recording.step()
    assert (arrivals_of(step), panes_of(step)) == (ARRIVALS_OF_SHORT, PANES_OF_SHORT)
    assert step.keys() == ["a", "b"]


def test_as_an_option():
    result = short_pipeline("LocalRunner", options=PipelineOptions(["--record"])).run()
    assert [step.label for step in result.recording.steps] == ["Totals"]
    result = short_pipeline("LocalRunner", options=PipelineOptions([], record="Totals")).run()
    assert panes_of(result.recording.step("Totals")) == PANES_OF_SHORT


def test_saved_by_an_option(tmp_path):
    options = PipelineOptions([f"--record_to={tmp_path / 'run.json'}"])
    result = short_pipeline("LocalRunner", options=options).run()
    assert Recording.load(tmp_path / "run.json") == result.recording


def test_only_the_steps_that_are_asked_for():
    def of(record):
        pipeline = beam.Pipeline("LocalRunner", record=record)
        sums = pipeline | beam.Create([("a", 1), ("a", 2)]) | "Sum" >> beam.CombinePerKey(sum)
        sums | "Count" >> beam.combiners.Count.Globally()
        return [step.label for step in pipeline.run().recording.steps]

    assert of("Sum") == ["Sum"]
    (inner,) = of(["Count"])
    assert inner.startswith("Count/")
    assert of(True) == ["Sum", inner]


def test_progress_is_still_told():
    told = []
    options = PipelineOptions([], progress=told.append)
    short_pipeline("LocalRunner", options=options, record=True).run()
    assert [progress.epoch for progress in told] == list(range(1, len(told) + 1)) and told


def test_saved_and_loaded(tmp_path):
    recording = short_pipeline("LocalRunner", record=True).run().recording
    recording.save(tmp_path / "run.json")
    assert Recording.load(tmp_path / "run.json") == recording


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "steps": [{}]}', '{"format": 1, "steps": 3}', "null"])
def test_a_file_that_is_no_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(
        RecordingError, match=r"other\.json is no recording .*give a file that recording\.save\(\) wrote"
    ):
        Recording.load(tmp_path / "other.json")


def test_a_file_of_a_later_format(tmp_path):
    (tmp_path / "later.json").write_text(json.dumps({"format": 2, "steps": []}))
    with pytest.raises(RecordingError, match="has format 2; this release reads 1"):
        Recording.load(tmp_path / "later.json")


def test_what_is_beyond_the_limit_is_counted(monkeypatch):
    full = short_pipeline("LocalRunner", record=True).run().recording.step()
    everything = [*full.arrivals, *full.panes, *full.watermarks]
    monkeypatch.setattr(recorded_step, "LIMIT", 2)
    cut = short_pipeline("LocalRunner", record=True).run().recording.step()
    kept = [*cut.arrivals, *cut.panes, *cut.watermarks]
    assert (len(cut.arrivals), len(cut.panes), len(cut.watermarks)) == (2, 2, 2)
    assert cut.left_out == len(everything) - len(kept) > 0
    assert set(kept) <= set(everything)


def test_of_an_epoch_with_very_many_elements_the_first_are_told_and_the_rest_is_counted():
    pipeline = beam.Pipeline("LocalRunner", record=True)
    pipeline | beam.Create([("a", 1)] * 25_000) | beam.CombinePerKey(sum)
    step = pipeline.run().recording.step()
    assert len(step.arrivals) == recorded_step.LIMIT and step.left_out == 25_000 - recorded_step.LIMIT
    assert [pane.value for pane in step.panes] == [25_000], "and inputs do not crowd results out"


def test_a_checkpoint_does_not_care_whether_runs_are_recorded(tmp_path):
    checkpoint = PipelineOptions([f"--checkpoint={tmp_path / 'checkpoint'}"])
    first = short_pipeline("LocalRunner", options=checkpoint, record=True).run()
    assert panes_of(first.recording.step()) == PANES_OF_SHORT
    assert short_pipeline("LocalRunner", options=checkpoint).run().counters["Totals"]["records"] == 3
    again = short_pipeline("LocalRunner", options=checkpoint, record=True).run()
    step = again.recording.step()
    assert panes_of(step) == PANES_OF_SHORT, "they lie in the checkpoint"
    assert arrivals_of(step) == ARRIVALS_OF_SHORT


def test_wrong_input():
    with pytest.raises(RecordingError, match=r"nothing can be recorded of 'Sums'.*the pipeline has 'Totals'"):
        short_pipeline("LocalRunner", record="Sums").run()
    no_grouping = beam.Pipeline("LocalRunner", record=True)
    _ = no_grouping | beam.Create([1])
    with pytest.raises(RecordingError, match="the pipeline has no grouping"):
        no_grouping.run()
    with pytest.raises(RecordingError, match="the run was not recorded; make the pipeline with record=True"):
        _ = short_pipeline("LocalRunner").run().recording
    recording = Recording((StepRecording("One"), StepRecording("Two/a"), StepRecording("Two/b")))
    with pytest.raises(RecordingError, match="no step named 'Three'; it has 'One', 'Two/a', 'Two/b'"):
        recording.step("Three")
    with pytest.raises(RecordingError, match="several steps named 'Two'"):
        recording.step("Two")
    with pytest.raises(RecordingError, match="say which step of the recording is meant"):
        recording.step()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (7, 7),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (None, None),
        (True, True),
        (1 << 70, str(1 << 70)),
        ("x" * 200, "x" * 79 + "…"),
        (iter([3, 4]), "[3, 4]"),
        ({"a": [1]}, "{'a': [1]}"),
    ],
)
def test_values_are_small_and_plain(value, kept):
    assert recorded_value(value) == kept
