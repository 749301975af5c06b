"""Programs of Beam's SDK, unchanged: what HeadraceRunner gives is what Beam's own runner gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.runners.beam import HeadraceRunner

LINES = ["to be or not to be", "that is the question", ""]


def at_length(word):
    return TimestampedValue((word[:1], len(word)), 10 * len(word))


def words(pipeline):
    return pipeline | beam.Create(LINES) | "Split" >> beam.FlatMap(str.split)


def counts(pipeline):
    return words(pipeline) | beam.combiners.Count.PerElement()


def windows(pipeline):
    timed = words(pipeline) | beam.Map(at_length) | beam.WindowInto(window.FixedWindows(30))
    return timed | beam.CombinePerKey(sum) | beam.Map(lambda pair, at=beam.DoFn.WindowParam: (*pair, at.start.micros))


def sliding_groups(pipeline):
    timed = words(pipeline) | beam.Map(at_length) | beam.WindowInto(window.SlidingWindows(40, 20))
    return (
        timed
        | beam.GroupByKey()
        | beam.MapTuple(
            lambda key, values, at=beam.DoFn.WindowParam, time=beam.DoFn.TimestampParam: (
                key,
                sorted(values),
                at.end.micros,
                time.micros // 1000,  # Beam's runner has milliseconds where elements pass between stages
            )
        )
    )


def sessions(pipeline):
    timed = words(pipeline) | beam.Map(at_length) | beam.WindowInto(window.Sessions(15))
    return (
        timed | beam.combiners.Count.PerKey() | beam.Map(lambda pair, at=beam.DoFn.WindowParam: (pair, at.end.micros))
    )


class ByHalves(window.NonMergingWindowFn):
    """Windows of the user's own: the length of words, by halves."""

    def assign(self, context):
        start = context.timestamp.micros // 50_000_000 * 50
        return [window.IntervalWindow(start, start + 50)]

    def get_window_coder(self):
        return IntervalWindowCoder()


def own_windows(pipeline):
    timed = words(pipeline) | beam.Map(at_length) | beam.WindowInto(ByHalves())
    return timed | beam.CombinePerKey(max) | beam.Map(lambda pair, at=beam.DoFn.WindowParam: (*pair, at.start.micros))


def side_inputs(pipeline):
    counted = counts(pipeline)
    total = counted | beam.Values() | beam.CombineGlobally(sum)
    return counted | "Share" >> beam.Map(
        lambda pair, total, known, every: (pair[0], pair[1] / total, known[pair[0]], len(every)),
        beam.pvalue.AsSingleton(total),
        beam.pvalue.AsDict(counted),
        every=beam.pvalue.AsList(counted),
    )


class Lengths(beam.DoFn):
    """Tagged outputs, a constant argument, outputs at the end of the bundle."""

    def __init__(self):
        self._seen = 0

    def setup(self):
        self._seen = 0

    def process(self, word, least, pane=beam.DoFn.PaneInfoParam):
        self._seen += 1
        yield word if len(word) >= least else beam.pvalue.TaggedOutput("short", (word, pane.is_first))

    def finish_bundle(self):
        from apache_beam.utils.windowed_value import WindowedValue

        if self._seen:
            yield WindowedValue("end", Timestamp(5), [window.GlobalWindow()])


def tags(pipeline):
    long, short = words(pipeline) | beam.ParDo(Lengths(), 3).with_outputs("short", main="long")
    ends = long | beam.Filter(lambda word: word == "end") | beam.Distinct()
    return (short, long | "Not" >> beam.Filter(lambda word: word != "end"), ends) | beam.Flatten()


class Running(beam.DoFn):
    """State of several kinds, and timers that put out what they hold."""

    SUM = userstate.CombiningValueStateSpec("sum", sum)
    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())
    LENGTHS = userstate.SetStateSpec("lengths", VarIntCoder())
    HISTORY = userstate.OrderedListStateSpec("history", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        total=beam.DoFn.StateParam(SUM),
        seen=beam.DoFn.StateParam(SEEN),
        last=beam.DoFn.StateParam(LAST),
        lengths=beam.DoFn.StateParam(LENGTHS),
        history=beam.DoFn.StateParam(HISTORY),
        end=beam.DoFn.TimerParam(END),
        at=beam.DoFn.WindowParam,
    ):
        _, length = pair
        total.add(length)
        seen.add(length)
        lengths.add(length)
        last.write(max(last.read() or 0, length))
        history.add((Timestamp(length), length))
        end.set(at.end)

    @userstate.on_timer(END)
    def ended(
        self,
        key=beam.DoFn.KeyParam,
        at=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(SUM),
        seen=beam.DoFn.StateParam(SEEN),
        last=beam.DoFn.StateParam(LAST),
        lengths=beam.DoFn.StateParam(LENGTHS),
        history=beam.DoFn.StateParam(HISTORY),
    ):
        bounds = [(time.micros, length) for time, length in history.read_range(Timestamp(0), Timestamp(4))]
        yield key, at.start.micros, total.read(), sorted(seen.read()), last.read(), sorted(lengths.read()), bounds


def state(pipeline):
    timed = words(pipeline) | beam.Map(at_length) | beam.WindowInto(window.FixedWindows(30))
    return timed | beam.ParDo(Running())


