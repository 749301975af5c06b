"""State of a DoFn: every kind of it, by key and window, over many bundles, and nothing left behind."""

from __future__ import annotations

import gc
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import CallSink, StepError, TopologyError
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.runners.local import LocalRunner
from headrace.runners.local.executor import Scheduler
from headrace.sdk.coders.coder import FloatCoder, StrUtf8Coder, VarIntCoder
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.sdk.userstate.collection_states import BagState, chunk, values_of
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from headrace.transforms.window import FixedWindows, GlobalWindow, Sessions, SlidingWindows, TimestampedValue
from headrace.utils.timestamp import Timestamp
from tests.unit.collected import collect, values

StateParam, TimerParam = beam.DoFn.StateParam, beam.DoFn.TimerParam


def stream(*bundles):
    """Bundles of (key, value) or ((key, value), time), and numbers: the watermark moves there."""
    script = TestStream()
    for bundle in bundles:
        if isinstance(bundle, (int, float)):
            script.advance_watermark_to(bundle)
        else:
            stamped = [pair if isinstance(pair[0], tuple) else (pair, 0) for pair in bundle]
            script.add_elements([TimestampedValue(value, time) for value, time in stamped])
    return script.advance_watermark_to_infinity()


def told(fn, *bundles, windows=None, scheduler=None):
    """What a DoFn puts out for the bundles."""
    runner = LocalRunner() if scheduler is None else scheduler.runner
    rows = []
    with beam.Pipeline(runner) as pipeline:
        pairs = pipeline | stream(*bundles)
        pairs = pairs if windows is None else pairs | beam.WindowInto(windows)
        out = pairs | "step" >> beam.ParDo(fn)
        out | beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    for place, copy in runner.stores.items():
        assert copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}, place
    return rows


class Counting(Scheduler):
    """Counts, with each epoch, what the step kept from the epochs before."""

    def __init__(self):
        self.runner = LocalRunner(scheduler=self)
        self.counts = []

    def step(self, name, epoch):
        if name == "committed":
            self.counts.append(self.runner.stores["step", 0].count())


class Commanded(beam.DoFn):
    """Does to its state what the values say: methods of it, with arguments."""

    def __init__(self, spec):
        self.spec = spec

    def run(self, pair, state):
        key, (name, *arguments) = pair
        result = getattr(state, name)(*arguments)
        if name.startswith("read"):
            yield key, result


def commanded(spec):
    class Fn(Commanded):
        def process(self, pair, state=StateParam(spec)):
            return self.run(pair, state)

    return Fn(spec)


def test_a_value_is_read_and_replaced_per_key_over_bundles():
    fn = commanded(ReadModifyWriteStateSpec("last"))
    read = ("read",)
    cleared = [("a", ("clear",)), ("a", read)]
    rows = told(fn, [("a", read)], [("a", ("write", 1)), ("a", read)], [("b", read), ("a", read)], cleared)
    assert rows == [("a", None), ("a", 1), ("b", None), ("a", 1), ("a", None)]


def test_a_bag_keeps_what_is_added_in_order_however_much_it_is():
    fn = commanded(BagStateSpec("bag"))
    bundles = [[("k", ("add", "x" * n)), ("k", ("add", n))] for n in range(0, 3000, 100)]
    (row,) = told(fn, *bundles, [("k", ("read",))])
    assert row == ("k", [value for n in range(0, 3000, 100) for value in ("x" * n, n)])


def test_a_bag_that_is_cleared_begins_anew():
    fn = commanded(BagStateSpec("bag"))
    big = [("k", ("add", "x" * 5000))]
    rows = told(
        fn, big, big, [("k", ("clear",)), ("k", ("read",)), ("k", ("add", 1))], [("k", ("add", 2)), ("k", ("read",))]
    )
    assert rows == [("k", []), ("k", [1, 2])]


