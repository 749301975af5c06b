"""What our pipelines read: the files of a dataset, bounded or in the order in which a stream of them arrives."""

from __future__ import annotations

from typing import cast

import headrace as beam
from benchmarks.dataset import Dataset, Files
from benchmarks.generator import SECOND
from headrace.io import ReadFromParquet

Elements = beam.PCollection[object]
Event = tuple[str, int]
"""Key and value."""


def _event(row: dict[str, object]) -> Event:
    return cast(Event, (row["key"], row["value"]))


class Inputs:
    """A dataset's files as collections of a pipeline.

    Args:
        pipeline: Where they go.
        dataset: Which files.
        streamed: Whether to read the rows of files, with a watermark that follows; else the one file, whose end ends
            all windows.
    """

    def __init__(self, pipeline: beam.Pipeline, dataset: Dataset, streamed: bool) -> None:
        self._pipeline, self._dataset, self._streamed = pipeline, dataset, streamed

    def events(self, behind: int | None = None) -> Elements:
        """Pairs of key and value.

        Args:
            behind: How far the watermark stays behind in a stream, microseconds; as far as makes nothing late if None.
        """
        return self._events(Files(self._dataset.one, self._dataset.many), "", behind)

    def rows(self, behind: int | None = None) -> Elements:
        """The same as dicts, as they are read."""
        return self._rows(Files(self._dataset.one, self._dataset.many), "", behind)

    def clicks(self) -> Elements:
        """The same of clicks."""
        return self._events(self._dataset.clicks, " of clicks", None)

    def click_rows(self) -> Elements:
        """Those of clicks as dicts, as they are read."""
        return self._rows(self._dataset.clicks, " of clicks", None)

    def _events(self, files: Files, name: str, behind: int | None) -> Elements:
        return self._rows(files, name, behind) | f"Event{name}" >> beam.Map(_event)

    def _rows(self, files: Files, name: str, behind: int | None) -> Elements:
        delay = self._dataset.plan.greatest_delay if behind is None else behind
        reading = ReadFromParquet(
            self._pattern(files),
            columns=["key", "value"],
            timestamp="timestamp",
            max_delay=delay // SECOND if self._streamed else None,
        )
        return self._pipeline | f"Read{name}" >> reading

    def lines(self) -> Elements:
        """Rows with lines of text, without event times."""
        return self._pipeline | ReadFromParquet(self._pattern(self._dataset.lines), columns=["line"])

    def late(self) -> int:
        """How far the watermark is behind where late events shall be late, microseconds."""
        return self._dataset.plan.disorder

    def _pattern(self, files: Files) -> str:
        return f"{files.many}/*.parquet" if self._streamed else str(files.one)
