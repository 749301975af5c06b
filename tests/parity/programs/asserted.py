"""Assertions that hold, inside programs."""

from __future__ import annotations

from tests.parity.corpus import program, timed
from tests.parity.watching import FAR, stream, streaming


@program
def assert_equal(beam, p):
    util = beam.testing.util
    numbers = p | beam.Create([3, 1, 2])
    util.assert_that(numbers, util.equal_to([1, 2, 3]))
    util.assert_that(numbers | beam.Filter(lambda x: x > 5), util.is_empty(), label="empty")
    util.assert_that(numbers | "Half" >> beam.Map(lambda x: x / 2), util.is_not_empty(), label="some")
    return numbers


@program
def assert_per_window(beam, p):
    util, window = beam.testing.util, beam.window.IntervalWindow
    sums = timed(beam, p, [(("k", 1), 1), (("k", 2), 4), (("k", 4), 12)])
    sums = sums | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)
    expected = {window(0, 10): [("k", 3)], window(10, 20): [("k", 4)]}
    util.assert_that(sums, util.equal_to_per_window(expected))
    return sums


@streaming
def assert_on_a_stream(beam, p):
    util, window = beam.testing.util, beam.window.IntervalWindow
    sums = stream(beam, p, 0, [(("k", 1), 1), (("k", 2), 4)], 10, [(("k", 4), 12)], 30)
    sums = sums | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)
    expected = {window(FAR, FAR + 10): [("k", 3)], window(FAR + 10, FAR + 20): [("k", 4)]}
    util.assert_that(sums, util.equal_to_per_window(expected))
    return sums
