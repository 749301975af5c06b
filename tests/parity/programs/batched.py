"""What: elements as lists of fixed lengths; how many are in the last one of a bundle depends on bundles."""

from __future__ import annotations

from tests.parity.corpus import program, timed

TIMED = [((number % 3, number), number % 25) for number in range(60)]


def largest(beam, batches, size):
    """The elements of the batches, and whether none is too large."""
    sizes = batches | "Sizes" >> beam.Map(lambda batch: (type(batch).__name__, 0 < len(batch) <= size))
    return {"elements": batches | "Each" >> beam.FlatMap(lambda batch: batch), "sizes": sizes | beam.Distinct()}


@program
def batches_of_one_size(beam, p):
    return largest(beam, p | beam.Create(range(40)) | beam.BatchElements(min_batch_size=7, max_batch_size=7), 7)


@program
def batches_of_learnt_sizes(beam, p):
    return largest(beam, p | beam.Create(range(100)) | beam.BatchElements(1, 16), 16)


@program
def batches_of_one(beam, p):
    return p | beam.Create([("a", 1), ("b", 2)]) | beam.BatchElements(1, 1)


@program
def batches_in_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.FixedWindows(10))
    return largest(beam, windowed | beam.BatchElements(5, 5), 5)


@program
def batches_in_sliding_windows(beam, p):
    windowed = timed(beam, p, TIMED) | beam.WindowInto(beam.window.SlidingWindows(10, 5))
    return largest(beam, windowed | beam.BatchElements(50, 50), 50)


@program
def batches_by_weight(beam, p):
    texts = p | beam.Create(["a" * (number % 5 + 1) for number in range(30)])
    batches = texts | beam.BatchElements(12, 12, element_size_fn=len)
    return batches | beam.FlatMap(lambda batch: [(sum(map(len, batch)) <= 12, text) for text in batch])