def test_what_a_bag_gives_is_the_readers_own():
    class Mine(beam.DoFn):
        BAG = BagStateSpec("bag")

        def process(self, pair, bag=StateParam(BAG)):
            bag.add(pair[1])
            found = bag.read()
            found.append("mine")
            yield found

    assert told(Mine(), [("k", 1), ("k", 2)]) == [[1, "mine"], [1, 2, "mine"]]


class Cells(dict):
    """Cells of a window, with what was done to them."""

    def __init__(self):
        self.written: list[int] = []
        self.seen = 0

    def read(self, name):
        return self.get(name)

    def write(self, name, data):
        self.written.append(len(data))
        self[name] = data

    def erase(self, name):
        self.pop(name, None)

    def scan(self, prefix):
        for name in sorted(self):
            if name.startswith(prefix):
                self.seen += 1
                yield name, self[name]


def test_to_add_to_a_bag_writes_what_is_added_and_not_the_rest():
    cells, spec = Cells(), BagStateSpec("bag")
    for n in range(2000):
        bag = spec.open(cells)
        bag.add(n)
        bag.store()
    bag = spec.open(cells)
    assert bag.read() == list(range(2000))
    assert max(cells.written) < 5000 and len(cells) < 15
    bag.clear()
    bag.store()
    assert cells == {}


def test_to_add_to_a_set_what_is_there_writes_nothing():
    cells, spec = Cells(), SetStateSpec("set")
    for value in ("a", "b", "a"):
        values = spec.open(cells)
        values.add(value)
        values.store()
    assert len(cells.written) == 2 and cells.seen == 0


def test_what_a_bundle_does_not_touch_is_neither_read_nor_written():
    for kind in (ReadModifyWriteStateSpec, BagStateSpec, SetStateSpec, OrderedListStateSpec):
        # Anything that it asked of its cells would fail.
        kind("untouched").open(None).store()


def test_a_set_has_each_value_once():
    fn = commanded(SetStateSpec("set"))
    rows = told(
        fn,
        [("k", ("add", value)) for value in (1, 1.0, "a", ("a", 1), frozenset([1]))],
        [("k", ("add", value)) for value in (True, "a", frozenset([1]), "b")],
        [("k", ("read",)), ("k", ("clear",)), ("k", ("read",)), ("k", ("add", "c"))],
        [("k", ("read",))],
    )
    assert rows == [("k", {1, "a", ("a", 1), frozenset([1]), "b"}), ("k", set()), ("k", {"c"})]


@pytest.mark.parametrize("arguments", [(sum,), (None, sum), (beam.combiners.CountCombineFn(),)])
def test_combined_values_of_nothing_and_of_something(arguments):
    fn = commanded(CombiningValueStateSpec("sum", *arguments))
    counts = not callable(arguments[-1])
    rows = told(
        fn,
        [("k", ("read",)), ("k", ("add", 2)), ("k", ("add", 3)), ("k", ("read",))],
        [("k", ("add", 5)), ("k", ("read",)), ("k", ("clear",)), ("k", ("read",))],
    )
    assert [row[1] for row in rows] == ([0, 2, 3, 0] if counts else [0, 5, 10, 0])


def test_a_result_that_was_put_out_does_not_change_when_more_is_added():
    class Lists(beam.DoFn):
        ALL = CombiningValueStateSpec("all", beam.combiners.ToListCombineFn())

        def process(self, pair, state=StateParam(ALL)):
            state.add(pair[1])
            yield state.read()

    assert told(Lists(), [("k", 1), ("k", 2)], [("k", 3)]) == [[1], [1, 2], [1, 2, 3]]