class Mean(beam.CombineFn):
    """A CombineFn of the user's own, with a set-up."""

    def setup(self):
        self.scale = 2

    def create_accumulator(self):
        return 0, 0

    def add_input(self, accumulator, element):
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        sums, numbers = zip(*accumulators, strict=True)
        return sum(sums), sum(numbers)

    def extract_output(self, accumulator):
        return accumulator[0] * self.scale / accumulator[1]


def own_combiner(pipeline):
    return words(pipeline) | beam.Map(lambda word: (word[0], len(word))) | beam.CombinePerKey(Mean())


def keys_of_many_types(pipeline):
    pairs = [((1, "a"), 1), ((1, "a"), 2), (None, 3), (b"x", 4), ("x", 5), (1, 6), (1, 7), ((1, ("b",)), 8)]
    return (
        pipeline
        | beam.Create(pairs)
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: (repr(key), sorted(values)))
    )


def joined(pipeline):
    left = pipeline | "Left" >> beam.Create([("a", 1), ("b", 2), ("a", 3)])
    right = pipeline | "Right" >> beam.Create([("a", "x"), ("c", "y")])
    both = {"left": left, "right": right} | beam.CoGroupByKey()
    return both | beam.MapTuple(lambda key, groups: (key, sorted(groups["left"]), sorted(groups["right"])))


def of_transforms(pipeline):
    numbers = pipeline | beam.Create(range(20))
    top = numbers | beam.combiners.Top.Of(3)
    batches = numbers | beam.Map(lambda number: (number % 2, number)) | beam.GroupIntoBatches(5)
    sizes = batches | beam.MapTuple(lambda key, batch: (key, len(list(batch))))
    shuffled = numbers | beam.Reshuffle() | beam.combiners.Mean.Globally()
    return (top, sizes, shuffled) | beam.Flatten()


def accumulating(pipeline):
    timed = words(pipeline) | beam.Map(at_length)
    fired = timed | beam.WindowInto(
        window.FixedWindows(30),
        trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=60,
    )
    return fired | beam.CombinePerKey(sum)


class AtEnds(beam.DoFn):
    def process(self, pair, time=beam.DoFn.TimestampParam, at=beam.DoFn.WindowParam):
        yield "do fn", type(time), at.end.micros - time.micros, pair
        yield TimestampedValue(("stamped", pair), time)


def of_windows(pair, time=beam.DoFn.TimestampParam, at=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return pair[0], time.micros, at.start.micros, at.end.micros, pane.index, int(pane.timing)


def of_classes(pair, time=beam.DoFn.TimestampParam, at=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return pair[0], type(time), type(at), type(at.start), at.start, type(pane), pane.is_first, pane.timing


def parameters(pipeline):
    """What Beam gives to functions, also where Headrace sees through them; with items of tuples as parameters."""
    # Beam's runner has milliseconds where elements pass between stages: no result at the last microsecond of a window.
    earliest = window.TimestampCombiner.OUTPUT_AT_EARLIEST
    windows = beam.WindowInto(window.SlidingWindows(40, 20), timestamp_combiner=earliest)
    timed = words(pipeline) | beam.Map(at_length) | windows
    summed = timed | beam.CombinePerKey(sum)
    steps = [
        beam.Map(of_windows),
        beam.Map(of_classes),
        beam.Map(lambda pair, time=beam.DoFn.TimestampParam: time),
        beam.MapTuple(lambda key, count, at=beam.DoFn.WindowParam, factor=1: (key, count * factor, at), factor=3),
        beam.FlatMapTuple(lambda key, count, at=beam.DoFn.WindowParam: [key, at.start] * count),
        beam.Filter(lambda pair, at=beam.DoFn.WindowParam: at.start.micros > 0),
        beam.ParDo(AtEnds()),
    ]
    unfired = [timed | f"Unfired {number}" >> step for number, step in enumerate(steps)]
    return (*unfired, *(summed | f"Fired {number}" >> step for number, step in enumerate(steps))) | beam.Flatten()


PROGRAMS = [
    parameters,
    counts,
    windows,
    sliding_groups,
    sessions,
    own_windows,
    side_inputs,
    tags,
    state,
    own_combiner,
    keys_of_many_types,
    joined,
    of_transforms,
    accumulating,
]


def told(rows, path):
    Path(path).write_text("\n".join(sorted(map(repr, rows))))


def results(runner: object, build: Callable[..., object], folder: Path) -> list[str]:
    """What a program puts out, as sorted text."""
    path = folder / f"{type(runner).__name__} {build.__name__}"
    with beam.Pipeline(runner=runner) as pipeline:
        rows = build(pipeline) | "Whole" >> beam.WindowInto(window.GlobalWindows()) | "Rows" >> beam.combiners.ToList()
        _ = rows | "Tell" >> beam.Map(told, str(path))
    return path.read_text().split("\n")


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_as_beam(runner: HeadraceRunner, build: Callable[..., object], tmp_path: Path) -> None:
    expected = results(FnApiRunner(), build, tmp_path)
    assert len(expected) > 1
    assert results(runner, build, tmp_path) == expected
