"""Side inputs: what a function gets, when an element waits for it, and that nothing is left of it in the end."""

from __future__ import annotations

import pickle

import pytest

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.lowlevel.records.record import Batch
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton, EmptySideInput
from headrace.runners.local import LocalRunner
from headrace.sdk.graph.side_inputs import MultiMap, SideInputError
from headrace.sdk.operators.side_inputs.gate_inputs import Sharding
from headrace.sdk.operators.side_inputs.window_mapping import SideWindows, next_ready
from headrace.sdk.windows.windowing import Windowing
from headrace.testing.test_stream import TestStream
from headrace.transforms import trigger, window
from headrace.transforms.userstate import CombiningValueStateSpec
from headrace.transforms.window import TimestampedValue
from tests.unit.collected import values

FIXED, GLOBAL = window.FixedWindows(10), window.GlobalWindows()
EACH = trigger.Repeatedly(trigger.AfterCount(1))
DISCARDING, ACCUMULATING = trigger.AccumulationMode.DISCARDING, trigger.AccumulationMode.ACCUMULATING
RETRACTING = trigger.AccumulationMode.ACCUMULATING_AND_RETRACTING


def at(*pairs):
    """Elements as (value, second) pairs."""
    return [TimestampedValue(value, second) for value, second in pairs]


def streams(pipeline, events: TestStream):
    """The collections `main` and `side` of a stream."""
    outputs = pipeline | events
    return outputs["main"], outputs["side"]


def beside(values_of_side, name):
    return name, sorted(values_of_side)


# What a function gets


def made(kind, *its):
    """The argument that a kind of side input makes of values."""
    pipeline = beam.Pipeline("LocalRunner")
    return kind(pipeline | beam.Create([])).make(list(its))


def test_values_by_kind():
    assert made(AsList, 1, 2) == [1, 2]
    assert list(made(AsIter, 1, 2)) == [1, 2]
    assert made(AsDict, ("a", 1), ("b", 2)) == {"a": 1, "b": 2}
    assert made(AsMultiMap, ("a", 1), ("b", 2), ("a", 3)) == {"a": [1, 3], "b": [2]}
    assert made(AsSingleton, 1) == 1
    assert isinstance(made(AsSingleton), EmptySideInput)
    assert made(lambda side: AsSingleton(side, 7)) == 7
    assert made(lambda side: AsSingleton(side, None)) is None


def test_values_travel_with_elements():
    assert pickle.loads(pickle.dumps(made(AsIter, 1, 2))) == [1, 2]
    assert pickle.loads(pickle.dumps(made(AsMultiMap, ("a", 1)))) == {"a": [1]}


def test_a_multimap_does_not_remember_what_was_asked():
    side = MultiMap(a=[1])
    assert side["b"] == [] and "b" not in side


@pytest.mark.parametrize(
    ("kind", "its", "message"),
    [
        (AsSingleton, [1, 2], "2 values, the first of them 1 and 2.*combine those of all keys and windows into one"),
        (AsDict, [("a", 1), ("a", 2)], "key 'a' has several values, as 1 and 2.*use AsMultiMap"),
        (AsDict, [3], "3 is no pair"),
        (AsMultiMap, ["abc"], "'abc' is no pair"),
    ],
)
def test_values_that_do_not_fit_name_step_and_window(kind, its, message):
    def build(pipeline):
        side = pipeline | "Side" >> beam.Create(at(*((value, 12) for value in its))) | beam.WindowInto(FIXED)
        main = pipeline | "Main" >> beam.Create(at(("x", 11))) | "Windows" >> beam.WindowInto(FIXED)
        return main | "Look" >> beam.Map(lambda name, side: side, kind(side))

    with pytest.raises(StepError, match=rf"(?s)step 'Look'.*side input 1 \({kind.__name__}.*\[10.0, 20.0\): {message}"):
        values(build)


