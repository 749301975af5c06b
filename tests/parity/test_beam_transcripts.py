"""Apache Beam's own transcripts of triggers, from its wheel, played to our engine on both runners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
import yaml

from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND, Timestamp
from headrace.sdk import triggers, windows
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.grouping.window_state import TOMBSTONE
from headrace.sdk.triggers import AccumulationMode, DefaultTrigger
from headrace.sdk.windows import BoundedWindow, FixedWindows, IntervalWindow, TimestampCombiner
from headrace.sdk.windows.window_namespace import RECORD
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Harness
from tests.transcripts.pipelines import play_as_pipeline
from tests.transcripts.transcript import Action, Add, Step, Transcript, Watermark, play

pytestmark = pytest.mark.parity

FLUSHED = {"garbage_collection": {"window": [20, 30], "value": [25], "timing": "ON_TIME", "last": True}}
"""What is still buffered when the watermark reaches infinity (fact 2); the transcripts end before."""
STILL_OPEN = "both windows' triggers have finished, and neither is closed; Beam does not look at `state` either"
"""Why the window that `garbage_collection` calls absent has the same tombstone as the other."""
TIMING = {("early", True): "EARLY", ("late", True): "LATE"}


class Hundred(FixedWindows):
    """Beam's `CustomTimestampingFixedWindowsWindowFn`: elements count as a hundred seconds later."""

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        return input_timestamp + 100


NAMES: dict[str, Any] = {name: getattr(module, name) for module in (windows, triggers) for name in module.__all__}
NAMES |= {"Default": DefaultTrigger, "CustomTimestampingFixedWindowsWindowFn": Hundred}


def documents() -> list[dict[str, Any]]:
    text = files("apache_beam.testing.data").joinpath("trigger_transcripts.yaml").read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def made(text: str) -> Any:
    """What an expression of the file stands for; the brackets of a call without arguments may be missing."""
    value = eval(text, {"__builtins__": {}}, NAMES)
    return value() if isinstance(value, type) else value


def transcript_of(document: Mapping[str, Any], name: str) -> Transcript:
    """A document in our words."""
    windowing = Windowing.of(
        made(document.get("window_fn", "GlobalWindows")),
        made(document.get("trigger_fn", "Default")),
        AccumulationMode[document.get("accumulation_mode", "accumulating").upper()],
        TimestampCombiner[document.get("timestamp_combiner", "OUTPUT_AT_EOW")],
        document.get("allowed_lateness", 0),
    )
    return Transcript(name, windowing, None, False, tuple(_steps(document)))


def _steps(document: Mapping[str, Any]) -> Iterator[Step]:
    step: Step | None = None
    for line in document["transcript"]:
        ((word, given),) = line.items()
        if word in ("input", "watermark"):
            if step:
                yield step
            step = Step(_action(word, given))
        elif word == "expect":
            assert step
            step = replace(step, panes=tuple(map(_pane, given)))
        else:
            assert word == "state"
    assert step
    yield step


def _action(word: str, given: Any) -> Action:
    if word == "input":
        return Add(tuple(("k", time, time * SECOND) for time in given))
    return Watermark(given * SECOND)


def _pane(given: Mapping[str, Any]) -> dict[str, object]:
    """A pane in our words: windows with their end, timestamps that are not cut to whole seconds."""
    first, last = given["window"]
    pane: dict[str, object] = {"window": [first, last + 1]}
    if "values" in given:
        pane["value"] = given["values"]
    if "timestamp" in given:
        pane["timestamp"] = given["timestamp"] + (0.999999 if given["timestamp"] == last else 0)
    # A pane that is said to be not late, or not early either, is in this file always one on time.
    for word in ("early", "late"):
        if word in given:
            pane.setdefault("timing", TIMING.get((word, given[word]), "ON_TIME"))
    if "final" in given:
        pane["last"] = given["final"]
    if "nonspeculative_index" in given:
        pane["nonspeculative"] = given["nonspeculative_index"]
    if "index" in given:
        pane["index"] = given["index"]
    return pane


DOCUMENTS = documents()
NAMED = [(f"{number} {document['name']}", document) for number, document in enumerate(DOCUMENTS, 1)]
GOOD = [transcript_of(document, name) for name, document in NAMED if "error" not in document]
BAD = [transcript_of(document, name) for name, document in NAMED if "error" in document]


def test_all_are_there() -> None:
    assert (len(GOOD), len(BAD)) == (13, 5)
    names = {document["name"] for document in DOCUMENTS}
    assert names >= set(FLUSHED)


@pytest.mark.parametrize("transcript", GOOD, ids=lambda each: each.name)
def test_as_beam_says(transcript: Transcript) -> None:
    play(transcript, _Subject(Grouping(transcript.windowing)))


@pytest.mark.parametrize("transcript", BAD, ids=lambda each: each.name)
def test_what_beam_says_is_wrong_is_noticed(transcript: Transcript) -> None:
    with pytest.raises(AssertionError, match=r"no pane|unexpected panes"):
        play(transcript, _Subject(Grouping(transcript.windowing)))


def to_the_end(transcript: Transcript) -> Transcript:
    """With the end of time, and what it brings, as a pipeline has it."""
    flushed = FLUSHED.get(transcript.name.split()[1])
    dropped = {"3 fixed_drop_late_data_after_allowed_lateness": 4}.get(transcript.name, 0)
    end = Step(Watermark(MAX_TIMESTAMP), (flushed,) if flushed else (), dropped)
    return replace(transcript, steps=(*transcript.steps, end))


def test_as_pipelines(local_or_spark: Any) -> None:
    play_as_pipeline([to_the_end(transcript) for transcript in GOOD], local_or_spark)


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def local_or_spark(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        from headrace.runners.local import LocalRunner

        return LocalRunner(intervals=2)
    from headrace.runners.spark import SparkRunner

    return SparkRunner(request.getfixturevalue("spark"), intervals=2)


def test_state_of_windows() -> None:
    """`state`: which windows are there, and of which only a mark that they have finished. See `STILL_OPEN`."""
    (document,) = (document for document in DOCUMENTS if document["name"] == "garbage_collection")
    transcript = transcript_of(document, "garbage_collection")
    (state,) = (line["state"] for line in document["transcript"] if "state" in line)
    subject = _Subject(Grouping(transcript.windowing))
    play(transcript, subject)
    records = subject.records(transcript.windowing)
    assert all(records[_window(bounds)] != TOMBSTONE for bounds in state["present"])
    assert all(records[_window(bounds)] == TOMBSTONE for bounds in [*state["tombstone"], *state["absent"]])


def _window(bounds: Sequence[int]) -> BoundedWindow:
    return IntervalWindow(bounds[0], bounds[1] + 1)


class _Subject(Harness):
    """A grouping alone."""

    def add(self, elements: Any) -> Any:
        return self.feed(elements)

    def records(self, windowing: Windowing) -> dict[BoundedWindow, bytes]:
        """What is stored of each window."""
        coder: Any = windowing.window_fn.get_window_coder()
        cells = self.store.scan(key_hash_of(encode_key("k")), RECORD)
        return {coder.decode(name[len(RECORD) :]): data for name, data in cells}
