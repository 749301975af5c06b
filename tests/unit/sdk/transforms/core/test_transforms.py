"""Transforms one by one: what they put out, with which timestamps, windows and panes."""

from __future__ import annotations

import collections
from collections import deque
from functools import singledispatchmethod

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.sdk.functions.arguments import Constant, Given, bind
from headrace.transforms import window
from headrace.utils.timestamp import MIN_TIMESTAMP, Timestamp
from headrace.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue
from tests.unit.collected import collect, values

MIN = MIN_TIMESTAMP.micros


def timed(pipeline, *seconds):
    """Elements whose value is their timestamp in seconds."""
    return pipeline | beam.Create([window.TimestampedValue(second, second) for second in seconds])


def seen(element, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return element, when, where, pane


Pair = collections.namedtuple("Pair", "key value")


class TestCreate:
    def test_elements_are_at_the_beginning_of_time_in_the_global_window(self):
        (row,) = values(lambda p: p | beam.Create(["a"]) | beam.Map(seen))
        assert row == ("a", MIN_TIMESTAMP, window.GlobalWindow(), PANE_INFO_UNKNOWN)

    def test_timestamped_values_have_their_timestamps(self):
        assert collect(lambda p: timed(p, 3, 1)) == [(3, 3_000_000), (1, 1_000_000)]

    def test_a_dict_gives_its_items_and_nothing_gives_nothing(self):
        assert values(lambda p: p | beam.Create({"a": 1, "b": 2})) == [("a", 1), ("b", 2)]
        assert values(lambda p: p | beam.Create([])) == []

    def test_impulse(self):
        assert collect(lambda p: p | beam.Impulse()) == [(b"", MIN)]


class TestElementWise:
    def test_map_flat_map_and_filter_with_arguments(self):
        numbers = values(
            lambda p: (
                p
                | beam.Create([1, 2, 3])
                | beam.Map(lambda number, factor, plus=0: factor * number + plus, 10, plus=1)
                | beam.Filter(lambda number, least: number > least, 15)
                | beam.FlatMap(lambda number, times: [number] * times, times=2)
            )
        )
        assert numbers == [21, 21, 31, 31]

    def test_flat_map_without_a_function_takes_elements_apart(self):
        assert values(lambda p: p | beam.Create([[1, 2], (), {3}]) | beam.FlatMap()) == [1, 2, 3]

    def test_flat_map_of_text_gives_its_characters_as_in_beam(self):
        assert values(lambda p: p | beam.Create(["ab"]) | beam.FlatMap(str.upper)) == ["A", "B"]

    def test_map_tuple_spreads_the_element(self):
        pairs = values(
            lambda p: (
                p
                | beam.Create([("a", 1), ("b", 2)])
                | beam.MapTuple(lambda key, value, plus, when=beam.DoFn.TimestampParam: (key, value + plus, when), 5)
            )
        )
        assert pairs == [("a", 6, MIN_TIMESTAMP), ("b", 7, MIN_TIMESTAMP)]
        assert values(lambda p: p | beam.Create([(1, 3)]) | beam.FlatMapTuple(range)) == [1, 2]

    def test_every_parameter_of_process(self):
        class Everything(beam.DoFn):
            def process(
                self,
                element=beam.DoFn.ElementParam,
                key=beam.DoFn.KeyParam,
                when=beam.DoFn.TimestampParam,
                where=beam.DoFn.WindowParam,
                pane=beam.DoFn.PaneInfoParam,
                whole=beam.DoFn.WindowedValueParam,
            ):
                yield element, key, when, where, pane, whole

        def build(p):
            pairs = timed(p, 7) | beam.Map(lambda second: ("k", second))
            return pairs | beam.WindowInto(window.FixedWindows(5)) | beam.ParDo(Everything())

        its = window.IntervalWindow(5, 10)
        whole = WindowedValue(("k", 7), 7, [its])
        assert values(build) == [(("k", 7), "k", Timestamp(7), its, PANE_INFO_UNKNOWN, whole)]

    def test_positional_arguments_go_past_parameters_of_the_engine(self):
        def function(element, when=beam.DoFn.TimestampParam, least=0, *more, where=beam.DoFn.WindowParam):
            return element, when, least, more, where

        (row,) = values(lambda p: timed(p, 4) | beam.Map(function, 1, 2, 3))
        assert row == (4, Timestamp(4), 1, (2, 3), window.GlobalWindow())

    def test_a_default_stays_where_nothing_is_given_for_it(self):
        def function(element, least=0, when=beam.DoFn.TimestampParam):
            return element, least, when

        assert values(lambda p: timed(p, 4) | beam.Map(function)) == [(4, 0, Timestamp(4))]

    def test_a_function_given_to_par_do_puts_out_many(self):
        assert values(lambda p: p | beam.Create([3]) | beam.ParDo(range)) == [0, 1, 2]

    def test_none_is_no_output_of_a_do_fn(self):
        class Nothing(beam.DoFn):
            def process(self, element):
                return None if element > 1 else [element]

        assert values(lambda p: p | beam.Create([1, 2]) | beam.ParDo(Nothing())) == [1]

    def test_outputs_may_say_timestamp_windows_and_pane(self):
        chosen = window.IntervalWindow(0, 99)

        class Outputs(beam.DoFn):
            def process(self, second):
                yield second
                yield window.TimestampedValue("later", second + 60)
                yield WindowedValue("elsewhere", second, [chosen])

        rows = values(
            lambda p: timed(p, 7) | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(Outputs()) | beam.Map(seen)
        )
        assert {row[:3] for row in rows} == {
            (7, Timestamp(7), window.IntervalWindow(0, 10)),
            ("later", Timestamp(67), window.IntervalWindow(60, 70)),
            ("elsewhere", Timestamp(7), chosen),
        }

    def test_a_window_that_a_step_chooses_is_grouped_by(self):
        chosen = window.IntervalWindow(0, 99)

        def build(p):
            return (
                timed(p, 7, 8, 17)
                | beam.WindowInto(window.FixedWindows(10))
                | beam.Map(lambda second: WindowedValue(("k", second), second, [chosen]) if second != 8 else ("k", 8))
                | beam.GroupByKey()
                | beam.Map(seen)
            )

        assert [row[::2] for row in values(build)] == [
            (("k", [8]), window.IntervalWindow(0, 10)),
            (("k", [7, 17]), chosen),
        ]

    def test_a_sliding_element_with_a_new_timestamp_stands_for_each_of_its_windows(self):
        def build(p):
            return (
                timed(p, 12)
                | beam.WindowInto(window.SlidingWindows(10, 5))
                | beam.Map(lambda second: window.TimestampedValue(("k", second), 22))
                | beam.GroupByKey()
                | beam.Map(seen)
            )

        assert sorted((row[0], row[2].start) for row in values(build)) == [(("k", [12, 12]), 15), (("k", [12, 12]), 20)]

    def test_a_step_that_sees_windows_is_called_for_each(self):
        def build(p):
            windowed = timed(p, 12) | beam.WindowInto(window.SlidingWindows(10, 5))
            first = windowed | "first" >> beam.Map(lambda second, where=beam.DoFn.WindowParam: (second, where.start))
            return first | "second" >> beam.Map(lambda pair, where=beam.DoFn.WindowParam: (*pair, where.start))

        assert sorted(values(build)) == [(12, 5, 5), (12, 10, 10)]

    def test_new_windows_are_given_for_each_window_before(self):
        def build(p):
            windowed = timed(p, 12) | "slide" >> beam.WindowInto(window.SlidingWindows(10, 5))
            return windowed | "all" >> beam.WindowInto(window.GlobalWindows()) | beam.Map(seen)

        assert [row[::2] for row in values(build)] == [(12, window.GlobalWindow())] * 2

    def test_a_window_function_that_looks_at_the_element(self):
        class BySize(window.NonMergingWindowFn):
            def assign(self, context):
                return [window.IntervalWindow(0, context.element)]

        def build(p):
            return (
                timed(p, 5, 7, 5)
                | beam.WindowInto(BySize())
                | beam.Map(lambda second: ("k", second))
                | beam.CombinePerKey(sum)
                | beam.Map(seen)
            )

        assert {row[::2] for row in values(build)} == {
            (("k", 10), window.IntervalWindow(0, 5)),
            (("k", 7), window.IntervalWindow(0, 7)),
        }

    def test_the_life_cycle(self):
        class Hooks(beam.DoFn):
            def setup(self):
                self.calls = ["setup"]

            def start_bundle(self):
                self.calls.append("start")

            def process(self, element):
                self.calls.append(element)

            def finish_bundle(self):
                yield WindowedValue(list(self.calls), 5, [window.GlobalWindow()])
                self.calls.append("finish")

        def build(p):
            return p | beam.Create([1, 2, 3]) | beam.ParDo(Hooks()) | beam.Map(seen)

        rows = values(build)
        assert [row[:2] for row in rows] == [(["setup", "start", 1, 2, 3], Timestamp(5))]

    def test_what_finish_bundle_puts_out_goes_through_the_steps_behind(self):
        class Count(beam.DoFn):
            def start_bundle(self):
                self.count = 0

            def process(self, element):
                self.count += 1

            def finish_bundle(self):
                yield beam.TaggedOutput("count", WindowedValue(self.count, 0, [window.GlobalWindow()]))

        class Sum(Count):
            def process(self, element):
                self.count += element

        def build(p):
            counted = p | beam.Create([1, 2, 3]) | "one" >> beam.ParDo(Count()).with_outputs("count")
            summed = counted.count | beam.Map(lambda n: 10 * n) | "two" >> beam.ParDo(Sum()).with_outputs("count")
            return summed.count

        assert values(build) == [30]

    def test_finish_bundle_must_say_where(self):
        class Bare(beam.DoFn):
            def process(self, element):
                return []

            def finish_bundle(self):
                yield 7

        with pytest.raises(StepError, match=r"finish_bundle put out 7.*WindowedValue\(value, timestamp, \[window\]\)"):
            values(lambda p: p | beam.Create([1]) | beam.ParDo(Bare()))


class TestOutputs:
    class Split(beam.DoFn):
        def process(self, number):
            if number % 2:
                yield beam.TaggedOutput("odd", number)
            else:
                yield number
            if number > 2:
                yield beam.TaggedOutput("big", window.TimestampedValue(number, number))

    def test_by_attribute_key_and_order(self):
        pipeline = beam.Pipeline("LocalRunner")
        outputs = pipeline | beam.Create([1]) | beam.ParDo(self.Split()).with_outputs("odd", "big", main="even")
        even, odd, big = outputs
        assert (outputs.even, outputs["odd"], outputs.big) == (even, odd, big)
        with pytest.raises(ValueError, match="tag 'none' is neither the main tag 'even' nor one of the tags"):
            outputs["none"]

    def test_each_output_has_its_elements(self):
        def build(p):
            split = p | beam.Create([1, 2, 3, 4]) | beam.ParDo(self.Split()).with_outputs("odd", "big", main="even")
            named = [split[tag] | tag >> beam.Map(lambda n, tag: (tag, n), tag) for tag in ("odd", "big", "even")]
            return named | beam.Flatten()

        rows = collect(build)
        assert set(rows) == {
            (("odd", 1), MIN), (("odd", 3), MIN), (("even", 2), MIN), (("even", 4), MIN),
            (("big", 3), 3_000_000), (("big", 4), 4_000_000),
        }  # fmt: skip

    def test_tags_may_be_open(self):
        def build(p):
            return (p | beam.Create([1, 2]) | beam.ParDo(self.Split()).with_outputs()).odd

        assert values(build) == [1]

    def test_outputs_that_nobody_reads_are_dropped(self):
        assert values(lambda p: p | beam.Create([1, 2, 3]) | beam.ParDo(self.Split())) == [2]

    def test_a_tag_must_be_text(self):
        with pytest.raises(TypeError, match="must be a str, got 7"):
            beam.TaggedOutput(7, 1)
        with pytest.raises(ValueError, match="'odd' must differ"):
            beam.ParDo(self.Split()).with_outputs("odd", main="odd")


def test_rows_are_values_with_names():
    row = beam.Row(name="ann", age=31)
    assert (row.name, list(row), row.as_dict()) == ("ann", ["ann", 31], {"name": "ann", "age": 31})
    assert row != beam.Row(age=31, name="ann") and hash(row) == hash(beam.Row(name="ann", age=31))
    with pytest.raises(AttributeError, match="row has no field 'town'; it has name, age"):
        _ = row.town
    assert values(lambda p: p | beam.Create([row]) | beam.Map(lambda it: it.age)) == [31]


@pytest.mark.parametrize(
    "made",
    [
        lambda one, two: (each for each in (one, two)),
        lambda one, two: {"one": one, "two": two}.values(),
        lambda one, two: {one, two},
        lambda one, two: map(lambda each: each, (one, two)),
        lambda one, two: deque([one, two]),
    ],
)
def test_what_takes_several_collections_takes_any_iterable_of_them(made):
    def flattened(p):
        return made(p | "one" >> beam.Create([("k", 1)]), p | "two" >> beam.Create([("k", 2)])) | beam.Flatten()

    def grouped(p):
        joined = made(p | "one" >> beam.Create([("k", 1)]), p | "two" >> beam.Create([("k", 2)])) | beam.CoGroupByKey()
        return joined | beam.MapTuple(lambda key, parts: (key, sorted(len(list(part)) for part in parts)))

    assert sorted(values(flattened)) == [("k", 1), ("k", 2)]
    assert values(grouped) == [("k", [1, 1])]


def test_a_bound_method_that_dispatches_takes_the_element():
    class Told:
        @singledispatchmethod
        def told(self, value, times):
            return str(value) * times

    assert bind(Told().told, (2,), {}).positional == (Given.ELEMENT, Constant(2))