def test_a_function_that_fails_is_named_with_its_element():
    def build(pipeline):
        side = pipeline | "Side" >> beam.Create([0])
        return pipeline | beam.Create([5]) | "Divide" >> beam.Map(lambda number, by: number / by, AsSingleton(side))

    with pytest.raises(StepError, match=r"(?s)step 'Divide' raised.* at 5.*ZeroDivisionError"):
        values(build)


def test_side_values_are_made_once_for_many_elements():
    def build(pipeline):
        side = pipeline | "Side" >> beam.Create([1, 2, 3])
        main = pipeline | beam.Create(range(100))
        return main | beam.Map(lambda number, side: id(side), AsList(side))

    assert len(set(values(build))) == 1


# What is refused


def test_a_bare_collection_is_refused_with_the_remedy():
    pipeline = beam.Pipeline("LocalRunner")
    side = pipeline | beam.Create([1])
    for refused in (lambda: beam.Map(lambda x, y: x, side), lambda: beam.CombinePerKey(lambda its, y: 0, y=side)):
        with pytest.raises(TypeError, match=r"given the collection <PCollection Create> .*AsList\(collection\)"):
            refused()
    outputs = side | beam.Map(lambda x: x).with_outputs("a")
    with pytest.raises(TypeError, match=r"is given the collection .*DoOutputsTuple"):
        beam.Map(lambda x, y: x, outputs)


def test_windows_that_merge_are_refused():
    pipeline = beam.Pipeline("LocalRunner")
    side = pipeline | beam.Create([1]) | beam.WindowInto(window.Sessions(5))
    with pytest.raises(SideInputError, match=r"Sessions.* merge, so it is not known"):
        AsList(side)
    assert issubclass(SideInputError, RuntimeError) and issubclass(SideInputError, ValueError)


def test_what_is_no_collection_is_refused():
    with pytest.raises(TypeError, match="AsList takes a collection, got 3"):
        AsList(3)


def test_a_side_input_of_another_pipeline_is_refused():
    one, other = beam.Pipeline("LocalRunner"), beam.Pipeline("LocalRunner")
    side = AsList(one | beam.Create([1]))
    with pytest.raises(ValueError, match="different pipeline"):
        other | beam.Create([1]) | beam.Map(lambda x, y: x, side)


def test_a_side_input_that_could_not_take_back_what_it_gets_is_refused():
    pipeline = beam.Pipeline("LocalRunner")
    totals = pipeline | TestStream() | beam.WindowInto(GLOBAL, EACH, accumulation_mode=RETRACTING)
    totals = totals | beam.CombineGlobally(sum).without_defaults()
    emptied = totals | "Emptied" >> beam.WindowInto(GLOBAL, EACH, accumulation_mode=DISCARDING)
    pipeline | beam.Create([1]) | "Look" >> beam.Map(lambda x, y: x, AsList(emptied))
    with pytest.raises(ValueError, match="step 'Look' gets retractions, but its windows are emptied"):
        pipeline.topology()


def test_a_default_that_depends_on_a_side_input_is_refused():
    pipeline = beam.Pipeline("LocalRunner")
    side = AsSingleton(pipeline | "Side" >> beam.Create([1]))
    with pytest.raises(ValueError, match="depends on side inputs"):
        pipeline | beam.Create([1]) | beam.CombineGlobally(lambda its, n: 0, side).as_singleton_view()


def test_a_side_input_that_is_ready_only_in_the_end_is_warned_of(caplog):
    pipeline = beam.Pipeline("LocalRunner")
    side = pipeline | TestStream()
    pipeline | beam.Create([1]) | "Look" >> beam.Map(lambda x, y: x, AsList(side))
    assert "step 'Look': AsList(<PCollection TestStream>) never ends" in caplog.text
    caplog.clear()
    in_windows = side | beam.WindowInto(FIXED)
    pipeline | "more" >> beam.Create([1]) | "Other" >> beam.Map(lambda x, y: x, AsList(in_windows))
    assert not caplog.text


