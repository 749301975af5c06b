"""Stateful DoFns of Beam: keys, timers in both domains, and what a restarted program must not change."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import deduplicate, userstate, window
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from headrace.lowlevel.errors import HeadraceError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.rules import RULES
from headrace.runners.beam.translation import Translation
from headrace.runners.local import LocalRunner
from headrace.sdk.pipeline.pipeline import Pipeline

_told: list[object] = []


def tell(element):
    _told.append(element)


def told(runner: object, build: Callable[[beam.Pipeline], object]) -> list[str]:
    _told.clear()
    with beam.Pipeline(runner=runner) as pipeline:
        _ = build(pipeline) | "Tell" >> beam.Map(tell)
    return sorted(map(repr, _told))


class Numbers(beam.DoFn):
    """The number of an element among those of its key, and at the end the key as a timer sees it."""

    COUNT = userstate.CombiningValueStateSpec("count", sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(self, pair, count=beam.DoFn.StateParam(COUNT), end=beam.DoFn.TimerParam(END)):
        count.add(1)
        end.set(10)
        yield type(pair[0]).__name__, pair[0], count.read()

    @userstate.on_timer(END)
    def end(self, key=beam.DoFn.KeyParam, at=beam.DoFn.TimestampParam):
        yield "end", key, at.micros


def keys_of_many_types(pipeline):
    keys = [1, 2.5, (1, "a"), (1, "a"), None, b"x", "x", ("a", (2,)), ("a", (2,)), 1]
    return pipeline | beam.Create([(key, 0) for key in keys]) | beam.ParDo(Numbers())


def keys_of_a_declared_type(pipeline):
    pairs = pipeline | beam.Create([((1, "a"), 0), ((2, "a"), 0), ((1, "a"), 0)])
    typed = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[tuple[int, str], int])
    return typed | beam.ParDo(Numbers())


class Timers(beam.DoFn):
    """Dynamic tags, replaced and cleared timers, a chain of timers, and a bag that is read in each way."""

    AT = userstate.TimerSpec("at", userstate.TimeDomain.WATERMARK)
    NEXT = userstate.TimerSpec("next", userstate.TimeDomain.WATERMARK)
    BAG = userstate.BagStateSpec("bag", coders.VarIntCoder())

    def process(self, pair, at=beam.DoFn.TimerParam(AT), following=beam.DoFn.TimerParam(NEXT)):
        at.set(5, dynamic_timer_tag="replaced")
        at.set(6, dynamic_timer_tag="replaced")
        at.set(7, dynamic_timer_tag="cleared")
        at.clear(dynamic_timer_tag="cleared")
        at.set(8)
        following.set(1)

    @userstate.on_timer(AT)
    def fired(
        self,
        tag=beam.DoFn.DynamicTimerTagParam,
        at=beam.DoFn.TimestampParam,
        where=beam.DoFn.WindowParam,
    ):
        yield tag, at.micros, where.start.micros, where.end.micros

    @userstate.on_timer(NEXT)
    def chain(
        self,
        at=beam.DoFn.TimestampParam,
        following=beam.DoFn.TimerParam(NEXT),
        bag=beam.DoFn.StateParam(BAG),
    ):
        bag.add(at.micros // 1_000_000)
        yield "chain", list(bag.read())
        if at < 4:
            following.set(at + 1)


def timers(pipeline):
    timed = pipeline | beam.Create([("k", 0)]) | beam.Map(lambda pair: TimestampedValue(pair, 0))
    return timed | beam.WindowInto(FixedWindows(20)) | beam.ParDo(Timers())


class Late(beam.DoFn):
    """A timer in processing time, set beyond the end of the input and of the window; its output has its time."""

    SOON = userstate.TimerSpec("soon", userstate.TimeDomain.REAL_TIME)

    def process(self, pair, soon=beam.DoFn.TimerParam(SOON)):
        soon.set(time.time() + 0.3)

    @userstate.on_timer(SOON)
    def fired(self, at=beam.DoFn.TimestampParam, where=beam.DoFn.WindowParam):
        yield at.micros // 3_600_000_000, where.end.micros


def processing_time(pipeline, windows=FixedWindows(10)):
    def stamped(element, at=beam.DoFn.TimestampParam):
        return element, at.micros // 3_600_000_000

    pairs = pipeline | beam.Create([("k", 0)]) | beam.Map(lambda pair: TimestampedValue(pair, 5))
    return pairs | beam.WindowInto(windows) | beam.ParDo(Late()) | beam.Map(stamped)


def processing_time_without_windows(pipeline):
    return processing_time(pipeline, window.GlobalWindows())


def deduplicated(pipeline):
    """The times at which Beam's own transform forgets an element are after the ends of some windows."""
    seconds = [("a", 1), ("a", 2), ("b", 9), ("b", 9), ("a", 11), ("a", 19), ("a", 25)]
    timed = pipeline | beam.Create(seconds) | beam.Map(lambda pair: TimestampedValue(pair[0], pair[1]))
    windowed = timed | beam.WindowInto(FixedWindows(10))
    return (
        windowed
        | deduplicate.Deduplicate(processing_time_duration=None, event_time_duration=5)
        | beam.Map(lambda element, where=beam.DoFn.WindowParam: (element, int(where.end)))
    )


PROGRAMS = [
    keys_of_many_types,
    keys_of_a_declared_type,
    timers,
    processing_time,
    processing_time_without_windows,
    deduplicated,
]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_as_beam(build: Callable[[beam.Pipeline], object]) -> None:
    expected = told(FnApiRunner(), build)
    assert expected
    assert told(HeadraceRunner(), build) == expected


