"""How: retractions from one grouping to the next, through every kind of step, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as beam
from headrace import Change, ChangeKind
from headrace.lowlevel import CallSink, Computation, TopologyError
from headrace.lowlevel.time import MAX_TIMESTAMP, SECOND
from headrace.sdk.combinefns.numeric import SumFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS, PaneInfoTiming, pane_info
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.windows.windowing import Windowing
from headrace.testing.test_stream import TestStream
from headrace.testing.util import assert_that, equal_to
from headrace.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    Repeatedly,
)
from headrace.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    TimestampedValue,
    WindowedValue,
)
from tests.harness import Harness
from tests.unit.collected import values

RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
EAGER = AfterWatermark(early=AfterCount(1), late=AfterCount(1))


def team_totals(p, window_fn=None, mode=RETRACTING):
    """Totals of two teams: a comes to 5, then to 9; b to 5, and after the end of its window to 6."""
    stream = (
        TestStream()
        .add_elements([TimestampedValue(("a", 5), 1)])
        .add_elements([TimestampedValue(("b", 5), 2)])
        .add_elements([TimestampedValue(("a", 4), 8)])
        .advance_watermark_to(30)
        .add_elements([TimestampedValue(("b", 1), 9)])
        .advance_watermark_to_infinity()
    )
    windowed = beam.WindowInto(window_fn or FixedWindows(10), EAGER, mode, allowed_lateness=100)
    return p | stream | "Window" >> windowed | "Total" >> beam.CombinePerKey(sum)


def shown(collection, label="Show"):
    """Each value with whether it is a retraction."""
    return collection | label >> beam.Map(lambda value, pane=beam.DoFn.PaneInfoParam: (pane.is_retraction, value))


def standing(rows):
    """What was put out and not taken back."""
    net = Counter()
    for is_retraction, value in rows:
        net[value] += -1 if is_retraction else 1
    assert min(net.values()) >= 0, net
    return sorted(net.elements())


def test_a_retraction_has_the_value_window_timestamp_and_numbers_of_its_pane():
    def build(p):
        return team_totals(p) | beam.Map(
            lambda value, time=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam: (
                *value,
                pane.is_retraction,
                (str(window), time.micros, pane.is_first, pane.is_last, pane.timing.name, pane.index),
            )
        )

    of_b = [row[1:] for row in values(build) if row[0] == "b"]
    window = ("[0.0, 10.0)", 9_999_999)
    assert of_b == [
        (5, False, (*window, True, False, "EARLY", 0)),
        (5, True, (*window, True, False, "EARLY", 0)),
        (5, False, (*window, False, False, "ON_TIME", 1)),
        (5, True, (*window, False, False, "ON_TIME", 1)),
        (6, False, (*window, False, False, "LATE", 2)),
    ]


def test_element_wise_steps_pass_retractions_on():
    class Doubled(beam.DoFn):
        def process(self, pair):
            yield beam.pvalue.TaggedOutput("keys", pair[0])
            if pair[1] != 9:
                yield 2 * pair[1]

    def build(p):
        outputs = team_totals(p) | beam.ParDo(Doubled()).with_outputs("keys", main="doubled")
        doubled = outputs.doubled | beam.Filter(lambda total: total > 0) | beam.FlatMap(lambda total: [total, -total])
        return (shown(doubled, "Doubled"), shown(outputs["keys"], "Keys")) | beam.Flatten()

    rows = values(build)
    assert standing([row for row in rows if not isinstance(row[1], str)]) == [-12, 12]
    assert standing([row for row in rows if isinstance(row[1], str)]) == ["a", "b"]
    assert (True, "a") in rows and (True, -10) in rows


@pytest.mark.parametrize("restamp", [False, True])
def test_new_windows_and_timestamps_keep_retractions(restamp):
    def build(p):
        totals = team_totals(p)
        if restamp:
            totals = totals | beam.Map(lambda pair: TimestampedValue(pair, 35))
        rewindowed = totals | beam.WindowInto(FixedWindows(20), EAGER, RETRACTING, allowed_lateness=100)
        sums = rewindowed | beam.Map(lambda pair: ("all", pair[1])) | "Sum" >> beam.CombinePerKey(sum)
        return shown(sums | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (pair[1], str(window))))

    assert standing(values(build)) == [(15, "[20.0, 40.0)" if restamp else "[0.0, 20.0)")]


def test_a_histogram_of_totals():
    def build(p):
        return shown(team_totals(p) | beam.Map(lambda pair: (pair[1], pair[0])) | beam.combiners.Count.PerKey())

    assert standing(values(build)) == [(6, 1), (9, 1)]


@pytest.mark.parametrize("combine", [min, max, beam.combiners.ToListCombineFn(), beam.combiners.MeanCombineFn()])
def test_combiners_with_and_without_an_inverse(combine):
    def build(p):
        totals = team_totals(p) | beam.Map(lambda pair: ("all", pair[1]))
        combined = totals | "Combine" >> beam.CombinePerKey(combine)
        return shown(combined | beam.Map(lambda pair: str(sorted(pair[1]) if type(pair[1]) is list else pair[1])))

    expected = {min: "6", max: "9"}.get(combine, "7.5" if "Mean" in type(combine).__name__ else "[6, 9]")
    assert standing(values(build)) == [expected]


def test_sessions_that_merge_take_back_what_each_has_put_out():
    def build(p):
        stream = (
            TestStream()
            .add_elements([TimestampedValue(("k", 1), 0)])
            .add_elements([TimestampedValue(("k", 2), 10)])
            .add_elements([TimestampedValue(("k", 4), 5)])
            .advance_watermark_to_infinity()
        )
        windowed = p | stream | beam.WindowInto(Sessions(6), Repeatedly(AfterCount(1)), RETRACTING)
        totals = windowed | beam.CombinePerKey(sum)
        return shown(totals | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (pair[1], str(window))))

    assert values(build) == [
        (False, (1, "[0.0, 6.0)")),
        (False, (2, "[10.0, 16.0)")),
        (True, (1, "[0.0, 6.0)")),
        (True, (2, "[10.0, 16.0)")),
        (False, (7, "[0.0, 16.0)")),
    ]


def test_a_join_of_retracting_collections():
    def build(p):
        totals = team_totals(p)
        names = totals | "Name" >> beam.Map(lambda pair: (pair[0], pair[0].upper() * pair[1]))
        joined = {"total": totals, "name": names} | beam.CoGroupByKey()
        return shown(joined | beam.Map(lambda pair: (pair[0], *map(tuple, pair[1].values()))))

    assert standing(values(build)) == [("a", (9,), ("A" * 9,)), ("b", (6,), ("B" * 6,))]


def test_accumulating_after_retracting_corrects_without_retractions():
    def build(p):
        totals = team_totals(p) | beam.Map(lambda pair: ("all", pair[1]))
        again = beam.WindowInto(FixedWindows(10), EAGER, AccumulationMode.ACCUMULATING, allowed_lateness=100)
        return shown(totals | again | "Sum" >> beam.CombinePerKey(sum))

    rows = values(build)
    assert not any(is_retraction for is_retraction, _ in rows)
    assert rows[-1] == (False, ("all", 15))


def test_one_pane_a_window_needs_no_mode():
    with beam.Pipeline("LocalRunner") as p:
        finals = team_totals(p) | beam.WindowInto(GlobalWindows())
        assert_that(finals, equal_to([("a", 9), ("b", 6)]))


def test_windows_emptied_by_each_pane_are_refused():
    def build(p):
        again = beam.WindowInto(FixedWindows(10), EAGER, AccumulationMode.DISCARDING, allowed_lateness=100)
        return team_totals(p) | again | "Again" >> beam.GroupByKey()

    with pytest.raises(TopologyError, match=r"step 'Again' gets retractions, but its windows are emptied by each pane"):
        values(build)


class Pass(Computation):
    def process_record(self, record, context):
        context.produce("passed", record.value)


@pytest.mark.parametrize("last", ["a sink", "a computation"])
def test_what_gets_bare_values_is_refused(last):
    pipeline = beam.Pipeline("LocalRunner")
    totals = team_totals(pipeline) | beam.Map(lambda pair: pair)
    if last == "a sink":
        _ = totals | "End" >> beam.io.Write(CallSink(lambda epoch, rows: None))
    else:
        _ = totals | "End" >> beam.RunComputation(Pass(), key=lambda pair: pair[0], outputs="passed")
    with pytest.raises(TopologyError, match=r"step 'End' gets values without their panes"):
        pipeline.topology()


class Gathering(beam.DoFn):
    def start_bundle(self):
        self.seen = []

    def process(self, pair):
        self.seen.append(pair)
        return ()

    def finish_bundle(self):
        return [WindowedValue(tuple(self.seen), 0, [GlobalWindow()])]


def test_what_gathers_until_its_bundle_ends_is_refused_unless_it_handles_retractions():
    with pytest.raises(TopologyError, match=r"step 'End' has a finish_bundle, and its input may have retractions"):
        values(lambda p: team_totals(p) | "End" >> beam.ParDo(Gathering()))

    class Handling(Gathering):
        handles_retractions = True

        def process(self, pair, pane=beam.DoFn.PaneInfoParam):
            return super().process((pane.is_retraction, pair))

    rows = [row for rows in values(lambda p: team_totals(p) | "End" >> beam.ParDo(Handling())) for row in rows]
    assert standing(rows) == [("a", 9), ("b", 6)]


def test_a_pane_looked_at_is_enough_for_a_sink():
    def build(p):
        return team_totals(p) | beam.Filter(lambda pair, pane=beam.DoFn.PaneInfoParam: not pane.is_retraction)

    assert values(build).count(("b", 5)) == 2


def windowed(value, start, end, pane=None):
    return "k", (value, (IntervalWindow(start, end),), pane), start * SECOND


def taken_back(value, start, end):
    return windowed(value, start, end, pane_info(True, False, PaneInfoTiming.EARLY, 0, -1, True))


def sessions(trigger):
    windowing = Windowing.of(Sessions(10), trigger, RETRACTING, allowed_lateness=1000)
    return Harness(Grouping(windowing, None, GroupingInputForm.WINDOWED, takes_back=True))


def numbered(panes):
    return [(str(pane.window), pane.value, pane.info.index, pane.info.is_retraction) for pane in panes]


def test_parts_of_a_session_that_falls_apart_are_numbered_from_0():
    harness = sessions(Always())
    harness.feed([windowed("left", 0, 10), windowed("bridge", 8, 18), windowed("right", 15, 25)])
    harness.feed([windowed("more", 9, 19)])
    harness.panes.clear()
    harness.feed([taken_back("bridge", 8, 18), taken_back("more", 9, 19)])
    assert numbered(harness.panes) == [
        ("[0.0, 25.0)", ["left", "bridge", "right", "more"], 1, True),
        ("[0.0, 10.0)", ["left"], 0, False),
        ("[15.0, 25.0)", ["right"], 0, False),
    ]
    harness.panes.clear()
    harness.feed([windowed("again", 15, 25)])
    assert numbered(harness.panes) == [
        ("[15.0, 25.0)", ["right"], 0, True),
        ("[15.0, 25.0)", ["right", "again"], 1, False),
    ]


def test_a_part_finds_a_window_of_its_bounds_that_waits_to_be_taken_back():
    """What that window has put out is taken back with what the whole has, and its panes are numbered on."""
    harness = sessions(AfterWatermark(late=AfterCount(9)))
    harness.feed([windowed("first", 2, 12)])
    harness.advance(20 * SECOND)
    harness.feed([taken_back("first", 2, 12)])
    harness.feed([windowed("left", 2, 8), windowed("middle", 5, 12), windowed("right", 11, 18)])
    harness.feed([taken_back("right", 11, 18)])
    harness.advance(MAX_TIMESTAMP)
    assert numbered(harness.panes) == [
        ("[2.0, 12.0)", ["first"], 0, False),
        ("[2.0, 18.0)", ["left", "middle", "right"], 0, False),
        ("[2.0, 12.0)", ["first"], 0, True),
        ("[2.0, 18.0)", ["left", "middle", "right"], 0, True),
        ("[2.0, 12.0)", ["left", "middle"], 1, False),
    ]
    assert not any(harness.stored().values())


def test_a_retraction_that_waits_for_its_element_joins_no_sessions():
    harness = sessions(Always())
    harness.feed([windowed("left", 0, 10), windowed("right", 15, 25)])
    harness.feed([taken_back("bridge", 8, 18)])
    assert harness.counters[UNMATCHED_RETRACTIONS] == 1
    harness.feed([windowed("bridge", 8, 18)])
    assert harness.counters[UNMATCHED_RETRACTIONS] == 0
    harness.feed([windowed("more", 15, 25)])
    assert numbered(harness.panes) == [
        ("[0.0, 10.0)", ["left"], 0, False),
        ("[15.0, 25.0)", ["right"], 0, False),
        ("[15.0, 25.0)", ["right"], 0, True),
        ("[15.0, 25.0)", ["right", "more"], 1, False),
    ]
    harness.advance(MAX_TIMESTAMP)
    assert not any(harness.stored().values())


@pytest.mark.parametrize("combine", [SumFn(), None])
def test_values_that_come_after_their_retractions_cancel_each_other(combine):
    windowing = Windowing.of(FixedWindows(10), Always(), RETRACTING, allowed_lateness=1000)
    harness = Harness(Grouping(windowing, combine, GroupingInputForm.WINDOWED, takes_back=True))
    harness.feed([windowed(1, 0, 10)])
    for element in (taken_back(2, 0, 10), taken_back(1, 0, 10), windowed(2, 0, 10), windowed(5, 0, 10)):
        harness.feed([element])
    net = Counter()
    for pane in harness.panes:
        net[str(pane.value)] += -1 if pane.info.is_retraction else 1
    assert +net == {"5" if combine else "[5]": 1}
    assert harness.counters[UNMATCHED_RETRACTIONS] == 0


def test_elements_from_before_anything_was_retracted_are_taken_back():
    """A step before the grouping retracts since the program was edited; what is stored goes on."""
    windowing = Windowing.of(FixedWindows(10))
    before = Harness(Grouping(windowing, SumFn()))
    before.feed([("k", 5, SECOND), ("k", 2, 2 * SECOND)])
    after = Harness(Grouping(windowing, SumFn(), GroupingInputForm.WINDOWED, takes_back=True))
    after.store = before.store
    after.feed([taken_back(2, 0, 10)])
    after.advance(MAX_TIMESTAMP)
    assert [pane.value for pane in after.panes] == [5]


def test_a_combination_of_all_with_a_default_takes_back():
    """The default comes from a mark, an element of a stream that has no retractions."""

    def build(p):
        windows = beam.WindowInto(GlobalWindows(), Repeatedly(AfterCount(1)), RETRACTING)
        return shown(team_totals(p) | beam.Values() | "All" >> windows | beam.CombineGlobally(sum))

    assert standing(values(build)) == [15]


def test_what_takes_back_flattened_with_what_does_not():
    def build(p):
        changes = [Change(ChangeKind.INSERT, 3), Change(ChangeKind.DELETE, 3), Change(ChangeKind.INSERT, 5)]
        taken_back = p | "Changes" >> beam.Create(changes) | beam.FromChangelog()
        return (p | "Plain" >> beam.Create([3, 7]), taken_back) | beam.Flatten() | beam.combiners.ToSet()

    assert values(build) == [{3, 5, 7}]


@pytest.mark.parametrize("grouping", [beam.GroupByKey(), beam.CombinePerKey(sum)])
@pytest.mark.parametrize("mode", list(AccumulationMode))
def test_a_window_emptied_before_its_first_pane_puts_out_nothing(grouping, mode):
    def build(p):
        changes = [Change(ChangeKind.INSERT, ("k", 3)), Change(ChangeKind.DELETE, ("k", 3))]
        log = p | beam.Create(changes) | beam.FromChangelog()
        return log | beam.WindowInto(FixedWindows(10), accumulation_mode=mode) | grouping

    assert values(build) == []


@pytest.mark.parametrize("window_fn", [FixedWindows(10), Sessions(10)])
def test_a_retraction_that_matches_nothing_leaves_stored_values_alone(window_fn):
    harness = Harness(Grouping(Windowing.of(window_fn), None, GroupingInputForm.WINDOWED, takes_back=True))
    harness.feed([windowed("stays", 0, 10)])
    harness.feed([taken_back("never came", 0, 10)])
    harness.advance(MAX_TIMESTAMP)
    assert [pane.value for pane in harness.panes] == [["stays"]]
    assert harness.counters[UNMATCHED_RETRACTIONS] == 1
    assert not any(harness.stored().values())


def test_an_ended_window_that_was_emptied_before_its_first_pane_holds_nothing_back_later():
    """The harness checks that the output watermark, which passes the window while it is empty, does not go back."""
    trigger = Repeatedly(AfterProcessingTime(2))
    windowing = Windowing.of(FixedWindows(10), trigger, AccumulationMode.ACCUMULATING, allowed_lateness=30)
    harness = Harness(Grouping(windowing, SumFn(), GroupingInputForm.WINDOWED, takes_back=True))
    harness.feed_and_advance([windowed(5, 0, 10)], 12 * SECOND)
    harness.feed([taken_back(5, 0, 10)])
    harness.clock(3 * SECOND)
    harness.feed([windowed(7, 0, 10)])
    harness.clock(6 * SECOND)
    assert [(pane.value, pane.info.timing) for pane in harness.panes] == [(7, PaneInfoTiming.LATE)]