def test_an_ordered_list_is_read_and_cleared_by_stretches_of_time():
    fn = commanded(OrderedListStateSpec("list"))
    add = [(("k"), ("add", (time, name))) for time, name in [(30, "d"), (10, "b"), (10, "a"), (-5, "z"), (20, "c")]]
    rows = told(
        fn,
        add,
        [("k", ("read",)), ("k", ("add", (Timestamp(10), "again"))), ("k", ("read_range", 10, 30))],
        [("k", ("clear_range", 10, 11)), ("k", ("read",)), ("k", ("read_range", 0, 21)), ("k", ("read_range", 30, 10))],
        [("k", ("add", (10.5, "new"))), ("k", ("clear_range", 10, 20)), ("k", ("read",)), ("k", ("clear",))],
        [("k", ("read",))],
    )
    assert [[(float(time), value) for time, value in row] for _, row in rows] == [
        [(-5, "z"), (10, "b"), (10, "a"), (20, "c"), (30, "d")],
        [(10, "b"), (10, "a"), (10, "again"), (20, "c")],
        [(-5, "z"), (20, "c"), (30, "d")],
        [(20, "c")],
        [],
        [(-5, "z"), (20, "c"), (30, "d")],
        [],
    ]


def test_a_stretch_of_an_ordered_list_is_read_without_the_rest():
    cells, spec = Cells(), OrderedListStateSpec("list")
    ordered = spec.open(cells)
    for day in range(365):
        ordered.add((day * 86400, day))
    ordered.store()
    day = spec.open(cells).read_range(100 * 86400, 102 * 86400)
    assert [value for _, value in day] == [100, 101] and cells.seen < 40


def test_values_of_an_instant_come_together_over_bundles():
    fn = commanded(OrderedListStateSpec("list"))
    bundles = [[("k", ("add", (5, name)))] for name in "cab"]
    assert told(fn, *bundles, [("k", ("read",))]) == [("k", [(Timestamp(5), name) for name in "cab"])]


def test_a_window_that_opens_and_closes_in_one_bundle_leaves_nothing():
    runner = LocalRunner()
    with beam.Pipeline(runner) as pipeline:
        pairs = pipeline | beam.Create([("a", 1), ("b", 2)]) | beam.WindowInto(FixedWindows(10))
        pairs | "step" >> beam.ParDo(KeepsEverything())
    assert runner.stores["step", 0].count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_windows_of_keys_that_are_done_need_no_garbage_collector():
    class Adds(beam.DoFn):
        BAG, END = BagStateSpec("bag"), TimerSpec("end", TimeDomain.WATERMARK)

        def process(
            self, pair, window=beam.DoFn.WindowParam, bag=beam.DoFn.StateParam(BAG), end=beam.DoFn.TimerParam(END)
        ):
            bag.add(pair[1])
            end.set(window.end)
            yield sum(isinstance(each, BagState) for each in gc.get_objects())

        @on_timer(END)
        def ended(self, bag=beam.DoFn.StateParam(BAG)):
            bag.clear()

    gc.collect()
    gc.disable()
    try:
        elements = [TimestampedValue((key, key), 0) for key in range(20)]
        left = values(lambda p: p | beam.Create(elements) | beam.WindowInto(FixedWindows(9)) | beam.ParDo(Adds()))
    finally:
        gc.enable()
    assert set(left) == {1}, "that of the key whose turn it is"


def test_state_of_each_window_is_its_own():
    class Count(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, window=beam.DoFn.WindowParam, n=StateParam(N)):
            n.add(1)
            yield float(window.start), n.read()

    at = [(("k", "v"), time) for time in (1, 12, 2)]
    assert told(Count(), at, [(("k", "v"), 13)], windows=FixedWindows(10)) == [(0, 1), (10, 1), (0, 2), (10, 2)]
    slid = told(Count(), at[:1], at[2:], windows=SlidingWindows(10, 5))
    assert sorted(slid) == [(-5, 1), (-5, 2), (0, 1), (0, 2)]