# Windows


def test_the_side_window_is_where_the_main_window_ends():
    for side, main, expected in [
        (FIXED, window.IntervalWindow(0, 10), (0, 10)),
        (FIXED, window.IntervalWindow(0, 15), (10, 20)),
        (window.FixedWindows(60), window.IntervalWindow(50, 60), (0, 60)),
        (window.SlidingWindows(20, 10), window.IntervalWindow(10, 20), (0, 20)),
    ]:
        mapping = SideWindows(Windowing(side), Windowing(FIXED))
        assert mapping.of(mapping.main_namespaces.of_window(main)).window == window.IntervalWindow(*expected)


def test_a_gap_between_side_windows_is_named():
    mapping = SideWindows(Windowing(window.SlidingWindows(1, 10)), Windowing(FIXED))
    with pytest.raises(ValueError, match=r"have no window around the end of \[0.0, 10.0\)"):
        mapping.of(mapping.main_namespaces.of_window(window.IntervalWindow(0, 10)))


def test_the_watermark_is_told_when_a_window_may_be_ready():
    late = Windowing.of(FIXED, EACH, DISCARDING, allowed_lateness=3)
    sliding = Windowing(window.SlidingWindows(20, 5))
    assert next_ready(Windowing(FIXED), 12 * SECOND) == 20 * SECOND
    assert next_ready(Windowing(FIXED), 20 * SECOND) == 30 * SECOND
    assert next_ready(late, 12 * SECOND) == 13 * SECOND
    assert next_ready(late, 13 * SECOND) == 23 * SECOND
    assert next_ready(sliding, 12 * SECOND) == 15 * SECOND
    assert next_ready(Windowing(window.SlidingWindows(1, 10)), 12 * SECOND) == 12 * SECOND + 1
    assert next_ready(Windowing(GLOBAL), 12 * SECOND) == window.GlobalWindow().end_us
    assert next_ready(Windowing(GLOBAL), MAX_TIMESTAMP - 1) is None
    assert next_ready(Windowing(FIXED), MAX_TIMESTAMP) is None


def test_pairs_go_to_shards_by_key_and_others_evenly():
    def shards(elements):
        seen = []
        batch = Batch([(element, (), None) for element in elements], [0] * len(elements))
        Sharding("out").process_batch("in", batch, lambda stream, its: seen.extend(shard for shard, _ in its.values))
        return seen

    assert shards([("a", 1), ("a", 2)])[0] == shards([7, ("a", 3)])[1]
    assert len(set(shards([(key, 1) for key in range(1000)]))) == 8
    assert sorted(shards(range(16))) == sorted(2 * shards(range(8)))
    assert len(set(shards([(1j, 1)] * 8))) == 8


# Waiting


def look(pipeline, main, side, kind=AsList):
    return main | "Look" >> beam.Map(lambda name, side: (name, tuple(sorted(side))), kind(side))


def epochs(build):
    """What comes out in each epoch that something comes out in, in order."""
    came: list[list[object]] = []
    with beam.Pipeline(LocalRunner()) as pipeline:
        keep = CallSink(lambda epoch, rows: came.append(sorted(value for value, _ in rows)))
        build(pipeline) | "keep" >> beam.io.Write(keep)
    return came


