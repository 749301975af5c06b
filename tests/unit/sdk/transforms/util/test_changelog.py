"""How: panes and their retractions as a change log of ordinary elements, and back."""

from __future__ import annotations

from collections import Counter

import pytest

import headrace as beam
from headrace import Change, ChangeKind
from headrace.lowlevel import CallSink, StepError, TopologyError
from headrace.testing.test_stream import TestStream
from headrace.testing.util import assert_that, equal_to, equal_to_per_window
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import FixedWindows, GlobalWindows, IntervalWindow, Sessions, TimestampedValue
from tests.unit.collected import values
from tests.unit.sdk.operators.grouping.test_retractions import team_totals

INSERT, DELETE = ChangeKind.INSERT, ChangeKind.DELETE
LOG = {
    Change(INSERT, ("a", 5)),
    Change(DELETE, ("a", 5)),
    Change(INSERT, ("a", 9)),
    Change(DELETE, ("a", 9)),
    Change(INSERT, ("b", 5)),
    Change(DELETE, ("b", 5)),
    Change(INSERT, ("b", 6)),
}
"""Of `team_totals`. The pane at the end of a window replaces an equal one."""


def test_each_pane_is_an_insertion_and_each_retraction_a_deletion():
    log = values(lambda p: team_totals(p) | beam.ToChangelog())
    assert all(type(change) is Change for change in log)
    net = Counter()
    for change in log:
        net[change.value] += 1 if change.kind is INSERT else -1
        assert net[change.value] in (0, 1), "what is deleted was inserted before"
    assert {value for value, count in net.items() if count} == {("a", 9), ("b", 6)}
    assert set(log) == LOG


def test_changes_are_ordinary_elements_for_a_grouping_behind_them():
    """A Map that merely looks at the pane leaves retractions what they are: the grouping takes them out."""
    counted = values(
        lambda p: (
            team_totals(p)
            | beam.ToChangelog()
            | beam.WindowInto(FixedWindows(100))
            | beam.Map(lambda change: (change.kind.name, 1))
            | beam.CombinePerKey(sum)
        )
    )
    log = Counter(change.kind.name for change in values(lambda p: team_totals(p) | beam.ToChangelog()))
    assert dict(counted) == log
    assert log["DELETE"] >= 2


def test_changes_keep_window_timestamp_and_pane_but_for_the_mark():
    def build(p):
        return (
            team_totals(p)
            | beam.ToChangelog()
            | beam.Map(
                lambda change, element=beam.DoFn.WindowedValueParam, pane=beam.DoFn.PaneInfoParam: (
                    *change,
                    pane.is_retraction,
                    (str(element.windows[0]), element.timestamp.micros, pane.timing.name, pane.index),
                )
            )
        )

    of_b = [row for row in values(build) if row[1][0] == "b"]
    window = ("[0.0, 10.0)", 9_999_999)
    assert of_b == [
        (INSERT, ("b", 5), False, (*window, "EARLY", 0)),
        (DELETE, ("b", 5), False, (*window, "EARLY", 0)),
        (INSERT, ("b", 5), False, (*window, "ON_TIME", 1)),
        (DELETE, ("b", 5), False, (*window, "ON_TIME", 1)),
        (INSERT, ("b", 6), False, (*window, "LATE", 2)),
    ]


def test_of_a_collection_that_takes_nothing_back_all_is_inserted():
    assert values(lambda p: p | beam.Create([1, 2]) | beam.ToChangelog()) == [Change(INSERT, 1), Change(INSERT, 2)]


def test_a_sink_and_a_function_with_state_take_a_change_log():
    rows = []
    with beam.Pipeline("LocalRunner") as p:
        totals = team_totals(p)
        _ = totals | beam.ToChangelog() | beam.io.Write(CallSink(lambda epoch, given: rows.extend(given)))
    assert {row[0] for row in rows} == LOG
    with pytest.raises(TopologyError, match=r"put ToChangelog\(\) before it"), beam.Pipeline("LocalRunner") as p:
        _ = team_totals(p) | beam.io.Write(CallSink(lambda epoch, given: None))


@pytest.mark.parametrize("window_fn", [FixedWindows(10), Sessions(5), GlobalWindows()])
def test_there_and_back_is_the_same_collection(window_fn):
    """A grouping behind the log, read back, says what it says of the collection itself."""

    def teams(p, totals):
        return (
            totals
            | beam.MapTuple(lambda team, total: (total > 5, 1))
            | beam.WindowInto(GlobalWindows(), Repeatedly(AfterCount(1)), AccumulationMode.ACCUMULATING_AND_RETRACTING)
            | beam.CombinePerKey(sum)
            | "Last" >> beam.ToChangelog()
        )

    direct = values(lambda p: teams(p, team_totals(p, window_fn)))
    around = values(lambda p: teams(p, team_totals(p, window_fn) | beam.ToChangelog() | beam.FromChangelog()))
    assert around == direct
    assert any(change.kind is DELETE for change in direct)