def test_late_elements_of_closed_windows_are_dropped_and_counted():
    class Count(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, n=StateParam(N)):
            n.add(1)
            yield pair[1], n.read()

    def build(pipeline):
        script = stream([(("k", "on time"), 1)], 12, [(("k", "late"), 2)], 15, [(("k", "lost"), 3)])
        pairs = pipeline | script | beam.WindowInto(FixedWindows(10), allowed_lateness=5)
        return pairs | "step" >> beam.ParDo(Count())

    rows = []
    with beam.Pipeline(LocalRunner()) as pipeline:
        build(pipeline) | beam.io.Write(CallSink(lambda epoch, its: rows.extend(value for value, _ in its)))
    assert rows == [("on time", 1), ("late", 2)]
    counters = pipeline.result.counters["step"]
    assert (counters["dropped_late"], counters["records"]) == (1, 3)


def test_an_element_is_dropped_only_if_all_its_windows_are_closed():
    class Windows(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, window=beam.DoFn.WindowParam, n=StateParam(N)):
            yield float(window.start)

    rows = told(Windows(), 10, [(("k", "v"), 7)], [(("k", "v"), 2)], windows=SlidingWindows(10, 5))
    assert rows == [5]


WALL = TimerSpec("wall", TimeDomain.REAL_TIME)


class KeepsEverything(beam.DoFn):
    SPECS = BagStateSpec("bag"), SetStateSpec("set"), OrderedListStateSpec("list")

    def process(
        self,
        pair,
        bag=StateParam(SPECS[0]),
        its=StateParam(SPECS[1]),
        ordered=StateParam(SPECS[2]),
        wall=TimerParam(WALL),
    ):
        bag.add(1), its.add(1), ordered.add((1, 1))
        wall.set(10**6)

    @on_timer(WALL)
    def fire(self):
        yield "never"


def test_what_is_left_at_a_windows_end_is_gone_then():
    watched = Counting()
    element = [(("k", 1), 1)]
    assert told(KeepsEverything(), element, element, 10, windows=FixedWindows(10), scheduler=watched) == []
    # A timer, its hold, and the timer that waits for the window to close.
    kept = {"keys": 1, "cells": 3, "marks": 3, "ids": 0, "segments": 0}
    assert watched.counts[1:4] == [kept, kept, {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}]


def test_in_the_global_window_a_key_whose_state_is_cleared_leaves_nothing():
    class Once(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, pair, last=StateParam(LAST)):
            last.write(pair[1]) if pair[1] else last.clear()

    watched = Counting()
    told(Once(), [("k", 1)], [("k", 0)], scheduler=watched)
    assert [count["cells"] + count["marks"] for count in watched.counts[1:3]] == [2, 0]


class Hex:
    """A coder as Beam has them."""

    def encode(self, value):
        return hex(value).encode()

    def decode(self, data):
        return int(data, 16)


@pytest.mark.parametrize(
    ("spec", "add", "expected"),
    [
        (ReadModifyWriteStateSpec("s", Hex()), ("write", 7), 7),
        (BagStateSpec("s", Hex()), ("add", 7), [7]),
        (SetStateSpec("s", Hex()), ("add", 7), {7}),
        (CombiningValueStateSpec("s", Hex(), beam.combiners.CountCombineFn()), ("add", 7), 1),
        (OrderedListStateSpec("s", Hex()), ("add", (1, 7)), [(Timestamp(1), 7)]),
    ],
)
def test_state_goes_through_its_coder(spec, add, expected):
    assert told(commanded(spec), [("k", add)], [("k", ("read",))]) == [("k", expected)]
    if spec.kind != b"c":
        bad = ("write", "x") if spec.kind == b"v" else ("add", (1, "x") if spec.kind == b"o" else "x")
        with pytest.raises(StepError, match=r"'step' raised for key 'k'(?s:.)*state 's' cannot keep 'x': Hex says"):
            told(commanded(spec), [("k", bad)])


