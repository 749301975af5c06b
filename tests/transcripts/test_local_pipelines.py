"""Every transcript as a pipeline on the local runner."""

from __future__ import annotations

import pytest

from headrace.runners.local import LocalRunner
from tests.depth import examples
from tests.transcripts.pipelines import play_as_pipeline
from tests.transcripts.transcript import Transcript, transcripts


@pytest.mark.parametrize("transcript", transcripts(), ids=lambda each: each.name.replace(" ", "_"))
def test_transcript(transcript: Transcript) -> None:
    play_as_pipeline([transcript], LocalRunner())


def test_all_in_one_pipeline() -> None:
    play_as_pipeline(transcripts()[:: examples(3, 1)], LocalRunner(intervals=2))
