"""Short runs with checkpoints, for the tests of the page: one that has ended, and one that fails in the middle."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import headrace as beam
from headrace.lowlevel import BoundedInjector
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import SystemClock
from headrace.runners.local import LocalRunner
from headrace.sdk.transforms.core.low_level import Read
from headrace.transforms.window import FixedWindows, TimestampCombiner

SECOND = 1_000_000
UNREAD = "is being read"
ROWS = [(("red" if n % 2 else "blue", n), 10 * n * SECOND) for n in range(20)]
LATE = (("red", 100), 0)
"""A record behind the watermark, whose window is closed."""


def scores(
    rows: list[Any] | None = None, fail_at: int | None = None, earliest: bool = True, **options: Any
) -> beam.Pipeline:
    """Sums of scores a minute, two records an epoch; the step "Check" raises for one of the scores.

    With `earliest`, results have the time of their first score, so that open windows hold the watermark.
    """

    def check(score: tuple[str, int]) -> tuple[str, int]:
        if score[1] == fail_at:
            raise ValueError("a score that is refused")
        return score

    options = {"max_records_per_epoch": 2, **options}
    times = TimestampCombiner.OUTPUT_AT_EARLIEST if earliest else TimestampCombiner.OUTPUT_AT_EOW
    pipeline = beam.Pipeline(LocalRunner(SystemClock()), PipelineOptions(**options))
    (
        pipeline
        | "Scores" >> Read(BoundedInjector([*ROWS, LATE] if rows is None else rows, max_delay=0))
        | "Check" >> beam.Map(check)
        | beam.WindowInto(FixedWindows(60), timestamp_combiner=times)
        | "Sum" >> beam.CombinePerKey(sum)
        | "Rank" >> beam.Map(lambda total: ("best", total[1]))
        | "Best" >> beam.CombinePerKey(max)
        | "Lines" >> beam.Map(str)
    )
    return pipeline


def finished(place: Path, **options: Any) -> str:
    """The checkpoint of a run whose input has ended."""
    scores(checkpoint=str(place), **options).run()
    return str(place)


def stopped(place: Path, **options: Any) -> str:
    """The checkpoint of a run that has failed at its fifteenth record."""
    with suppress(Exception):
        scores(fail_at=14, checkpoint=str(place), **options).run()
    return str(place)


class Answer:
    """The answer of a server."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.body = answer.status, answer.read()
        self.headers = {name.lower(): value for name, value in answer.getheaders()}

    @property
    def text(self) -> str:
        return self.body.decode()


def asked(port: int, path: str, method: str = "GET", **headers: str) -> Answer:
    """What a server of this machine answers; the path is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return Answer(connection.getresponse())
    finally:
        connection.close()


def news(port: int, known: str = "") -> Any:
    """What a page asks a server of this machine for once a second, when it has read all checkpoints."""
    ended = time.monotonic() + 30
    while True:
        found = json.loads(asked(port, f"/live.json?known={known}").text)
        read = [
            each["snapshot"] is None or UNREAD not in each["snapshot"]["status"]["sentence"]
            for each in found["pipelines"]
        ]
        if all(read) or time.monotonic() > ended:
            return found["pipelines"]