def test_keys_are_those_of_the_coder_and_not_of_python() -> None:
    # In a bundle, Beam's runner gives equal keys of Python one state, even if their bytes are others.
    keys = [(1, 0), (True, 0), (1.0, 0), ((1, "a"), 0), ((True, "a"), 0)]
    seen = told(HeadraceRunner(), lambda pipeline: pipeline | beam.Create(keys) | beam.ParDo(Numbers()))
    counts = [text for text in seen if "end" not in text]
    assert counts == [
        "('bool', True, 1)",
        "('float', 1.0, 1)",
        "('int', 1, 1)",
        "('tuple', (1, 'a'), 1)",
        "('tuple', (True, 'a'), 1)",
    ]


def test_a_bag_is_iterable_and_an_iterator() -> None:
    class First(beam.DoFn):
        BAG = userstate.BagStateSpec("bag", coders.VarIntCoder())

        def process(self, pair, bag=beam.DoFn.StateParam(BAG)):
            values = bag.read()
            yield next(values, None), list(values), list(values)
            bag.add(pair[1])

    seen = told(HeadraceRunner(), lambda pipeline: pipeline | beam.Create([("k", 1), ("k", 2)]) | beam.ParDo(First()))
    assert seen == ["(1, [1], [1])", "(None, [], [])"]


def translated(program: beam.Pipeline, runner: LocalRunner, **options: object) -> Pipeline:
    """A program of Beam's as a pipeline of Headrace, which a runner of the engine runs."""
    made = Pipeline(runner, options=PipelineOptions([], pipeline_type_check=False, **options))
    Translation(made, RULES).translate(program.transforms_stack[0])
    return made


@pytest.mark.parametrize("build", [timers, processing_time], ids=lambda build: build.__name__)
def test_no_state_is_left(build: Callable[[beam.Pipeline], object]) -> None:
    program, runner = beam.Pipeline(runner=HeadraceRunner()), LocalRunner()
    _ = build(program)
    translated(program, runner).run().wait_until_finish()
    assert runner.stores
    assert not [count for store in runner.stores.values() for count in store.count().values() if count]


# Checkpoints


class Halves(window.NonMergingWindowFn):
    """Windows of the user's own."""

    def assign(self, context):
        start = context.timestamp.micros // 50_000_000 * 50
        return [window.IntervalWindow(start, start + 50)]

    def get_window_coder(self):
        return IntervalWindowCoder()


class Thirds(Halves):
    """Other windows."""


def kept(coder):
    class Keeps(beam.DoFn):
        SUM = userstate.ReadModifyWriteStateSpec("sum", coder)

        def process(self, pair, total=beam.DoFn.StateParam(SUM)):
            total.write((total.read() or 0) + pair[1])
            yield pair[0], total.read()

    return Keeps()


class Mean(beam.CombineFn):
    def create_accumulator(self):
        return 0, 0

    def add_input(self, accumulator, element):
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        sums, numbers = zip(*accumulators, strict=True)
        return sum(sums), sum(numbers)

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1]


class Median(Mean):
    """Another combiner."""


def typed(hint):
    return "Typed" >> beam.Map(lambda pair: pair).with_output_types(tuple[hint, int])


def windowed(fn):
    return "Where" >> beam.WindowInto(fn)


STEPS = {
    "windows": ([windowed(Halves()), "Group" >> beam.GroupByKey()], [windowed(Thirds()), "Group" >> beam.GroupByKey()]),
    "combiner": (["Mean" >> beam.CombinePerKey(Mean())], ["Mean" >> beam.CombinePerKey(Median())]),
    "coder": (
        [typed(str), "Keep" >> beam.ParDo(kept(coders.VarIntCoder()))],
        [typed(str), "Keep" >> beam.ParDo(kept(coders.FastPrimitivesCoder()))],
    ),
    "keys": (
        [typed(object), "Keep" >> beam.ParDo(kept(coders.VarIntCoder()))],
        [typed(float), "Keep" >> beam.ParDo(kept(coders.VarIntCoder()))],
    ),
    "grouped keys": (
        [typed(object), "Group" >> beam.GroupByKey()],
        [typed(float), "Group" >> beam.GroupByKey()],
    ),
    "combined keys": (
        [typed(object), "Mean" >> beam.CombinePerKey(Mean())],
        [typed(float), "Mean" >> beam.CombinePerKey(Mean())],
    ),
}
MESSAGES = {
    "windows": "has windows BeamWindowFn(Thirds with IntervalWindowCoder) instead of BeamWindowFn(Halves with",
    "combiner": "has combiner BeamCombineFn(Median) instead of BeamCombineFn(Mean)",
    "coder": "ReadModifyWriteStateSpec with BeamStateCoder(FastPrimitivesCoder) instead of",
    **dict.fromkeys(("keys", "grouped keys", "combined keys"), "has keys encoded by FloatCoder instead of Determ"),
}


def run(steps: list[beam.PTransform], checkpoint: Path) -> None:
    """Run a program of Beam's on a checkpoint."""
    program = beam.Pipeline(runner=HeadraceRunner())
    collection = program | beam.Create([("k", 1), ("k", 2)])
    for step in steps:
        collection = collection | step
    translated(program, LocalRunner(), checkpoint=str(checkpoint)).run().wait_until_finish()


@pytest.mark.parametrize("changed", STEPS)
def test_a_checkpoint_knows_what_the_program_may_not_change(changed: str, tmp_path: Path) -> None:
    first, second = STEPS[changed]
    run(first, tmp_path / "checkpoint")
    run(first, tmp_path / "checkpoint")
    with pytest.raises(HeadraceError) as refused:
        run(second, tmp_path / "checkpoint")
    assert MESSAGES[changed] in str(refused.value)
