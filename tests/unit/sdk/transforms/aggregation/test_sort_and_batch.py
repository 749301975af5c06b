"""Batches of elements of about one size."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.runners.interactive.interactive_beam import collect
from headrace.transforms.window import FixedWindows, IntervalWindow, TimestampedValue


def test_elements_are_sorted_and_cut_by_number_and_by_weight() -> None:
    words = ["ccc", "a", "eeeee", "bb", "dddd"]
    assert words | beam.SortAndBatchElements(1, 2, 100) == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    # A batch that would reach the weight is complete.
    assert words | "Weight" >> beam.SortAndBatchElements(1, 9, 6) == [["a", "bb"], ["ccc"], ["dddd"], ["eeeee"]]
    assert [3, 1, 2] | beam.SortAndBatchElements(1, 2, 10) == [[3, 1], [2]]
    assert [3, 1, 2] | "Size" >> beam.SortAndBatchElements(1, 2, 10, lambda number: number) == [[1, 2], [3]]


def test_a_batch_has_the_window_of_its_elements() -> None:
    times = [TimestampedValue(text, 60 * at + 5) for at in range(12) for text in (f"long {at}", f"{at}")]
    pipeline = beam.Pipeline("LocalRunner")
    batches = pipeline | beam.Create(times) | beam.WindowInto(FixedWindows(60)) | beam.SortAndBatchElements(1, 9, 99)
    found = {batch.windows[0]: (batch.value, batch.timestamp) for batch in collect(batches, include_window_info=True)}
    for at in range(12):
        window = IntervalWindow(60 * at, 60 * at + 60)
        assert found[window] == ([f"{at}", f"long {at}"], window.max_timestamp())


@pytest.mark.parametrize("sizes", [(0, 1, 1), (2, 1, 1), (1, 1, 0)])
def test_sizes_that_do_not_fit_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="1 <= min_batch_size <= max_batch_size"):
        beam.SortAndBatchElements(*sizes)
    with pytest.raises(TypeError, match="give a function"):
        beam.SortAndBatchElements(1, 1, 1, 5)  # type: ignore[arg-type]  # a wrong argument is what is tested