def test_a_log_of_another_system_becomes_a_collection_that_takes_back():
    stream = TestStream().advance_watermark_to(0)
    for at, change in enumerate([("+", ("anna", "Oslo")), ("+", ("bo", "Oslo")), ("-", ("anna", "Oslo"))], 1):
        stream = stream.add_elements([TimestampedValue(change, at)])
    table = values(
        lambda p: (
            p
            | stream.advance_watermark_to_infinity()
            | beam.FromChangelog()
            | beam.WindowInto(GlobalWindows(), Repeatedly(AfterCount(1)), AccumulationMode.ACCUMULATING_AND_RETRACTING)
            | beam.MapTuple(lambda name, city: (city, 1))
            | beam.CombinePerKey(sum)
            | beam.ToChangelog()
        )
    )
    assert table == [
        (INSERT, ("Oslo", 1)),
        (DELETE, ("Oslo", 1)),
        (INSERT, ("Oslo", 2)),
        (DELETE, ("Oslo", 2)),
        (INSERT, ("Oslo", 1)),
    ]


def test_a_log_read_and_written_again_is_the_same_log_in_the_same_order():
    log = [Change(INSERT, 1), Change(DELETE, 1), Change(INSERT, 2), Change(INSERT, 1), Change(DELETE, 2)]
    assert values(lambda p: p | beam.Create(log) | beam.FromChangelog() | beam.ToChangelog()) == log


@pytest.mark.parametrize("bad", [("*", 1), 7, ("+", 1, 2), "+-"])
def test_what_is_no_change_is_refused_by_name(bad):
    with (
        pytest.raises(StepError, match=r"(?s)FromChangelog.*no change.*Change\(ChangeKind.INSERT, value\)"),
        beam.Pipeline("LocalRunner") as p,
    ):
        _ = p | beam.Create([bad]) | beam.FromChangelog() | beam.Map(print)


def test_a_collection_of_a_log_may_take_back_so_sinks_refuse_it():
    with pytest.raises(TopologyError, match="take retractions for results"), beam.Pipeline("LocalRunner") as p:
        log = p | beam.Create([Change(INSERT, 1)]) | beam.FromChangelog()
        _ = log | beam.io.Write(CallSink(lambda epoch, given: None))


def test_assert_that_compares_what_was_not_taken_back():
    with beam.Pipeline("LocalRunner") as p:
        totals = team_totals(p)
        assert_that(totals, equal_to([("a", 9), ("b", 6)]))
        assert_that(totals, equal_to_per_window({IntervalWindow(0, 10): [("a", 9), ("b", 6)]}), label="By window")
    with pytest.raises(StepError, match="unexpected: \\[\\('b', 6\\)\\]"), beam.Pipeline("LocalRunner") as p:
        assert_that(team_totals(p), equal_to([("a", 9), ("b", 5)]))


def test_assert_that_refuses_values_that_take_back_what_was_never_there():
    """What looks at the pane makes another value of a retraction, so it takes nothing back that was put out."""
    with (
        pytest.raises(StepError, match=r"(?s)takes back.*\(True, \('a', 5\)\).*ToChangelog\(\)"),
        beam.Pipeline("LocalRunner") as p,
    ):
        marked = team_totals(p) | beam.Map(lambda total, pane=beam.DoFn.PaneInfoParam: (pane.is_retraction, total))
        assert_that(marked, equal_to([(False, ("a", 9))]))


def _each_pane(actual):
    log = {(each.value, each.pane_info.is_retraction) for each in actual}
    assert log == {(change.value, change.kind is DELETE) for change in LOG}


def test_assert_that_sees_each_pane_where_it_is_asked_to():
    with beam.Pipeline("LocalRunner") as p:
        assert_that(team_totals(p), _each_pane, reify_windows=True)
    with pytest.raises(StepError, match="AssertionError"), beam.Pipeline("LocalRunner") as p:
        assert_that(team_totals(p) | beam.Filter(lambda pair: pair[0] == "a"), _each_pane, reify_windows=True)


def test_what_could_not_be_taken_back_is_said(caplog):
    with beam.Pipeline("LocalRunner") as p:
        marked = team_totals(p) | beam.Map(lambda total, pane=beam.DoFn.PaneInfoParam: (pane.is_retraction, 1))
        _ = marked | beam.WindowInto(FixedWindows(10)) | "Count" >> beam.CombinePerKey(sum)
    said = [record.getMessage() for record in caplog.records if "retract" in record.getMessage()]
    assert len(said) == 1
    assert "step 'Count'" in said[0]
    assert "ToChangelog" in said[0]
