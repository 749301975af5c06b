"""Runs a pipeline on the local runner and collects what comes out of a collection."""

from __future__ import annotations

from collections.abc import Callable

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.runners.local import LocalRunner


def collect(build: Callable[[beam.Pipeline], beam.PCollection], **runner: object) -> list[tuple[object, int]]:
    """Elements and timestamps (microseconds) of the collection that `build` makes, in order of arrival."""
    rows: list[tuple[object, int]] = []
    with beam.Pipeline(LocalRunner(**runner)) as pipeline:
        build(pipeline) | "collect" >> beam.io.Write(CallSink(lambda epoch, its: rows.extend(its)))
    return rows


def values(build: Callable[[beam.Pipeline], beam.PCollection], **runner: object) -> list[object]:
    """Only the elements."""
    return [value for value, _ in collect(build, **runner)]
