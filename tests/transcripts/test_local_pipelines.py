"""Every transcript as a pipeline on the local runner."""

from __future__ import annotations

import pytest

from headrace.runners.local import LocalRunner
from tests.transcripts.pipelines import moves_wall_time, play_as_pipeline
from tests.transcripts.transcript import Transcript, transcripts


@pytest.mark.parametrize("transcript", list(transcripts()), ids=lambda each: each.name.replace(" ", "_"))
def test_transcript(transcript: Transcript) -> None:
    play_as_pipeline([transcript], LocalRunner())


def test_all_but_those_about_wall_time_in_one_pipeline() -> None:
    play_as_pipeline([each for each in transcripts() if not moves_wall_time(each)], LocalRunner(intervals=2))
