"""Fused stages give what the model says, step by step and element by element, whatever the steps are."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.runners.local import LocalRunner
from headrace.sdk.windows.window_fn import AssignContext
from headrace.transforms import window
from headrace.transforms.window import WindowedValue
from headrace.utils.timestamp import Timestamp
from tests.depth import examples

CHOSEN = window.IntervalWindow(0, 7)


class ByElement(window.NonMergingWindowFn):
    """Windows that do not follow from the timestamp."""

    def assign(self, context):
        return [window.IntervalWindow(0, 10 + abs(context.element) % 3)]

    def __eq__(self, other):
        return isinstance(other, ByElement)

    def __hash__(self):
        return 0


WINDOWS = [window.GlobalWindows(), window.FixedWindows(10), window.SlidingWindows(20, 10), ByElement()]


@dataclass(frozen=True)
class It:
    """An element as the model has it."""

    value: int
    second: float
    windows: tuple


@dataclass
class Model:
    """A collection as the model has it: the reference, with no thought of speed."""

    its: list[It]
    window_fn: object

    def assigned(self, value, second):
        context = AssignContext(Timestamp.of(second), element=value)
        return tuple(self.window_fn.assign(context))

    def each(self, function, sees_window=False):
        """A step: function(value[, window]) -> outputs, each a value, TimestampedValue or WindowedValue."""
        made = []
        for it in self.its:
            for windows in [(one,) for one in it.windows] if sees_window else [it.windows]:
                outputs = function(it.value, windows[0]) if sees_window else function(it.value)
                made += [self.output(output, it.second, windows) for output in outputs]
        return Model(made, self.window_fn)

    def output(self, output, second, windows):
        if isinstance(output, window.TimestampedValue):
            its = self.assigned(output.value, output.timestamp)
            return It(output.value, output.timestamp, its * len(windows))
        if isinstance(output, WindowedValue):
            return It(output.value, output.timestamp, output.windows * len(windows))
        return It(output, second, windows)

    def rewindowed(self, window_fn):
        after = Model([], window_fn)
        for it in self.its:
            after.its += [It(it.value, it.second, after.assigned(it.value, it.second)) for _ in it.windows]
        return after

    def regrouped(self):
        """By value modulo 3 and window, then taken apart again: everything at the end of its window."""
        its = [It(it.value, one.max_timestamp(), (one,)) for it in self.its for one in it.windows]
        return Model(its, self.window_fn)

    def rows(self):
        """What is seen of it from outside: a row for each window of an element."""
        return sorted((it.value, Timestamp.of(it.second).micros, str(one)) for it in self.its for one in it.windows)


def plus_one(value):
    return [value + 1]


def some(value):
    return [value] if value % 3 else []


def twice(value):
    return [value, value * 2] if value < 50 else []


def stamped(value):
    return [window.TimestampedValue(value, abs(value) % 40)]


def stamped_if_even(value):
    return [value if value % 2 else window.TimestampedValue(value, abs(value) % 40)]


def by_window(value, where):
    return [value + (0 if where == window.GlobalWindow() else int(where.end) % 7)]


def chosen(value):
    return [WindowedValue(value, abs(value) % 40, [CHOSEN]) if value % 5 == 0 else value]


def derived(value):
    """In a window of its own choice that is the one it would have anyway."""
    second = abs(value) % 40
    return [WindowedValue(value, second, [window.IntervalWindow(second // 10 * 10, second // 10 * 10 + 10)])]


def odd_apart(value):
    return [beam.TaggedOutput("odd", value) if value % 2 else value]


class OddApart(beam.DoFn):
    def process(self, value):
        yield beam.TaggedOutput("odd", window.TimestampedValue(value, 33)) if value % 2 else value


@dataclass(frozen=True)
class Step:
    """A step in both worlds."""

    name: str
    ours: object
    model: object
    needs_intervals: bool = False


def map_of(function):
    return lambda c, label: c | label >> beam.Map(lambda value: function(value)[0])


def flat_map_of(function):
    return lambda c, label: c | label >> beam.FlatMap(function)


def with_window(c, label):
    return c | label >> beam.Map(lambda value, where=beam.DoFn.WindowParam: by_window(value, where)[0])


def doubled_by_flatten(c, label):
    return (c, c | f"{label} plus" >> beam.Map(lambda value: value + 100)) | f"{label} both" >> beam.Flatten()


def odd_back(c, label):
    outputs = c | label >> beam.ParDo(OddApart()).with_outputs("odd", main="even")
    return (outputs.odd, outputs.even) | f"{label} both" >> beam.Flatten()


def regrouped(c, label):
    pairs = c | f"{label} key" >> beam.Map(lambda value: (value % 3, value))
    return pairs | f"{label} group" >> beam.GroupByKey() | f"{label} apart" >> beam.FlatMap(lambda pair: pair[1])


def model_of_doubled(model):
    return Model(model.its + model.each(lambda value: [value + 100]).its, model.window_fn)


def model_of_odd_back(model):
    return model.each(lambda value: [window.TimestampedValue(value, 33) if value % 2 else value])


def rewindow(window_fn):
    return Step(
        f"into {type(window_fn).__name__}",
        lambda c, label: c | label >> beam.WindowInto(window_fn),
        lambda model: model.rewindowed(window_fn),
    )


STEPS = [
    Step("map", map_of(plus_one), lambda model: model.each(plus_one)),
    Step("filter", lambda c, label: c | label >> beam.Filter(lambda v: v % 3), lambda model: model.each(some)),
    Step("flat map", flat_map_of(twice), lambda model: model.each(twice)),
    Step("stamp", map_of(stamped), lambda model: model.each(stamped)),
    Step("stamp some", map_of(stamped_if_even), lambda model: model.each(stamped_if_even)),
    Step("stamp by flat map", flat_map_of(stamped_if_even), lambda model: model.each(stamped_if_even)),
    Step("see window", with_window, lambda model: model.each(by_window, sees_window=True)),
    Step("choose", map_of(chosen), lambda model: model.each(chosen), needs_intervals=True),
    Step("derive", map_of(derived), lambda model: model.each(derived), needs_intervals=True),
    Step("flatten", doubled_by_flatten, model_of_doubled),
    Step("odd back", odd_back, model_of_odd_back),
    Step("drop odd", map_of(odd_apart), lambda model: model.each(lambda v: [] if v % 2 else [v])),
    Step("regroup", regrouped, Model.regrouped),
    *map(rewindow, WINDOWS),
]
elements = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


def see(value, when=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam):
    return value, when.micros, str(where)


def run(rows, steps, parallelism):
    seen = []
    with beam.Pipeline(LocalRunner(parallelism=parallelism)) as pipeline:
        collection = pipeline | beam.Create([window.TimestampedValue(value, second) for value, second in rows])
        for number, step in enumerate(steps):
            collection = step.ours(collection, f"{number} {step.name}")
        collection | beam.Map(see) | beam.io.Write(CallSink(lambda epoch, its: seen.extend(row for row, _ in its)))
    return sorted(seen)


def expected(rows, steps):
    model = Model([It(value, second, (window.GlobalWindow(),)) for value, second in rows], window.GlobalWindows())
    for step in steps:
        model = step.model(model)
    return model.rows()


def makes_sense(steps):
    """Windows can only be chosen where they are intervals."""
    window_fn = WINDOWS[0]
    for step in steps:
        if step.name.startswith("into "):
            window_fn = next(one for one in WINDOWS if step.name.endswith(type(one).__name__))
        if step.needs_intervals and isinstance(window_fn, window.GlobalWindows):
            return False
    return True


@settings(max_examples=examples(100, 5_000))
@given(elements, st.lists(st.sampled_from(STEPS), max_size=7).filter(makes_sense), st.integers(1, 3))
def test_fused_steps_give_what_the_model_says(rows, steps, parallelism):
    assert run(rows, steps, parallelism) == expected(rows, steps)


@settings(max_examples=examples(30, 1_000))
@given(elements, st.lists(st.sampled_from(STEPS), max_size=5).filter(makes_sense))
def test_the_order_of_elements_does_not_matter(rows, steps):
    assert run(rows[::-1], steps, 1) == run(rows, steps, 2)


def test_the_model_itself():
    into, stamp = (next(step for step in STEPS if step.name == name) for name in ("into SlidingWindows", "stamp"))
    # In two windows it stands for two elements, each of which is in two windows at its new time.
    twice = [(12, 12_000_000, one) for one in ("[0.0, 20.0)", "[0.0, 20.0)", "[10.0, 30.0)", "[10.0, 30.0)")]
    assert expected([(12, 3)], [into, stamp]) == twice
    assert expected([(12, 3)], [stamp, into]) == twice[::2]
