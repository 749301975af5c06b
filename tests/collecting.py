"""What a pipeline's collections come to, as lists in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.io import Write
from headrace.lowlevel import CallSink
from headrace.pvalue import PCollection

T = TypeVar("T")


def collected(values: PCollection[T]) -> Callable[[], list[T]]:
    """What the collection has had, once the pipeline has run; in the order in which it was delivered."""
    found: list[T] = []
    number = len(values.pipeline.steps)
    _ = values | f"Collect {number}" >> Write(CallSink(lambda epoch, rows: found.extend(value for value, _ in rows)))
    return lambda: found