def test_functions_may_keep_state_too():
    total = CombiningValueStateSpec("total", sum)

    def running(pair, factor, state=StateParam(total)):
        state.add(factor * pair[1])
        return pair[0], state.read()

    rows = values(lambda p: p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.Map(running, 10))
    assert sorted(rows) == [("a", 10), ("a", 40), ("b", 20)]
    spread = beam.MapTuple(lambda key, value, state=StateParam(total): (state.add(value), key)[1])
    assert sorted(values(lambda p: p | beam.Create([("a", 1), ("b", 2)]) | spread)) == ["a", "b"]
    fresh = beam.Filter(lambda pair, seen=StateParam(SetStateSpec("seen")): not (seen.read() or seen.add(1)))
    assert sorted(values(lambda p: p | beam.Create([("a", 1), ("a", 2)]) | fresh)) == [("a", 1)]


def test_the_whole_life_cycle_and_every_parameter():
    class Whole(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def setup(self):
            self.calls = ["setup"]

        def start_bundle(self):
            self.calls.append("start")

        def process(
            self,
            pair,
            extra,
            key=beam.DoFn.KeyParam,
            time=beam.DoFn.TimestampParam,
            pane=beam.DoFn.PaneInfoParam,
            whole=beam.DoFn.WindowedValueParam,
            n=StateParam(N),
        ):
            n.add(1)
            self.calls.append((key, float(time), pane.index, whole.value == pair, extra, n.read()))

        def finish_bundle(self):
            calls, self.calls = self.calls, []
            yield beam.window.WindowedValue(calls, 7, [GlobalWindow()])
            yield beam.TaggedOutput("end", beam.window.WindowedValue("ended", 8, [GlobalWindow()]))

    def build(pipeline):
        outputs = pipeline | stream([(("a", 1), 3)], [(("a", 2), 4)]) | beam.ParDo(Whole(), "x").with_outputs("end")
        return (outputs[None], outputs.end) | beam.Flatten()

    rows = collect(build)
    assert [row for row in rows if row[0] != "ended"] == [
        (["setup", "start", ("a", 3.0, 0, True, "x", 1)], 7_000_000),
        (["start", ("a", 4.0, 0, True, "x", 2)], 7_000_000),
        (["start"], 7_000_000),
    ]
    assert rows.count(("ended", 8_000_000)) == 3


def test_outputs_with_tags_timestamps_and_windows_of_their_own():
    class Outputs(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, n=StateParam(N)):
            yield "plain"
            yield TimestampedValue("stamped", 25)
            yield beam.TaggedOutput("side", TimestampedValue("tagged", 31))
            yield beam.TaggedOutput("nobody", "reads this")
            yield beam.window.WindowedValue("two", 7, FixedWindows(10).assign_all([0, 50_000_000], [0, 0])[0])

    def build(pipeline):
        stamped = pipeline | beam.Create([TimestampedValue(("k", 1), 2)]) | beam.Map(lambda value: value)
        outputs = stamped | beam.WindowInto(FixedWindows(10)) | beam.ParDo(Outputs()).with_outputs("side", main="main")
        say = beam.Map(lambda x, window=beam.DoFn.WindowParam: (x, float(window.start)))
        return tuple(outputs) | beam.Flatten() | say

    assert sorted(collect(build)) == [
        (("plain", 0.0), 2_000_000),
        (("stamped", 20.0), 25_000_000),
        (("tagged", 30.0), 31_000_000),
        (("two", 0.0), 7_000_000),
    ]


def test_panes_go_through():
    class Pass(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, n=StateParam(N)):
            yield pair

    def build(pipeline):
        pairs = (
            pipeline
            | stream([(("k", 1), 1)], [(("k", 2), 2)], 10)
            | beam.WindowInto(
                FixedWindows(10),
                trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
                accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
            )
        )
        sums = pairs | beam.CombinePerKey(sum) | beam.ParDo(Pass())
        return sums | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair[1], pane.index, pane.timing.name))

    assert values(build) == [(1, 0, "EARLY"), (3, 1, "EARLY"), (3, 2, "ON_TIME")]


