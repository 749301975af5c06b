"""Snapshots that are made while others wait: a store that does not answer is waited for once, and for a moment."""

from __future__ import annotations

import threading
import time
from unittest.mock import patch

from headrace.lowlevel.errors import CheckpointError
from headrace.ui import application
from headrace.ui.application import LatestSnapshot
from headrace.ui.checkpoint_reader import CheckpointReader
from headrace.ui.pipelines import StoredPipeline
from headrace.ui.server import PageServer
from tests.pageruns import news


def test_a_store_that_does_not_answer_keeps_no_other_pipeline_waiting() -> None:
    answer = threading.Event()

    def reading(reader: CheckpointReader) -> None:
        if reader.place == "slow":
            answer.wait(60)
        raise CheckpointError(f"{reader.place} is empty")

    pipelines = [StoredPipeline("slow"), StoredPipeline("quick")]
    with (
        patch.object(application, "PATIENCE", 0.2),
        patch.object(CheckpointReader, "open", reading),
        PageServer(pipelines, "127.0.0.1", 0) as server,
    ):
        told = asked_at_once(server.port)
        assert told == ["The checkpoint is being read.", "The checkpoint cannot be read: quick is empty"]
        answer.set()
        assert [each["snapshot"]["status"]["phase"] for each in news(server.port)] == ["unreadable"] * 2


def asked_at_once(port: int) -> list[str]:
    """The sentences of the first answer in which one of two checkpoints is read."""
    ended = time.monotonic() + 20
    while time.monotonic() < ended:
        with patch("tests.pageruns.UNREAD", "no sentence has this"):
            told = [each["snapshot"]["status"]["sentence"] for each in news(port)]
        if "cannot be read" in told[1]:
            break
    return told


def test_those_who_ask_at_the_same_time_get_one_snapshot() -> None:
    begun, go_on, made, found = threading.Event(), threading.Event(), [], list[str]()

    def make() -> str:
        made.append(1)
        begun.set()
        go_on.wait(20)
        return "new"

    with patch.object(application, "PATIENCE", 20.0):
        snapshots = LatestSnapshot(make, "old")
        readers = [threading.Thread(target=lambda: found.append(snapshots.current().text)) for _ in range(5)]
        for reader in readers:
            reader.start()
        begun.wait(20)
        time.sleep(0.1)
        go_on.set()
        for reader in readers:
            reader.join()
        snapshots.close()
    assert found == ["new"] * 5
    assert len(made) < 5


def test_a_page_that_fails_says_so_and_goes_on() -> None:
    pipeline = StoredPipeline("scores")
    with (
        patch.object(StoredPipeline, "snapshot", side_effect=ZeroDivisionError("a fault")),
        PageServer([pipeline], "127.0.0.1", 0) as server,
    ):
        for _ in range(2):
            [shown] = news(server.port)
            assert shown["snapshot"]["status"]["sentence"] == "This page has failed with ZeroDivisionError: a fault"
