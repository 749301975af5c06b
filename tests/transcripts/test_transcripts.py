"""Every transcript, on a grouping alone, in several bundlings and input forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import pytest

from headrace.lowlevel.records.record import Batch
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.combining.combiner_lifting import LiftedCombine, liftable
from headrace.sdk.operators.grouping.grouping import Grouping
from tests.harness import Harness, Pane
from tests.transcripts.bundlings import Bundling, Elements, bundlings
from tests.transcripts.transcript import Add, Step, Transcript, Watermark, act, compare, parse, play, transcripts

CASES = transcripts()


class Plain(Harness):
    """Each step's elements are one bundle."""

    def __init__(self, transcript: Transcript, form: GroupingInputForm = GroupingInputForm.PLAIN) -> None:
        self.windowing = transcript.windowing
        self.combine = transcript.combine() if transcript.combine else None
        super().__init__(Grouping(self.windowing, self.combine, form))

    def add(self, elements: Elements) -> list[Pane]:
        return self.feed(elements)


class Parts(Plain):
    """... that comes in several pieces."""

    def add(self, elements: Elements) -> list[Pane]:
        return self.feed(elements, parts=3)


class Windowed(Plain):
    """Elements come with their windows."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript, GroupingInputForm.WINDOWED)

    def add(self, elements: Elements) -> list[Pane]:
        assign = self.windowing.window_fn.assign_all
        windows = assign([time for *_, time in elements], [value for _, value, _ in elements])
        return self.feed(
            [(key, (value, its, None), time) for (key, value, time), its in zip(elements, windows, strict=True)]
        )


class Lifted(Plain):
    """Elements are combined before they come."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript, GroupingInputForm.LIFTED)
        assert self.combine is not None
        self.lift = LiftedCombine(self.windowing, self.combine)

    def add(self, elements: Elements) -> list[Pane]:
        lifted: list[tuple[object, object, int]] = []

        def emit(stream: str, batch: Batch) -> None:
            for value, time in batch.rows():
                key, payload = cast("tuple[object, object]", value)
                lifted.append((key, payload, time))

        self.lift.start_bundle()
        pairs = [(key, value) for key, value, _ in elements]
        self.lift.process_batch("in", Batch(pairs, [time for *_, time in elements]), emit)
        self.lift.finish_bundle(emit)
        return self.feed(lifted)


class Bundled(Plain):
    """Each step's elements come in a bundling of ours."""

    def __init__(self, transcript: Transcript, bundling: Bundling) -> None:
        super().__init__(transcript)
        self.bundling = bundling

    def add(self, elements: Elements) -> list[Pane]:
        return [pane for bundle in self.bundling(elements) for pane in self.feed(bundle)]


def subjects() -> Iterator[object]:
    """Every transcript, in all the ways it is played."""
    for transcript in CASES:
        ways: dict[str, Callable[[Transcript], Plain]] = {"parts": Parts, "windowed": Windowed}
        if transcript.combine is not None and liftable(transcript.windowing):
            ways["lifted"] = Lifted
        for name, bundling in bundlings(transcript).items():
            ways[name] = partial(Bundled, bundling=bundling)
        name = transcript.name.replace(" ", "_")
        yield from (pytest.param(transcript, way, id=f"{name}-{how}") for how, way in ways.items())


@pytest.mark.parametrize(("transcript", "subject"), list(subjects()))
def test_transcript(transcript: Transcript, subject: Callable[[Transcript], Plain]) -> None:
    harness = subject(transcript)
    play(transcript, harness)
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"


@pytest.mark.parametrize("transcript", CASES, ids=lambda each: each.name.replace(" ", "_"))
def test_elements_and_watermark_in_one_bundle(transcript: Transcript) -> None:
    """As in an epoch that brings both: what is added and what the watermark does comes out together."""
    harness = Plain(transcript)
    added: Step | None = None
    for step in transcript.steps:
        if added and isinstance(step.action, Watermark):
            assert isinstance(added.action, Add)
            came = harness.feed_and_advance(added.action.elements, step.action.to)
            compare(came, [*added.panes, *step.panes])
        elif added:
            compare(act(harness, added.action), added.panes)
        if isinstance(step.action, Add):
            added = step
            continue
        if not added or not isinstance(step.action, Watermark):
            compare(act(harness, step.action), step.panes)
        added = None
    assert not any(harness.stored().values()), f"still stored: {harness.stored()}"


def test_there_are_enough_and_each_has_its_name() -> None:
    assert len(CASES) >= 85
    assert len({case.name for case in CASES}) == len(CASES)


BAD = {
    "name": "wrong",
    "window": "FixedWindows(10)",
    "steps": [{"add": "1@1 2@2"}, {"watermark": "infinity"}, {"panes": [{"window": [0, 10], "value": [1, 2]}]}],
}


@pytest.mark.parametrize(
    ("panes", "complaint"),
    [
        ([{"window": [0, 10], "value": [1]}], "no pane"),
        ([{"window": [0, 20]}], "no pane"),
        ([], "unexpected panes"),
        ([{"window": [0, 10]}, {"window": [10, 20]}], "no pane"),
        ([{"windw": [0, 10]}], "unknown words"),
    ],
)
def test_wrong_transcripts_are_noticed(panes: list[dict[str, object]], complaint: str) -> None:
    play(parse(BAD), Plain(parse(BAD)))
    wrong = parse({**BAD, "steps": [{"add": "1@1 2@2"}, {"watermark": "infinity"}, {"panes": panes}]})
    with pytest.raises(AssertionError, match=complaint):
        play(wrong, Plain(wrong))