def test_errors_name_step_key_and_element():
    class Failing(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, n=StateParam(N)):
            yield 1 // pair[1]

    with pytest.raises(StepError, match=r"step 'step' raised for key 'b' at \('b', 0\)(?s:.)*ZeroDivisionError"):
        told(Failing(), [("a", 1), ("b", 0)])


def test_a_step_that_failed_once_puts_out_nothing_of_that_attempt():
    """What a bundle gathered before it failed must not be sent by the next one in the same process."""

    class Fails(beam.DoFn):
        N = CombiningValueStateSpec("n", sum)

        def process(self, pair, n=StateParam(N)):
            yield pair[1]
            assert pair[1] != "bad"

    pipeline = beam.Pipeline("LocalRunner")
    pipeline | beam.Create([("k", 1)]) | "step" >> beam.ParDo(Fails()) | beam.Map(str)
    place = compile_pipeline(pipeline).keyed["step"]
    out = []
    place.computation.setup()
    (inlet,) = place.inputs
    key = encode_key("k")
    for value in ("bad", "good"):
        worker = Worker(place, MemoryStateStore(), lambda stream, batch: out.extend(batch.values))
        bundle = Bundle({key_hash_of(key): (key, [KeyRecords(inlet, [("k", value)], [0])])})
        if value == "bad":
            with pytest.raises(StepError):
                worker.run(bundle)
        else:
            worker.run(bundle)
    assert [value for value, _, _ in out] == ["good"]


# Refused when the pipeline is built


def build(fn, elements=(("a", 1),), windows=None, hint=None):
    pipeline = beam.Pipeline("LocalRunner")
    made = pipeline | beam.Create(elements)
    made.element_type = hint
    made = made if windows is None else made | beam.WindowInto(windows)
    return made | "step" >> beam.ParDo(fn)


def test_merging_windows_are_refused():
    with pytest.raises(TopologyError, match=r"'step' keeps state.*Sessions.*whose windows merge; put it into windows"):
        build(commanded(BagStateSpec("bag")), windows=Sessions(5))


@pytest.mark.parametrize("hint", [int, str, list[int], tuple[int, int, int]])
def test_elements_that_are_known_to_be_no_pairs_are_refused(hint):
    with pytest.raises(TopologyError, match=r"'step' keeps state for each key, but .* not pairs \(key, value\)"):
        build(commanded(BagStateSpec("bag")), hint=hint)
    build(commanded(BagStateSpec("bag")), hint=tuple[str, int])


def test_elements_that_turn_out_to_be_no_pairs_stop_the_run():
    with pytest.raises(StepError, match=r"'step'(?s:.)*takes pairs \(key, value\), got 17"):
        step = "step" >> beam.ParDo(commanded(BagStateSpec("bag")))
        values(lambda pipeline: pipeline | beam.Create([17]).with_output_types(object) | step)


BAG, OTHER = BagStateSpec("bag"), BagStateSpec("bag")
TIMER = TimerSpec("timer", TimeDomain.WATERMARK)


class Twice(beam.DoFn):
    def process(self, pair, one=StateParam(BAG), two=StateParam(BAG)):
        pass


class SameName(beam.DoFn):
    def process(self, pair, one=StateParam(BAG), two=StateParam(OTHER)):
        pass


class Silent(beam.DoFn):
    def process(self, pair, timer=TimerParam(TIMER)):
        pass


class NeverSet(beam.DoFn):
    def process(self, pair, bag=StateParam(BAG)):
        pass

    @on_timer(TIMER)
    def fire(self):
        pass


class Several(beam.DoFn):
    def process(self, pair, timer=TimerParam(TIMER)):
        pass

    @on_timer(TIMER)
    def one(self):
        pass

    @on_timer(TIMER)
    def two(self):
        pass


