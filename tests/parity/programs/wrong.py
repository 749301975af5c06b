"""Programs that both packages refuse, when they are built or when they run."""

from __future__ import annotations

from collections.abc import Callable

from tests.parity.corpus import Program, timed
from tests.parity.watching import stream

WRONG: dict[str, tuple[Program, type[Exception], str]] = {}
"""Name -> program, what is raised, and what the message must say."""


def wrong(kind: type[Exception], message: str = "", *, streaming: bool = False):
    """Add a program to those that are refused: a decorator."""

    def register(build: Callable[..., object]) -> Callable[..., object]:
        WRONG[build.__name__] = (Program(build.__name__, build, streaming), kind, message)
        return build

    return register


@wrong(ValueError, streaming=True)
def group_a_stream_that_never_fires(beam, p):
    return stream(beam, p, 0, [(("a", 1), 1)]) | beam.GroupByKey()


@wrong(ValueError, streaming=True)
def group_with_a_trigger_that_loses_data(beam, p):
    pairs = stream(beam, p, 0, [(("a", 1), 1)])
    discarding = beam.trigger.AccumulationMode.DISCARDING
    windowed = beam.WindowInto(
        beam.window.FixedWindows(10), trigger=beam.trigger.AfterCount(2), accumulation_mode=discarding
    )
    return pairs | windowed | beam.GroupByKey()


@wrong(ValueError)
def trigger_without_accumulation_mode(beam, p):
    pairs = timed(beam, p, [(("a", 1), 1)])
    return (
        pairs | beam.WindowInto(beam.window.FixedWindows(10), trigger=beam.trigger.AfterWatermark()) | beam.GroupByKey()
    )


@wrong(ValueError)
def combine_globally_with_defaults_in_windows(beam, p):
    return timed(beam, p, [(1, 1)]) | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombineGlobally(sum)


@wrong(RuntimeError)
def two_steps_of_one_label(beam, p):
    numbers = p | beam.Create([1])
    return numbers | "Same" >> beam.Map(lambda x: x) | "Same" >> beam.Map(lambda x: x)


@wrong(TypeError)
def create_of_text(beam, p):
    return p | beam.Create("text")


@wrong(Exception)
def par_do_of_a_class(beam, p):
    class Same(beam.DoFn):
        def process(self, element):
            yield element

    return p | beam.Create([1]) | beam.ParDo(Same)


@wrong(TypeError)
def map_of_a_number(beam, p):
    return p | beam.Create([1]) | beam.Map(3)


@wrong(ValueError)
def fixed_windows_of_no_size(beam, p):
    return p | beam.Create([1]) | beam.WindowInto(beam.window.FixedWindows(0))


@wrong(ValueError)
def sliding_windows_of_no_size(beam, p):
    return p | beam.Create([1]) | beam.WindowInto(beam.window.SlidingWindows(0, 10))


@wrong(ValueError)
def sessions_without_a_gap(beam, p):
    return p | beam.Create([1]) | beam.WindowInto(beam.window.Sessions(0))


@wrong(ValueError)
def count_of_nothing(beam, p):
    return p | beam.Create([beam.trigger.AfterCount(0)])


@wrong(ValueError)
def main_output_among_the_tags(beam, p):
    return p | beam.Create([1]) | beam.Map(lambda x: x).with_outputs("a", main="a")


@wrong(ValueError)
def output_that_was_not_declared(beam, p):
    return (p | beam.Create([1]) | beam.Map(lambda x: x).with_outputs("a")).b


@wrong(RuntimeError)
def side_input_in_sessions(beam, p):
    side = timed(beam, p, [(1, 1)], "Side") | beam.WindowInto(beam.window.Sessions(5))
    return p | beam.Create([1]) | beam.Map(lambda x, side: x, beam.pvalue.AsList(side))


@wrong(Exception)
def side_input_that_is_a_bare_collection(beam, p):
    return p | beam.Create([1]) | beam.Map(lambda x, side: x, p | "Side" >> beam.Create([2]))


