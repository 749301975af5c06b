"""Combining values per key and of all, and computations of the low level between transforms."""

from __future__ import annotations

import collections
import math

import pytest

import headrace as beam
from headrace.lowlevel import Computation, StepError, TopologyError
from headrace.transforms import combiners, window
from tests.unit.collected import collect, values


def timed(pipeline, *seconds):
    """Elements whose value is their timestamp in seconds."""
    return pipeline | beam.Create([window.TimestampedValue(second, second) for second in seconds])


def seen(element, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return element, when, where, pane


class TestCombine:
    PAIRS = (("a", 3), ("b", 5), ("a", 4))

    def per_key(self, *combiner, **kwargs):
        return dict(values(lambda p: p | beam.Create(self.PAIRS) | beam.CombinePerKey(*combiner, **kwargs)))

    def globally(self, elements, transform):
        (value,) = values(lambda p: p | beam.Create(elements) | transform)
        return value

    def test_functions(self):
        assert self.per_key(sum) == {"a": 7, "b": 5}
        assert self.per_key(max) == {"a": 4, "b": 5}
        assert self.per_key(min) == {"a": 3, "b": 5}
        assert self.per_key(lambda its: math.prod(its)) == {"a": 12, "b": 5}
        assert self.per_key(lambda its, base, plus=0: sum(its, base) + plus, 0, plus=0) == {"a": 7, "b": 5}

    def test_a_function_is_applied_to_its_own_results(self):
        many = [("k", 1)] * 1000
        assert values(lambda p: p | beam.Create(many) | beam.CombinePerKey(lambda its: sum(its))) == [("k", 1000)]

    def test_any_and_all(self):
        assert self.globally([0, 1], beam.CombineGlobally(any)) is True
        assert self.globally([0, 1], beam.CombineGlobally(all)) is False
        assert self.globally([], beam.CombineGlobally(any)) is False
        assert self.globally([], beam.CombineGlobally(all)) is True

    def test_a_combine_fn_with_arguments_and_life_cycle(self):
        class Scaled(beam.CombineFn):
            def setup(self, *args, **kwargs):
                self.ready = True

            def create_accumulator(self, factor, plus=0):
                return plus

            def add_input(self, accumulator, element, factor, plus=0):
                assert self.ready
                return accumulator + factor * element

            def merge_accumulators(self, accumulators, factor, plus=0):
                accumulators = list(accumulators)
                return sum(accumulators) - plus * (len(accumulators) - 1)

            def extract_output(self, accumulator, factor, plus=0):
                return accumulator

        assert self.per_key(Scaled(), 10, plus=1) == {"a": 71, "b": 51}

    def test_defaults(self):
        assert self.globally([], beam.CombineGlobally(sum)) == 0
        assert self.globally([1, 2], beam.CombineGlobally(sum)) == 3
        assert values(lambda p: p | beam.Create([]) | beam.CombineGlobally(sum).without_defaults()) == []
        with pytest.raises(StepError, match="max of no values; use without_defaults"):
            values(lambda p: p | beam.Create([]) | beam.CombineGlobally(max))

    def test_values(self):
        rows = values(lambda p: p | beam.Create(self.PAIRS) | beam.GroupByKey() | beam.CombineValues(sum))
        assert dict(rows) == {"a": 7, "b": 5}

    def test_per_window_without_defaults(self):
        def build(p):
            windowed = timed(p, 1, 2, 11) | beam.WindowInto(window.FixedWindows(10))
            return windowed | beam.CombineGlobally(sum).without_defaults()

        assert values(build) == [3, 11]

    def test_means_counts_and_the_rest(self):
        numbers = [3, 1, 2, 2]
        assert self.globally(numbers, combiners.Mean.Globally()) == 2.0
        assert math.isnan(self.globally([], combiners.Mean.Globally()))
        assert self.globally(numbers, combiners.Count.Globally()) == 4
        assert self.globally([], combiners.Count.Globally()) == 0
        assert self.globally(numbers, combiners.Top.Of(2)) == [3, 2]
        assert self.globally(numbers, combiners.Top.Largest(1)) == [3]
        assert self.globally(["abc", "d", "ef"], combiners.Top.Smallest(2, key=len)) == ["d", "ef"]
        assert sorted(self.globally(numbers, combiners.ToList())) == [1, 2, 2, 3]
        assert self.globally(numbers, combiners.ToSet()) == {1, 2, 3}
        assert self.globally(self.PAIRS[:2], combiners.ToDict()) == {"a": 3, "b": 5}
        assert len(self.globally(numbers, combiners.Sample.FixedSizeGlobally(2))) == 2
        assert sorted(values(lambda p: p | beam.Create(["a", "ca"]) | combiners.Count.PerElement())) == [
            ("a", 1), ("ca", 1),
        ]  # fmt: skip

    def test_per_key_forms(self):
        def per_key(transform):
            return dict(values(lambda p: p | beam.Create(self.PAIRS) | transform))

        assert per_key(combiners.Mean.PerKey()) == {"a": 3.5, "b": 5.0}
        assert per_key(combiners.Count.PerKey()) == {"a": 2, "b": 1}
        assert per_key(combiners.Top.LargestPerKey(1)) == {"a": [4], "b": [5]}
        assert per_key(combiners.Top.SmallestPerKey(1)) == {"a": [3], "b": [5]}
        assert {key: len(its) for key, its in per_key(combiners.Sample.FixedSizePerKey(1)).items()} == {"a": 1, "b": 1}

    def test_latest_goes_by_timestamp(self):
        def build(p, transform):
            rows = [window.TimestampedValue(("k", value), when) for value, when in (("new", 9), ("old", 3))]
            return p | beam.Create(rows) | transform

        assert values(lambda p: build(p, combiners.Latest.PerKey())) == [("k", "new")]
        assert values(lambda p: build(p, combiners.Latest.Globally())) == [("k", "new")]

    def test_every_sample_is_equally_likely(self):
        fn = combiners.SampleCombineFn(1)
        chosen = collections.Counter(fn.apply("abcd")[0] for _ in range(4000))
        assert all(800 < chosen[letter] < 1200 for letter in "abcd"), chosen


class TestRawComputations:
    class Total(Computation):
        def process_record(self, record, context):
            context.state = (context.state or 0) + record.value[1]
            context.set_timer("end", 100_000_000)
            context.produce("running", (context.key, context.state))

        def process_timer(self, timer, context):
            context.produce("final", (context.key, context.state), timer.timestamp)

    def test_between_two_transforms(self):
        def build(p):
            pairs = timed(p, 1, 12) | beam.Map(lambda second: ("k", second))
            total = beam.RunComputation(self.Total(), key=lambda pair: pair[0], outputs=["running", "final"])
            outputs = pairs | beam.WindowInto(window.FixedWindows(10)) | "total" >> total
            named = [outputs[name] | name >> beam.Map(lambda it, name: (name, it), name) for name in outputs]
            return named | beam.Flatten() | beam.Map(lambda it, where=beam.DoFn.WindowParam: (*it, where.start))

        assert sorted(collect(build)) == [
            (("final", ("k", 13), 100), 100_000_000),
            (("running", ("k", 1), 0), 1_000_000),
            (("running", ("k", 13), 10), 12_000_000),
        ]

    def test_after_a_grouping_it_gets_plain_values(self):
        class Seen(Computation):
            def process_record(self, record, context):
                context.produce("seen", (record.key, record.value, record.timestamp))

        def build(p):
            grouped = timed(p, 1) | beam.Map(lambda second: ("k", second)) | beam.CombinePerKey(sum)
            return grouped | beam.RunComputation(Seen(), key=lambda pair: pair[0], outputs="seen")

        ((row, _),) = collect(build)
        assert row[:2] == ("k", ("k", 1))

    def test_several_inputs_with_a_key_each(self):
        class Both(Computation):
            def process_record(self, record, context):
                context.produce("both", (record.key, record.value))

        def build(p):
            one = p | "one" >> beam.Create([{"id": 1}])
            two = p | "two" >> beam.Create([("x", 1)])
            keys = [lambda it: it["id"], lambda it: it[1]]
            return (one, two) | beam.RunComputation(Both(), key=keys, outputs="both")

        assert sorted(values(build), key=str) == [(1, ("x", 1)), (1, {"id": 1})]

    def test_a_stream_has_one_name(self):
        pipeline = beam.Pipeline("LocalRunner")
        pairs = pipeline | beam.Create([("a", 1)])
        for label in ("one", "two"):
            total = beam.RunComputation(self.Total(), key=lambda pair: pair[0], outputs=["running", "final"])
            pairs | label >> total
        with pytest.raises(TopologyError, match="steps 'one' and 'two' both put out a stream named 'running'"):
            pipeline.run()


def test_a_class_is_no_combiner():
    with pytest.raises(TypeError, match=r"got the class ToListCombineFn; write ToListCombineFn\(\)"):
        beam.CombinePerKey(beam.combiners.ToListCombineFn)


class TestLabelsAndDefaults:
    def test_several_of_a_kind_stand_side_by_side(self):
        def build(p):
            numbers = p | beam.Create([3, 1, 2])
            tops = [numbers | combiners.Top.Of(1), numbers | combiners.Top.Of(2), numbers | combiners.Top.Largest(2)]
            some = [numbers | combiners.Sample.FixedSizeGlobally(3), numbers | combiners.Sample.FixedSizeGlobally(9)]
            return (
                *tops,
                *(one | f"Sort {place}" >> beam.Map(sorted) for place, one in enumerate(some)),
            ) | beam.Flatten()

        assert sorted(values(build)) == [[1, 2, 3], [1, 2, 3], [3], [3, 2], [3, 2]]

    def test_the_name_stays_without_defaults(self):
        assert combiners.Top.Of(3).without_defaults().label == "Top(3)"
        assert combiners.Top.Smallest(3, has_defaults=False).label == "Smallest(3)"
        assert not combiners.Top.Smallest(3, has_defaults=False).has_defaults
        assert combiners.Latest.Globally().without_defaults().label == "Latest.Globally"

    @pytest.mark.parametrize(
        "transform",
        [
            combiners.Count.Globally,
            combiners.Mean.Globally,
            combiners.ToList,
            combiners.ToSet,
            combiners.ToDict,
            combiners.Latest.Globally,
        ],
    )
    def test_nothing_of_nothing_without_defaults(self, transform):
        assert len(values(lambda p: p | beam.Create([]) | transform())) == 1
        assert values(lambda p: p | beam.Create([]) | transform(has_defaults=False)) == []
        assert values(lambda p: p | beam.Create([]) | transform().without_defaults()) == []

    def test_any_few(self):
        rows = values(lambda p: p | beam.Create(range(50)) | combiners.Sample.Any(3))
        assert len(set(rows)) == 3
        assert sorted(values(lambda p: p | beam.Create(range(2)) | combiners.Sample.Any(3))) == [0, 1]
        assert values(lambda p: p | beam.Create(range(2)) | combiners.Sample.Any(0)) == []
        with pytest.raises(ValueError, match="is -1; give a whole number of at least 0"):
            combiners.Sample.Any(-1)

    def test_further_arguments_go_to_all_of_a_tuple(self):
        class Scaled(beam.CombineFn):
            def create_accumulator(self, factor):
                return 0

            def add_input(self, accumulator, element, factor):
                return accumulator + factor * element

            def merge_accumulators(self, accumulators, factor):
                return sum(accumulators)

            def extract_output(self, accumulator, factor):
                return accumulator

        both = combiners.SingleInputTupleCombineFn(Scaled(), Scaled())
        pairs = [("k", 1), ("k", 2)]
        assert values(lambda p: p | beam.Create(pairs) | beam.CombinePerKey(both, 10)) == [("k", (30, 30))]
