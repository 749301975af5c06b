"""Several collections as one, and everything of a key together."""

from __future__ import annotations

import collections

import pytest

import headrace as beam
from headrace.lowlevel import TopologyError
from headrace.transforms import window
from headrace.utils.timestamp import MIN_TIMESTAMP, Timestamp
from headrace.utils.windowed_value import PaneInfoTiming
from tests.unit.collected import values

MIN = MIN_TIMESTAMP.micros


def timed(pipeline, *seconds):
    """Elements whose value is their timestamp in seconds."""
    return pipeline | beam.Create([window.TimestampedValue(second, second) for second in seconds])


def seen(element, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return element, when, where, pane


Pair = collections.namedtuple("Pair", "key value")


class TestFlatten:
    def test_of_different_depths_and_the_same_twice(self):
        def build(p):
            numbers = p | beam.Create([1, 2])
            tens = numbers | beam.Map(lambda number: 10 * number)
            return (numbers, tens, numbers, p | "more" >> beam.Create([7])) | beam.Flatten()

        assert sorted(values(build)) == [1, 1, 2, 2, 7, 10, 20]

    def test_of_a_source_and_a_grouping(self):
        def build(p):
            pairs = p | beam.Create([("a", 1), ("a", 2)])
            summed = pairs | "sum" >> beam.CombinePerKey(sum)
            return (pairs, summed) | beam.Flatten() | "again" >> beam.CombinePerKey(sum)

        assert values(build) == [("a", 6)]

    def test_windows_are_kept(self):
        def build(p):
            windowed = timed(p, 1, 11) | beam.WindowInto(window.FixedWindows(10))
            grouped = windowed | beam.Map(lambda second: ("k", second)) | beam.GroupByKey()
            return (windowed, grouped) | beam.Flatten() | beam.Map(seen)

        assert sorted((str(row[0]), row[2].start) for row in values(build)) == [
            ("('k', [11])", 10), ("('k', [1])", 0), ("1", 0), ("11", 10),
        ]  # fmt: skip

    def test_windows_of_another_kind_are_kept_too(self):
        def build(p):
            seconds = timed(p, 61)
            tens = seconds | "tens" >> beam.WindowInto(window.FixedWindows(10))
            minutes = seconds | "minutes" >> beam.WindowInto(window.FixedWindows(60))
            return (tens, minutes) | beam.Flatten() | beam.Map(seen)

        assert sorted((row[2].start, row[2].end) for row in values(build)) == [(60, 70), (60, 120)]

    def test_of_windows_of_another_kind_says_both(self, caplog):
        p = beam.Pipeline("LocalRunner")
        tens = timed(p, 61) | "tens" >> beam.WindowInto(window.FixedWindows(10))
        late = p | "ones" >> beam.Create([1]) | "late" >> beam.WindowInto(window.FixedWindows(10), allowed_lateness=5)
        (tens, late) | beam.Flatten()
        assert [record.getMessage() for record in caplog.records] == [
            "Flatten: <PCollection late> has allowed_lateness Duration(5), unlike the first input, allowed_lateness "
            "Duration(0)"
        ]

    def test_of_nothing(self):
        assert values(lambda p: () | beam.Flatten(pipeline=p)) == []

    def test_flatten_with(self):
        def build(p):
            return p | beam.Create([1]) | beam.FlattenWith(p | "two" >> beam.Create([2]), "three" >> beam.Create([3]))

        assert sorted(values(build)) == [1, 2, 3]

    def test_what_is_no_flat_tuple(self):
        pipeline = beam.Pipeline("LocalRunner")
        numbers = pipeline | beam.Create([1])
        for wrong in (numbers, [numbers, (numbers, numbers)]):
            with pytest.raises(TypeError, match="a flat tuple or list of collections"):
                pipeline.apply(beam.Flatten(), wrong, f"wrong {id(wrong)}")


class TestGroups:
    def test_by_key(self):
        pairs = [("a", 1), ("b", 2), ("a", 3), (None, 4), (1, 5), (True, 6), ((1, "x"), 7)]
        rows = values(lambda p: p | beam.Create(pairs) | beam.GroupByKey())
        assert sorted(((str(key), its) for key, its in rows)) == [
            ("(1, 'x')", [7]), ("1", [5]), ("None", [4]), ("True", [6]), ("a", [1, 3]), ("b", [2]),
        ]  # fmt: skip

    def test_elements_of_any_shape_that_unpacks_to_two(self):
        rows = values(lambda p: p | beam.Create([["a", 1], Pair("a", 2)]) | beam.GroupByKey())
        assert rows == [("a", [1, 2])]

    def test_windows_and_panes(self):
        def build(p):
            pairs = timed(p, 1, 2, 11) | beam.Map(lambda second: ("k", second))
            return pairs | beam.WindowInto(window.FixedWindows(10)) | beam.GroupByKey() | beam.Map(seen)

        rows = values(build)
        assert [(row[0], row[1], row[2].start) for row in rows] == [
            (("k", [1, 2]), Timestamp(9.999999), 0),
            (("k", [11]), Timestamp(19.999999), 10),
        ]
        assert {(row[3].timing, row[3].is_first, row[3].is_last) for row in rows} == {
            (PaneInfoTiming.ON_TIME, True, True)
        }

    def test_co_group_by_key(self):
        def build(p, shape):
            ages = p | "ages" >> beam.Create([("ann", 31), ("bob", 42)])
            towns = p | "towns" >> beam.Create([("ann", "Ulm"), ("ann", "Rom"), ("cid", "Bern")])
            return ({"age": ages, 3: towns} if shape is dict else (ages, towns)) | beam.CoGroupByKey()

        assert dict(values(lambda p: build(p, dict))) == {
            "ann": {"age": [31], 3: ["Ulm", "Rom"]}, "bob": {"age": [42], 3: []}, "cid": {"age": [], 3: ["Bern"]},
        }  # fmt: skip
        assert dict(values(lambda p: build(p, tuple)))["ann"] == ([31], ["Ulm", "Rom"])


@pytest.mark.parametrize("shape", [tuple, dict])
def test_joining_collections_in_different_windows_is_refused_when_the_pipeline_is_built(shape):
    p = beam.Pipeline("LocalRunner")
    ages, towns = p | "ages" >> beam.Create([("a", 1)]), p | "towns" >> beam.Create([("a", "b")])
    minutes = ages | "minutes" >> beam.WindowInto(window.FixedWindows(60))
    for other in (towns, towns | "tens" >> beam.WindowInto(window.FixedWindows(10))):
        inputs = {"ages": minutes, "towns": other} if shape is dict else (minutes, other)
        with pytest.raises(TopologyError, match="elements meet only in equal windows; give both the same") as told:
            inputs | f"{other}" >> beam.CoGroupByKey()
        assert all(f"{each!r} in {each.windowing.window_fn}" in str(told.value) for each in (minutes, other))