def test_an_element_waits_for_the_first_pane():
    events = TestStream().add_elements(at(("a", 1), ("b", 12)), "main")
    events.add_elements(at((1, 2)), "side").add_elements(at(("c", 3)), "main")
    events.advance_watermark_to(10, "side").advance_watermark_to(20, "side").advance_watermark_to(30, "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        return look(pipeline, main | "M" >> beam.WindowInto(FIXED), side | "S" >> beam.WindowInto(FIXED))

    assert epochs(build) == [[("a", (1,)), ("c", (1,))], [("b", ())]]


def test_elements_that_come_after_the_pane_do_not_wait():
    events = TestStream().add_elements(at((1, 2)), "side").advance_watermark_to(10, "side")
    events.add_elements(at(("a", 1)), "main").add_elements(at(("b", 2)), "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        return look(pipeline, main | "M" >> beam.WindowInto(FIXED), side | "S" >> beam.WindowInto(FIXED))

    assert epochs(build) == [[("a", (1,))], [("b", (1,))]]


def test_a_window_without_a_pane_at_its_end_is_empty_once_it_is_closed():
    """A trigger that counts may keep what it has until the closing, so the end of the window says nothing."""
    patient = beam.WindowInto(
        FIXED, trigger.Repeatedly(trigger.AfterCount(2)), accumulation_mode=DISCARDING, allowed_lateness=5
    )
    events = TestStream().add_elements(at((1, 2)), "side").add_elements(at(("a", 1)), "main")
    events.advance_watermark_to(10, "side").add_elements(at(("b", 2)), "main").advance_watermark_to(15, "side")
    events.add_elements(at(("c", 3)), "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        return look(pipeline, main | "M" >> beam.WindowInto(FIXED), side | "S" >> patient)

    assert epochs(build) == [[("a", (1,)), ("b", (1,))], [("c", (1,))]]


def test_waiting_elements_hold_the_watermark():
    """A window behind is not closed before the element that waits for its side input comes."""
    events = TestStream().add_elements(at((("k", 1), 1)), "main").advance_watermark_to(100, "main")
    events.add_elements(at((5, 3)), "side").advance_watermark_to(10, "side").add_elements(at((("k", 2), 101)), "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        summed = (
            main
            | "M" >> beam.WindowInto(FIXED)
            | "Add"
            >> beam.MapTuple(
                lambda key, number, side: (key, number + sum(side)), AsList(side | "S" >> beam.WindowInto(FIXED))
            )
        )
        return (
            summed
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, info=beam.DoFn.PaneInfoParam: (pair, info.timing.name))
        )

    assert epochs(build) == [[(("k", 6), "ON_TIME")], [(("k", 2), "ON_TIME")]]


def test_a_side_input_does_not_hold_the_watermark_of_what_does_not_wait():
    events = TestStream().add_elements(at((5, 0)), "side").add_elements(at((("k", 1), 1)), "main")
    events.advance_watermark_to(10, "main").advance_processing_time(1).add_elements(at((("k", 2), 11)), "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        slow = side | "S" >> beam.WindowInto(GLOBAL, EACH, accumulation_mode=DISCARDING)
        summed = (
            main
            | "M" >> beam.WindowInto(FIXED)
            | "Add" >> beam.MapTuple(lambda key, number, side: (key, number + sum(side)), AsList(slow))
        )
        return summed | beam.CombinePerKey(sum)

    assert epochs(build) == [[("k", 6)], [("k", 7)]]


def test_elements_of_a_key_stay_in_order():
    events = TestStream()
    for number in range(5):
        events.add_elements(at((("k", number), 1)), "main")
    events.add_elements(at((1, 2)), "side").advance_watermark_to(10, "side").add_elements(at((("k", 5), 1)), "main")

    def build(pipeline):
        main, side = streams(pipeline, events)
        side = AsList(side | "S" >> beam.WindowInto(FIXED))
        return main | "M" >> beam.WindowInto(FIXED) | beam.MapTuple(lambda key, number, side: number, side)

    assert values(build) == list(range(6))


def test_an_element_whose_side_window_is_over_is_dropped_and_counted():
    events = TestStream().add_elements(at((1, 2)), "side").advance_watermark_to(100, "side")
    events.advance_watermark_to(9, "main").add_elements(at(("late", 1)), "main").advance_watermark_to(15, "main")
    events.add_elements(at(("lost", 1), ("here", 16)), "main")
    came = []
    pipeline = beam.Pipeline(LocalRunner())
    main, side = streams(pipeline, events)
    looked = look(pipeline, main | "M" >> beam.WindowInto(FIXED), side | "S" >> beam.WindowInto(FIXED))
    looked | beam.io.Write(CallSink(lambda epoch, rows: came.extend(value for value, _ in rows)))
    result = pipeline.run()
    assert came == [("late", (1,)), ("here", ())]
    counters = result.counters["Look#gate"]
    assert (counters["records"], counters["late"], counters["dropped_late"]) == (3, 2, 1)


# Updating


def updated(mode, script=None):
    """What elements see of a side input that is put out again and again."""
    events = script or (
        TestStream()
        .add_elements(at(("early", 1)), "main")
        .add_elements(at((1, 2)), "side")
        .add_elements(at(("a", 3)), "main")
        .add_elements(at((2, 4)), "side")
        .add_elements(at(("b", 3)), "main")
    )

    def build(pipeline):
        main, side = streams(pipeline, events)
        return look(pipeline, main, side | beam.WindowInto(GLOBAL, EACH, accumulation_mode=mode))

    return values(build)


def test_a_pane_replaces_the_view():
    assert updated(DISCARDING) == [("early", (1,)), ("a", (1,)), ("b", (2,))]
    assert updated(ACCUMULATING) == [("early", (1,)), ("a", (1,)), ("b", (1, 2))]
    assert updated(RETRACTING) == [("early", (1,)), ("a", (1,)), ("b", (1, 2))]


def test_a_view_that_changes_with_time():
    script = TestStream().add_elements(at(("a", 1)), "main").add_elements(at((1, 2)), "side")
    script.advance_processing_time(10).add_elements(at((2, 2)), "side").add_elements(at(("b", 1)), "main")
    script.advance_processing_time(10).add_elements(at(("c", 1)), "main")
    slow = trigger.Repeatedly(trigger.AfterProcessingTime(5))

    def build(pipeline):
        main, side = streams(pipeline, script)
        return look(pipeline, main, side | beam.WindowInto(GLOBAL, slow, accumulation_mode=DISCARDING))

    assert values(build) == [("a", (1,)), ("b", (1,)), ("c", (2,))]


def test_a_side_input_from_totals_that_are_taken_back():
    """The total before is taken back with the new one, so there is always one: `AsSingleton` works."""
    script = TestStream().add_elements(at((1, 2)), "side").add_elements(at(("a", 3)), "main")
    script.add_elements(at((2, 4)), "side").add_elements(at(("b", 3)), "main")

    def build(pipeline):
        main, side = streams(pipeline, script)
        windowed = side | beam.WindowInto(GLOBAL, EACH, accumulation_mode=RETRACTING)
        total = windowed | beam.CombineGlobally(sum).without_defaults()
        return main | beam.Map(lambda name, total: (name, total), AsSingleton(total))

    assert values(build) == [("a", 1), ("b", 3)]


# Everything together


def test_an_element_in_several_windows_is_processed_in_each():
    def build(pipeline):
        side = pipeline | "Side" >> beam.Create([1])
        main = pipeline | beam.Create(at(("x", 5))) | beam.WindowInto(window.SlidingWindows(20, 10))
        return main | beam.Map(
            lambda x, one, window=beam.DoFn.WindowParam: (float(window.start), one), AsSingleton(side)
        )

    assert sorted(values(build)) == [(-10.0, 1), (0.0, 1)]


def test_side_values_of_steps_in_a_row_and_with_exception_handling():
    def build(pipeline):
        ten = AsSingleton(pipeline | "Ten" >> beam.Create([10]))
        zero = AsSingleton(pipeline | "Zero" >> beam.Create([0]))
        tens = pipeline | beam.Create([1, 2]) | "Times" >> beam.Map(lambda x, by: x * by, ten)
        good, bad = tens | "Over" >> beam.Map(lambda x, by: x / by, zero).with_exception_handling()
        return (good, bad | beam.Map(lambda pair: pair[0])) | beam.Flatten()

    assert sorted(values(build)) == [10, 20]


def test_combining_with_a_side_input_over_nothing():
    def build(pipeline):
        one = AsSingleton(pipeline | "One" >> beam.Create([1]))
        return pipeline | beam.Create([]) | beam.CombineGlobally(lambda its, n: n + sum(its), one)

    assert values(build) == [1]


def test_one_collection_as_several_side_inputs_is_gathered_once():
    pipeline = beam.Pipeline("LocalRunner")
    side = pipeline | "Side" >> beam.Create([("a", 1)])
    main = pipeline | beam.Create(["a"])
    main | "one" >> beam.Map(lambda x, y, z: x, AsList(side), AsDict(side))
    main | "two" >> beam.Map(lambda x, y: x, AsIter(side))
    assert sorted(pipeline.topology().keyed) == ["Side#side", "one#gate", "two#gate"]


def test_steps_without_side_inputs_stay_one_stage():
    pipeline = beam.Pipeline("LocalRunner")
    numbers = pipeline | beam.Create([1]) | "a" >> beam.Map(str)
    numbers | "b" >> beam.Map(lambda x, y: x, AsList(numbers)) | "c" >> beam.Map(str)
    topology = pipeline.topology()
    assert {"a", "b to c"} < set(topology.inlines)


def test_nothing_is_left_in_the_end():
    events = TestStream().add_elements(at(("a", 1), ("b", 12), ("c", 35)), "main").add_elements(at((1, 2)), "side")
    events.advance_watermark_to(50, "main").add_elements(at((2, 13), (3, 14)), "side").advance_watermark_to(100, "side")
    runner = LocalRunner(intervals=2)
    with beam.Pipeline(runner) as pipeline:
        main, side = streams(pipeline, events)
        everything = side | "All" >> beam.WindowInto(GLOBAL, EACH, accumulation_mode=ACCUMULATING)
        main = main | "M" >> beam.WindowInto(FIXED)
        (
            look(pipeline, main, side | "S" >> beam.WindowInto(FIXED))
            | beam.Map(lambda x, y: x, AsIter(everything))
            | beam.io.Write(CallSink(lambda epoch, rows: None))
        )
    left = {name: copy.count() for (name, _), copy in runner.stores.items()}
    assert "Look#gate" in left
    assert all(not any(counts.values()) for counts in left.values()), left


# With state


class Running(beam.DoFn):
    """Counts the values of a key beside what side inputs hold."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair, side, count=beam.DoFn.StateParam(COUNT), *, unit):
        count.add(1)
        yield pair[0], pair[1], count.read(), sorted(side), unit


def test_a_step_with_state_gets_side_inputs_too():
    events = TestStream().add_elements(at((("k", "a"), 1), (("l", "b"), 2), (("k", "c"), 13)), "main")
    events.add_elements(at((1, 3), (2, 14)), "side").advance_watermark_to(10, "side")
    events.add_elements(at((("k", "d"), 4)), "main").advance_watermark_to(20, "side")

    def build(pipeline):
        main, side = streams(pipeline, events)
        side = AsList(side | "S" >> beam.WindowInto(FIXED))
        unit = AsSingleton(pipeline | "Unit" >> beam.Create(["m"]))
        return main | "M" >> beam.WindowInto(FIXED) | beam.ParDo(Running(), side, unit=unit)

    assert epochs(build) == [
        [("k", "a", 1, [1], "m"), ("l", "b", 1, [1], "m")],
        [("k", "d", 2, [1], "m")],
        [("k", "c", 1, [2], "m")],
    ]


def test_a_step_with_state_and_side_inputs_takes_pairs():
    def build(pipeline):
        side = AsList(pipeline | "Side" >> beam.Create([]))
        return pipeline | beam.Create([3]).with_output_types(object) | "Run" >> beam.ParDo(Running(), side, unit=1)

    with pytest.raises(StepError, match=r"step 'Run' raised at \(3, "):
        values(build)