@wrong(Exception, "more than one|several|2 values")
def side_singleton_of_several_values(beam, p):
    side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([1, 2]))
    return p | beam.Create([1]) | beam.Map(lambda x, side: x, side)


@wrong(Exception)
def side_mapping_of_what_is_no_pair(beam, p):
    side = beam.pvalue.AsDict(p | "Side" >> beam.Create([1, 2]))
    return p | beam.Create([1]) | beam.Map(lambda x, side: x, side)


@wrong(Exception, streaming=True)
def watermark_that_goes_back(beam, p):
    return stream(beam, p, 10, 5)


@wrong(Exception)
def group_what_is_no_pair(beam, p):
    return p | beam.Create([1, 2]) | beam.GroupByKey()


@wrong(Exception, "division by zero")
def map_that_raises(beam, p):
    return p | "Numbers" >> beam.Create([1, 0]) | "Invert" >> beam.Map(lambda x: 1 / x)


@wrong(Exception, "out of luck")
def combine_that_raises(beam, p):
    def unlucky(values):
        if any(value == 13 for value in values):
            raise ValueError("out of luck")
        return 0

    return p | beam.Create([("a", 13)]) | beam.CombinePerKey(unlucky)


@wrong(Exception, "unexpected")
def assertion_that_does_not_hold(beam, p):
    numbers = p | beam.Create([1, 2, 4])
    beam.testing.util.assert_that(numbers, beam.testing.util.equal_to([1, 2, 3]))
    return numbers


def stateful(beam, **methods):
    """A `ParDo` of a DoFn with the given methods."""
    return beam.ParDo(type("Stateful", (beam.DoFn,), methods)())


@wrong(ValueError)
def two_states_of_one_name(beam, p):
    one, two = (beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder()) for _ in range(2))

    def process(self, pair, first=beam.DoFn.StateParam(one), second=beam.DoFn.StateParam(two)):
        pass

    return p | beam.Create([("a", 1)]) | stateful(beam, process=process)


@wrong(ValueError)
def one_state_twice(beam, p):
    spec = beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder())

    def process(self, pair, first=beam.DoFn.StateParam(spec), second=beam.DoFn.StateParam(spec)):
        pass

    return p | beam.Create([("a", 1)]) | stateful(beam, process=process)


@wrong(ValueError, "on_timer")
def a_timer_that_calls_nothing(beam, p):
    spec = beam.transforms.userstate.TimerSpec("timer", beam.transforms.timeutil.TimeDomain.WATERMARK)

    def process(self, pair, timer=beam.DoFn.TimerParam(spec)):
        pass

    return p | beam.Create([("a", 1)]) | stateful(beam, process=process)


@wrong(ValueError)
def a_state_parameter_of_a_timer(beam, p):
    spec = beam.transforms.userstate.TimerSpec("timer", beam.transforms.timeutil.TimeDomain.WATERMARK)
    return beam.DoFn.StateParam(spec)


@wrong(Exception)
def state_of_what_is_no_pair(beam, p):
    spec = beam.transforms.userstate.BagStateSpec("bag", beam.coders.VarIntCoder())

    def process(self, pair, bag=beam.DoFn.StateParam(spec)):
        pass

    return p | beam.Create([1, 2]) | stateful(beam, process=process)


@wrong(RuntimeError, "(?i)start.bundle")
def outputs_of_start_bundle(beam, p):
    class Early(beam.DoFn):
        def start_bundle(self):
            yield 0

        def process(self, element):
            yield element

    return p | beam.Create([1]) | beam.ParDo(Early())


@wrong(Exception, "int.* str|int.*<class 'str'>")
def a_function_of_other_values_than_it_states(beam, p):
    @beam.typehints.with_input_types(beam.typehints.Iterable[int])
    def total(values):
        return sum(values)

    return p | beam.Create(["a"]) | beam.CombineGlobally(total)