class WantsElement(beam.DoFn):
    def process(self, pair, timer=TimerParam(TIMER)):
        pass

    @on_timer(TIMER)
    def fire(self, pane=beam.DoFn.PaneInfoParam):
        pass


class WantsMore(WantsElement):
    @on_timer(TIMER)
    def fire(self, element):
        pass


class InStart(beam.DoFn):
    def start_bundle(self, bag=StateParam(BAG)):
        pass

    def process(self, pair):
        pass


class TagInProcess(beam.DoFn):
    def process(self, pair, tag=beam.DoFn.DynamicTimerTagParam):
        pass


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (Twice, r"ParDo\(Twice\): process has 2 parameters for BagStateSpec\('bag'\); one is enough"),
        (SameName, "uses two specifications of the same name, .* give each a name of its own"),
        (Silent, r"sets TimerSpec\('timer', WATERMARK\), which calls no method; decorate one with @on_timer"),
        (NeverSet, "fire waits for .*, which no method sets; give process a parameter"),
        (Several, r"calls several methods, \['one', 'two'\]; let it call one"),
        (WantsElement, r"fire takes DoFn.PaneInfoParam, but a timer has no element; keep what it needs in state"),
        (WantsMore, "fire has a parameter 'element' that a timer has nothing for; give it a default"),
        (InStart, r"start_bundle takes DoFn.StateParam\(.*\), but it is called for no key"),
        (TagInProcess, "process takes a DynamicTimerTagParam; only a method with @on_timer"),
    ],
)
def test_wrong_declarations_are_refused(fn, message):
    with pytest.raises(TopologyError, match=message):
        beam.ParDo(fn())


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: BagStateSpec(""), ValueError, "must have 1 to 100 bytes"),
        (lambda: BagStateSpec(7), TypeError, "the name of a BagStateSpec must be a str, got 7"),
        (lambda: BagStateSpec("bag", Hex), TypeError, "takes a coder, an object with encode and decode"),
        (lambda: CombiningValueStateSpec("sum"), ValueError, "takes a CombineFn or a function, such as sum"),
        (lambda: CombiningValueStateSpec("sum", None, 7), TypeError, "expected a CombineFn or a function"),
        (lambda: TimerSpec("t", "SOON"), ValueError, "unknown time domain 'SOON'; use TimeDomain.WATERMARK, REAL_TIME"),
        (lambda: on_timer("t"), ValueError, "@on_timer takes a TimerSpec, got 't'"),
        (lambda: on_timer(TIMER)(7), ValueError, "decorates a method, got 7"),
        (lambda: StateParam(TIMER), ValueError, "DoFn.StateParam takes a StateSpec"),
        (lambda: TimerParam(BAG), ValueError, "DoFn.TimerParam takes a TimerSpec"),
    ],
)
def test_wrong_specifications_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


class TakesBack(beam.DoFn):
    """Adds results up, each result of a window in the place of the one before."""

    handles_retractions = True
    TOTAL = CombiningValueStateSpec("total", sum)

    def process(self, pair, pane=beam.DoFn.PaneInfoParam, total=StateParam(TOTAL)):
        total.add(-pair[1] if pane.is_retraction else pair[1])
        yield (pair[0], total.read()) if pair[1] % 2 else TimestampedValue((pair[0], total.read()), 3)


def taken_back(pipeline, fn):
    pairs = (
        pipeline
        | stream([(("k", 2), 1)], [(("k", 3), 2)], 10)
        | beam.WindowInto(
            FixedWindows(10),
            trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
            accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING_AND_RETRACTING,
        )
    )
    return pairs | beam.CombinePerKey(sum) | "step" >> beam.ParDo(fn)


def test_a_do_fn_that_handles_retractions_gets_them_and_what_it_makes_of_them_are_retractions():
    show = beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair[1], pane.is_retraction))
    assert values(lambda pipeline: taken_back(pipeline, TakesBack()) | show)[:3] == [(2, False), (0, True), (5, False)]


