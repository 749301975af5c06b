"""Building pipelines: labels, composites, what is refused before anything runs, runners and options."""

from __future__ import annotations

import socket
import threading
import time

import pytest

import headrace as beam
from headrace.lowlevel import HeadraceError, StepError, TopologyError
from headrace.lowlevel.code_pickling import ShippingError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms import trigger, window
from tests.unit.collected import values


def test_labels_name_every_step_with_the_composites_around_it():
    class Inner(beam.PTransform):
        def expand(self, numbers):
            return numbers | "double" >> beam.Map(lambda number: 2 * number)

    class Outer(beam.PTransform):
        def expand(self, numbers):
            return numbers | "inner" >> Inner() | Inner()

    pipeline = beam.Pipeline("LocalRunner")
    pipeline | beam.Create([1]) | "outer" >> Outer()
    labels = [step.full_label for step in pipeline.steps]
    assert labels == ["Create", "outer", "outer/inner", "outer/inner/double", "outer/Inner", "outer/Inner/double"]


def test_default_labels_are_those_of_beam():
    def double(number):
        return 2 * number

    class Double(beam.DoFn):
        def process(self, number):
            yield 2 * number

    assert beam.Map(double).label == "Map(double)"
    assert beam.ParDo(Double()).label == "ParDo(Double)"
    assert beam.Map(lambda number: number).label == "Map(<lambda number: number>)"
    assert beam.CombinePerKey(sum).label == "CombinePerKey(sum)"
    assert beam.GroupByKey().label == "GroupByKey"


def test_two_steps_cannot_have_one_label():
    pipeline = beam.Pipeline("LocalRunner")
    numbers = pipeline | beam.Create([1])
    numbers | "same" >> beam.Map(str)
    with pytest.raises(RuntimeError, match=r"'same' already exists.*'label' >> transform"):
        numbers | "same" >> beam.Map(int)


def test_a_label_may_come_again_inside_another_composite():
    @beam.ptransform_fn
    def Double(numbers):
        return numbers | "double" >> beam.Map(lambda number: 2 * number)

    assert values(lambda p: p | beam.Create([1, 2]) | "one" >> Double() | "two" >> Double()) == [4, 8]


def test_chains_of_transforms_are_transforms():
    chain = beam.Map(lambda number: number + 1) | "double" >> beam.Map(lambda number: 2 * number) | beam.Filter(bool)
    assert values(lambda p: p | beam.Create([-1, 1, 2]) | chain) == [4, 6]


def test_a_composite_may_return_its_input():
    class Same(beam.PTransform):
        def expand(self, numbers):
            return numbers

    assert values(lambda p: p | beam.Create([1, 2]) | Same()) == [1, 2]


def test_a_composite_without_a_call_to_the_base_constructor():
    class Scale(beam.PTransform):
        def __init__(self, factor):
            self.factor = factor

        def expand(self, numbers):
            factor = self.factor
            return numbers | beam.Map(lambda number: factor * number)

    assert values(lambda p: p | beam.Create([1, 2]) | Scale(3)) == [3, 6]


def test_a_composite_that_makes_up_its_output_is_refused():
    class Odd(beam.PTransform):
        def expand(self, numbers):
            return beam.PCollection(numbers.pipeline)

    pipeline = beam.Pipeline("LocalRunner")
    pipeline | beam.Create([1]) | Odd()
    with pytest.raises(TopologyError, match="'Odd' puts out a collection that no step inside it makes"):
        pipeline.run()