def test_a_do_fn_that_does_not_say_so_is_refused_where_there_may_be_retractions():
    with pytest.raises(TopologyError, match="'step' keeps state, and its input may have retractions; let its DoFn"):
        values(lambda pipeline: taken_back(pipeline, commanded(BagStateSpec("bag"))))


def test_bad_elements_of_a_step_with_state_and_timers_are_put_out():
    class Guarded(beam.DoFn):
        TOTAL, END = CombiningValueStateSpec("total", sum), TimerSpec("end", TimeDomain.WATERMARK)

        def process(self, pair, total=StateParam(TOTAL), end=TimerParam(END)):
            end.set(10)
            total.add(10 // pair[1])
            yield "fine"

        @on_timer(END)
        def fire(self, total=StateParam(TOTAL)):
            yield total.read()

    def build(pipeline):
        pairs = pipeline | stream([("k", 5), ("k", 0), ("k", 2)])
        good, bad = pairs | beam.ParDo(Guarded()).with_exception_handling()
        return (good, bad | beam.Map(lambda pair: (pair[0], pair[1][0]))) | beam.Flatten()

    assert sorted(map(str, values(build))) == ["(('k', 0), <class 'ZeroDivisionError'>)", "7", "fine", "fine"]


def test_the_function_and_its_combiners_are_set_up_and_torn_down_once(tmp_path):
    class Noted:
        def __init__(self, name):
            self.note = tmp_path / name

        def setup(self):
            self.note.write_text("set up")

        def teardown(self):
            self.note.write_text(self.note.read_text() + ", torn down")

    class Sum(Noted, beam.CombineFn):
        def create_accumulator(self):
            return [self.note.read_text()]

        def add_input(self, accumulator, value):
            return [*accumulator, value]

        def extract_output(self, accumulator):
            return accumulator

    class Fn(Noted, beam.DoFn):
        ALL = CombiningValueStateSpec("all", Sum("combiner"))

        def process(self, pair, its=StateParam(ALL)):
            its.add(pair[1])
            yield self.note.read_text(), its.read()

    assert told(Fn("function"), [("k", 1)]) == [("set up", ["set up", 1])]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "combiner": "set up, torn down",
        "function": "set up, torn down",
    }


_VALUES = {
    VarIntCoder: st.integers(-(1 << 63), (1 << 63) - 1) | st.booleans(),
    StrUtf8Coder: st.text(),
    FloatCoder: st.floats(allow_nan=False) | st.integers(-9, 9),
}


@given(st.sampled_from(list(_VALUES)), st.data())
def test_values_in_a_cell_are_as_their_coder_gives_them_back(coder, data):
    spec = BagStateSpec("values", coder())
    pieces = data.draw(st.lists(st.lists(_VALUES[coder], min_size=1), max_size=4))
    written = b""
    for piece in pieces:
        if data.draw(st.booleans()):
            written += chunk(spec, piece)
        else:  # As releases wrote it that called the coder for each value.
            old = pickle.dumps([spec.coder.encode(value) for value in piece])
            written += len(old).to_bytes(4, "big") + old
    expected = [spec.coder.decode(spec.coder.encode(value)) for piece in pieces for value in piece]
    found = values_of(spec, written)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(("coder", "value"), [(VarIntCoder(), 1 << 63), (VarIntCoder(), -(1 << 63) - 1)])
def test_a_value_that_its_coder_cannot_take_is_refused_among_others_too(coder, value):
    with pytest.raises(TypeError, match="64 bits"):
        chunk(BagStateSpec("values", coder), [1, value])


def test_text_that_is_no_unicode_is_refused_as_by_its_coder():
    with pytest.raises(TypeError, match="surrogates not allowed"):
        chunk(BagStateSpec("values", StrUtf8Coder()), ["a", "\ud800"])