def test_collections_of_other_pipelines_are_refused():
    one, other = beam.Pipeline("LocalRunner"), beam.Pipeline("LocalRunner")
    with pytest.raises(ValueError, match="different pipelines"):
        (one | beam.Create([1]), other | beam.Create([2])) | beam.Flatten()


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda p: p | beam.Map(str), r"Map\(str\) was applied to .*; apply it to a collection"),
        (lambda p: p | beam.Create([1]) | "again" >> beam.Create([2]), "Create begins a pipeline"),
        (lambda p: p | beam.Create([1]) | str, "expected a transform"),
        (lambda p: p | "text" >> beam.Create("text"), r"not text; write Create\(\['text'\]\)"),
        (lambda p: p | beam.Create(7), "takes an iterable of elements, got 7 of type int"),
        (lambda p: beam.Map(7), "Map takes a function, got 7 of type int"),
        (lambda p: beam.Filter(None), "Filter takes a function, got None"),
        (lambda p: beam.ParDo(beam.DoFn), "an instance of a DoFn, got the class DoFn"),
        (lambda p: beam.Map(lambda x, y: x), "missing a required argument: 'y'"),
        (lambda p: beam.Map(lambda x: x, 3), "too many positional arguments"),
        (lambda p: beam.Map(lambda x, w=beam.DoFn.WindowParam: x, 1, 2), "nothing takes 1, 2"),
        (lambda p: beam.Map(lambda x: x, y=3), "unexpected keyword argument 'y'"),
        (lambda p: beam.CombinePerKey(3), "expected a CombineFn or a function"),
        (lambda p: p | beam.Create([1]) | beam.WindowInto(60), r"takes a window function, got 60"),
        (lambda p: beam.RunComputation(print, key=str), "takes an instance of a Computation"),
        (lambda p: {} | beam.Flatten(), "holds no collection"),
        (lambda p: beam.Map(max, p | beam.Create([1])), "max is given the collection .* as an argument.*AsList"),
        (lambda p: p | "locks" >> beam.Create([threading.Lock()]), "step 'locks': element .* of type lock cannot be"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(apply, message):
    with pytest.raises((TypeError, ValueError), match=message):
        apply(beam.Pipeline("LocalRunner"))


class TestWhatCannotTravel:
    """An unpicklable closure is refused at once, and the variable named."""

    def refused(self, build, **matches):
        pipeline = beam.Pipeline("LocalRunner")
        numbers = pipeline | beam.Create([1])
        started = time.perf_counter()
        with pytest.raises(ShippingError) as caught:
            build(numbers)
        assert time.perf_counter() - started < 1
        return str(caught.value)

    def test_a_local_variable(self):
        lock = (n for n in ())
        message = self.refused(lambda numbers: numbers | "lock it" >> beam.Map(lambda number: (number, lock)))
        assert "step 'lock it' cannot be sent to the workers: the variable 'lock' of " in message
        assert "make it in DoFn.setup()" in message

    def test_a_variable_of_a_function_that_the_function_calls(self):
        connection = socket.socket()

        def send(number):
            return connection.send(number)

        message = self.refused(lambda numbers: numbers | beam.Map(lambda number: send(number)))
        connection.close()
        assert "the variable 'connection' of" in message
        assert "the variable 'send' of" in message

    def test_an_attribute_of_a_do_fn(self):
        class Locked(beam.DoFn):
            def __init__(self):
                self.lock = (n for n in ())

            def process(self, number):
                yield number

        assert "the attribute 'lock' cannot be pickled" in self.refused(lambda n: n | beam.ParDo(Locked()))

    def test_an_item_of_a_dict_in_an_argument(self):
        message = self.refused(lambda n: n | beam.Map(lambda number, tools: number, {"lock": (n for n in ())}))
        assert "the item 'lock'" in message

    def test_a_combine_fn(self):
        lock = (n for n in ())
        message = self.refused(
            lambda n: (
                n
                | beam.Map(lambda number: (0, number))
                | "sum up" >> beam.CombinePerKey(lambda values: (lock, sum(values)))
            )
        )
        assert "step 'sum up'" in message
        assert "the variable 'lock'" in message

    def test_what_is_captured_without_being_used_may_be_anything_of_the_pipeline(self):
        class Composite(beam.PTransform):
            def expand(self, numbers):
                self.numbers, self.pipeline_of_it = numbers, numbers.pipeline
                return numbers | beam.Map(self.double)

            def double(self, number):
                return 2 * number

        assert values(lambda p: p | beam.Create([1]) | Composite()) == [2]


def test_later_changes_to_what_a_function_captured_are_not_seen():
    factor = [2]
    pipeline = beam.Pipeline(LocalRunner())
    seen = []
    doubled = pipeline | beam.Create([1]) | beam.Map(lambda number: factor[0] * number)
    from headrace.lowlevel import CallSink

    doubled | beam.io.Write(CallSink(lambda epoch, rows: seen.extend(rows)))
    factor[0] = 1000
    pipeline.run()
    assert [value for value, _ in seen] == [2]


class TestGroupingsThatWouldLoseData:
    def unbounded(self, windowing=None, options=()):
        pipeline = beam.Pipeline("LocalRunner", PipelineOptions(list(options)))
        pairs = pipeline | TestStream().add_elements([("a", 1)])
        return pairs if windowing is None else pairs | windowing

    def test_an_endless_input_needs_windows_or_a_trigger(self):
        with pytest.raises(ValueError, match=r"step 'GroupByKey': its input never ends.*with WindowInto"):
            self.unbounded() | beam.GroupByKey()
        self.unbounded(beam.WindowInto(window.FixedWindows(60))) | beam.GroupByKey()

    def test_a_trigger_that_finishes_is_refused(self):
        once = beam.WindowInto(
            window.FixedWindows(60),
            trigger=trigger.AfterCount(1),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        with pytest.raises(ValueError, match=r"'CombinePerKey\(sum\)': trigger .*AfterCount.* may finish.*Repeatedly"):
            self.unbounded(once) | beam.CombinePerKey(sum)
        self.unbounded(once, ["--allow_unsafe_triggers"]) | beam.CombinePerKey(sum)

    def test_defaults_of_a_global_combination_need_the_global_window(self):
        with pytest.raises(ValueError, match=r"FixedWindows\(.* have no last one; add \.without_defaults\(\)"):
            self.unbounded(beam.WindowInto(window.FixedWindows(60))) | beam.CombineGlobally(sum)


class TestErrorsOfSteps:
    """User code that raises stops the run; the step, the element and the user's own traceback are named."""

    def failing(self, *steps):
        with pytest.raises(StepError) as caught:
            values(lambda p: self.applied(p | beam.Create([1, 2, 3, 4]), steps))
        return caught.value

    def applied(self, numbers, steps):
        for index, step in enumerate(steps):
            numbers = numbers | f"step {index}" >> step
        return numbers

    def test_in_a_map(self):
        error = self.failing(beam.Map(lambda number: number - 3), beam.Map(lambda number: 1 // number))
        assert (error.step, error.value) == ("step 1", 0)
        assert "ZeroDivisionError" in error.cause
        assert "lambda number: 1 // number" in error.cause
        assert "headrace/sdk" not in error.cause

    def test_in_a_generator(self):
        class Boom(beam.DoFn):
            def process(self, number):
                yield number
                yield 1 // (number - 3)

        error = self.failing(beam.Map(lambda number: number), beam.ParDo(Boom()), beam.Filter(bool))
        assert (error.step, error.value) == ("step 1", 3)

    def test_in_a_filter_behind_a_flat_map(self):
        error = self.failing(beam.FlatMap(range), beam.Filter(lambda number: 1 // (number - 2)))
        assert (error.step, error.value) == ("step 1", 2)

    @pytest.mark.parametrize("hook", ["setup", "start_bundle", "finish_bundle"])
    def test_in_the_life_cycle(self, hook):
        class Boom(beam.DoFn):
            def process(self, number):
                yield number

        def fail(self):
            raise OSError("no connection")

        setattr(Boom, hook, fail)
        error = self.failing(beam.ParDo(Boom()))
        assert error.step == "step 0"
        assert "OSError: no connection" in error.cause

    def test_a_do_fn_that_returns_text(self):
        class Text(beam.DoFn):
            def process(self, number):
                return "text"

        error = self.failing(beam.ParDo(Text()))
        assert "the function returned the str 'text', which is no iterable of outputs" in error.cause

    def test_what_is_no_pair_before_a_grouping(self):
        error = self.failing(beam.Map(lambda number: number), beam.GroupByKey())
        assert (error.step, error.value) == ("step 1", 1)
        assert "it takes pairs (key, value), got 1" in error.cause

    def test_a_key_that_has_no_deterministic_encoding(self):
        error = self.failing(beam.Map(lambda number: (complex(number), 1)), beam.GroupByKey())
        assert error.step == "step 1"
        assert "cannot be encoded deterministically" in error.cause


def test_errors_have_one_base():
    assert issubclass(ShippingError, HeadraceError)
    assert issubclass(TopologyError, ValueError)


def test_hints_become_the_type_of_the_elements():
    pipeline = beam.Pipeline("LocalRunner")
    numbers = pipeline | beam.Create([1]).with_output_types(int)
    outputs = numbers | "split" >> beam.ParDo(lambda n: [n]).with_output_types(int, odd=str).with_outputs(
        "odd", main="m"
    )
    assert numbers.element_type is int
    assert (outputs.m.element_type, outputs.odd.element_type) == (int, str)


def test_hints_by_decorator():
    @beam.typehints.with_output_types(beam.typehints.KV[str, int])
    class Pairs(beam.DoFn):
        def process(self, word):
            yield word, len(word)

    @beam.typehints.with_input_types(str)
    @beam.typehints.with_output_types(int)
    class Lengths(beam.PTransform):
        def expand(self, words):
            return words | beam.Map(len)

    words = beam.Pipeline("LocalRunner") | beam.Create(["a"])
    assert (words | beam.ParDo(Pairs())).element_type == tuple[str, int]
    assert (words | Lengths()).element_type is int
