"""Joins by time: which rows meet, when results come out, with which time and windows, and what corrects them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.lowlevel.errors import TopologyChangeError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import LocalRunner
from headrace.testing.test_stream import TestStream
from headrace.transforms.schemas import Join
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, GlobalWindow, TimestampedValue
from headrace.utils.timestamp import Duration, Timestamp
from tests.unit.collected import collect

RETRACTING = AccumulationMode.ACCUMULATING_AND_RETRACTING
LATE_PANES = beam.WindowInto(
    FixedWindows(60),
    trigger=AfterWatermark(late=AfterCount(1)),
    accumulation_mode=RETRACTING,
    allowed_lateness=600,
)


def of(pipeline, name, rows, key="k"):
    timed = [TimestampedValue(beam.Row(**{key: user, "id": at}), at) for user, at in rows]
    return pipeline | name >> beam.Create(timed)


def ids(row):
    return row.left and row.left.id, row.right and row.right.id


def joined(left, right, how="inner", on="k", **by):
    """Numbers of left and right row, and the result's time in seconds."""

    def build(pipeline):
        rights = of(pipeline, "Right", right, on if isinstance(on, str) else on[0][1])
        return of(pipeline, "Left", left) | Join(rights, on, how, **by) | beam.Map(ids)

    return Counter((*row, time // 1_000_000) for row, time in collect(build))


@pytest.mark.parametrize("bounds", [(5, 10), (Duration(5), timedelta(seconds=10)), [5.0, 10]])
def test_both_ends_of_the_interval_are_in_it(bounds):
    right = [("a", at) for at in (94, 95, 100, 110, 111)]
    assert joined([("a", 100)], right, within=bounds) == Counter([(100, 95, 100), (100, 100, 100), (100, 110, 110)])


def test_kinds_of_join():
    left, right = [("a", 0), ("b", 1), (None, 2)], [("a", 3), ("c", 4), (None, 5)]
    match, lefts, rights = {(0, 3, 3)}, {(1, None, 1), (2, None, 2)}, {(None, 4, 4), (None, 5, 5)}
    expected = {"inner": match, "left": match | lefts, "right": match | rights, "outer": match | lefts | rights}
    for how, rows in expected.items():
        assert joined(left, right, how, within=(0, 60)) == Counter(rows)


def test_fields_of_other_names():
    assert joined([("a", 1)], [("a", 2)], on=[("k", "other")], within=(0, 1)) == Counter([(1, 2, 2)])


@pytest.mark.parametrize(
    ("names", "values"), [(["k"], "text"), (["n"], "numbers"), (["k", "n"], "both"), (["f"], "floats")]
)
@pytest.mark.parametrize("by", [{"within": (30, 60)}, {"as_of": True}])
def test_keys_in_columns_meet_keys_of_values(tmp_path, names, values, by):
    """Rows of Parquet come as columns, whose keys are encoded apart."""
    rng = random.Random(values)
    tables = [
        [
            {
                "k": rng.choice(["a", "é", None]),
                "n": rng.choice([1, 2, None]),
                "f": rng.choice([0.5, 1.0]),
                "id": number,
            }
            for number in range(60)
        ]
        for _ in range(2)
    ]

    def build(read):
        def both(pipeline):
            left, right = (read(pipeline, side, rows) for side, rows in enumerate(tables))
            joined = left | Join(right, names, "left", **by)
            return joined | beam.Map(lambda row: (row.left["id"], row.right and row.right["id"]))

        return Counter(collect(both))

    def from_values(pipeline, side, rows):
        return pipeline | f"Rows{side}" >> beam.Create([TimestampedValue(row, 7 * row["id"]) for row in rows])

    def from_columns(pipeline, side, rows):
        file = tmp_path / f"{side}.parquet"
        times = pa.array([7_000_000 * row["id"] for row in rows], pa.timestamp("us", "UTC"))
        pq.write_table(pa.Table.from_pylist(rows).append_column("at", times), file)
        return pipeline | f"Read{side}" >> beam.io.ReadFromParquet(str(file), timestamp="at")

    expected = build(from_values)
    assert sum(row[1] is not None for row, _ in expected) > 20
    assert build(from_columns) == expected
    assert build(lambda *each: (from_columns if each[1] else from_values)(*each)) == expected


def test_newest_row_at_a_time():
    left, right = [("a", 5), ("a", 10), ("a", 19), ("a", 20), ("b", 3)], [("a", 10), ("a", 20)]
    found = {(10, 10, 10), (19, 10, 19), (20, 20, 20)}
    assert joined(left, right, as_of=True) == Counter(found)
    assert joined(left, right, "left", as_of=True) == Counter(found | {(5, None, 5), (3, None, 3)})
    assert joined(left, right, as_of=8) == Counter(found - {(19, 10, 19)})
    assert joined(left, right, as_of=9) == Counter(found)


def test_of_rows_with_one_time_the_last_counts():
    def build(pipeline):
        prices = [TimestampedValue(beam.Row(k="a", id=price), 7) for price in (1, 3, 2)]
        right = pipeline | "Right" >> beam.Create(prices)
        return of(pipeline, "Left", [("a", 7)]) | Join(right, "k", as_of=True) | beam.Map(ids)

    assert collect(build) == [((7, 2), 7_000_000)]


class Played:
    """A join of two streams, and the sums of windows behind it."""

    def __init__(self, events, windowing, how, **by):
        self.changes, self.panes = [], []
        with beam.Pipeline(LocalRunner()) as pipeline:
            streams = pipeline | events
            left = streams["left"] | "Windows" >> windowing
            rows = left | "Join" >> Join(streams["right"], "k", how, **by)
            log = rows | "Log" >> beam.ToChangelog() | "Show" >> beam.Map(_shown)
            log | "Keep" >> beam.io.Write(CallSink(lambda epoch, its: self.changes.extend(row for row, _ in its)))
            counts = rows | "Side" >> beam.Map(lambda row: (row.right is not None, 1)) | beam.CombinePerKey(sum)
            panes = counts | "Log panes" >> beam.ToChangelog() | "Show panes" >> beam.Map(_pane)
            panes | "Keep panes" >> beam.io.Write(CallSink(lambda epoch, its: self.panes.extend(row for row, _ in its)))
        result = pipeline.result
        self.counters = result.counters


def _shown(change, window=beam.DoFn.WindowParam):
    return f"{change.kind}{ids(change.value)} in {window.start.seconds()}"


def _pane(change, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam):
    return f"{change.kind}{change.value} {window.start.seconds()} {pane.timing.name}"


def at(seconds, key="a"):
    return TimestampedValue(beam.Row(k=key, id=seconds), seconds)


def test_a_lonely_row_is_on_time_in_its_own_window():
    """The watermark behind the join waits for it, although its last partner's time is in another window."""
    events = (
        TestStream()
        .add_elements([at(10), at(11, "b")], tag="left")
        .advance_watermark_to(200, tag="left")
        .advance_watermark_to(70, tag="right")
        .add_elements([at(90)], tag="right")
        .advance_watermark_to(112, tag="right")
        .advance_watermark_to_infinity(tag="left")
        .advance_watermark_to_infinity(tag="right")
    )
    played = Played(events, beam.WindowInto(FixedWindows(60)), "left", within=(0, 100))
    assert played.changes == ["+(10, 90) in 60", "+(11, None) in 0"]
    assert played.panes == ["+(False, 1) 0 ON_TIME", "+(True, 1) 60 ON_TIME"]


def test_late_rows_are_dropped_and_counted():
    events = (
        TestStream()
        .add_elements([at(10)], tag="left")
        .advance_watermark_to(50, tag="left")
        .advance_watermark_to(50, tag="right")
        .add_elements([at(49), at(50)], tag="right")
        .advance_watermark_to_infinity(tag="left")
        .advance_watermark_to_infinity(tag="right")
    )
    played = Played(events, beam.WindowInto(FixedWindows(60)), "inner", within=(0, 100))
    assert played.changes == ["+(10, 50) in 0"]
    assert played.counters["Join/ByTime"]["dropped_late"] == 1


@pytest.mark.parametrize("takes_back", [False, True])
@pytest.mark.parametrize("by", [{"within": (0, 100)}, {"as_of": True}])
def test_late_rows_are_an_output(by, takes_back):
    right = [at(49), at(50)]
    events = (
        TestStream()
        .add_elements([at(10)], tag="left")
        .advance_watermark_to(50, tag="left")
        .advance_watermark_to(50, tag="right")
        .add_elements(
            [TimestampedValue(("+", it.value), it.timestamp) for it in right] if takes_back else right, tag="right"
        )
        .advance_watermark_to_infinity(tag="left")
        .advance_watermark_to_infinity(tag="right")
    )

    def build(pipeline):
        streams = pipeline | events
        rights = streams["right"] | beam.FromChangelog() if takes_back else streams["right"]
        _, late = streams["left"] | Join(rights, "k", **by).with_late_data()
        return late | beam.ToChangelog() | beam.Map(lambda it: (str(it.kind), *it.value))

    assert collect(build) == [
        (("+", ("a",), beam.Row(k="a", id=49), GlobalWindow(), Timestamp(49), Timestamp(50)), 49_000_000)
    ]


LATE_PARTNER = (
    TestStream()
    .add_elements([at(10)], tag="left")
    .advance_watermark_to(100, tag="left")
    .advance_watermark_to(100, tag="right")
    .add_elements([at(5)], tag="right")
    .advance_watermark_to_infinity(tag="left")
    .advance_watermark_to_infinity(tag="right")
)


@pytest.mark.parametrize("by", [{"within": (5, 20)}, {"as_of": True}])
def test_late_rows_correct_what_was_said(by):
    played = Played(LATE_PARTNER, LATE_PANES, "left", **by)
    assert played.changes == ["+(10, None) in 0", "-(10, None) in 0", "+(10, 5) in 0"]
    assert played.panes == ["+(False, 1) 0 ON_TIME", "-(False, 1) 0 ON_TIME", "+(True, 1) 0 LATE"]


@pytest.mark.parametrize("by", [{"within": (5, 20)}, {"as_of": True}])
def test_without_retractions_a_result_waits_for_late_rows(by):
    played = Played(LATE_PARTNER, beam.WindowInto(FixedWindows(60), allowed_lateness=600), "left", **by)
    assert played.changes == ["+(10, 5) in 0"]


def test_retractions_of_the_input_retract_matches():
    def build(pipeline):
        changes = [("+", at(20)), ("+", at(30)), ("-", at(20))]
        timed = [TimestampedValue((kind, each.value), each.timestamp) for kind, each in changes]
        right = pipeline | "Right" >> beam.Create(timed) | beam.FromChangelog()
        left = of(pipeline, "Left", [("a", 25)])
        return (
            left
            | Join(right, "k", "left", within=(5, 5))
            | beam.ToChangelog()
            | beam.Map(lambda it: (it.kind, *ids(it.value)))
        )

    net = Counter()
    for (kind, *row), _ in collect(build):
        net[tuple(row)] += 1 if kind == "+" else -1
    assert +net == Counter([(25, 30)])


def test_a_deletion_with_a_later_time_ends_a_version():
    """As in the change log of a table, where an update is a deletion of the old row and an insertion."""

    def build(pipeline):
        changes = [("+", 1, 10), ("-", 1, 20), ("+", 2, 20), ("-", 2, 30)]
        timed = [TimestampedValue((kind, beam.Row(k="a", id=value)), time) for kind, value, time in changes]
        right = pipeline | "Right" >> beam.Create(timed) | beam.FromChangelog()
        left = of(pipeline, "Left", [("a", 9), ("a", 19), ("a", 20), ("a", 29), ("a", 30)])
        return left | Join(right, "k", "left", as_of=True) | beam.ToChangelog() | beam.Map(lambda it: ids(it.value))

    assert sorted(row for row, _ in collect(build)) == [(9, None), (19, 1), (20, 2), (29, 2), (30, None)]


def test_a_late_change_of_a_table_corrects_what_followed_from_its_rows():
    def customer(city):
        return beam.Row(k="a", id=city)

    def change(operation, row, seconds):
        return TimestampedValue(beam.RowChange(operation, None, row), seconds)

    events = (
        TestStream()
        .add_elements([change("insert", customer("oslo"), 5)], tag="customers")
        .add_elements([at(10), at(20)], tag="orders")
        .advance_watermark_to(30, tag="orders")
        .advance_watermark_to(30, tag="customers")
        .add_elements([change("update", customer("rome"), 15)], tag="customers")
        .advance_watermark_to_infinity(tag="orders")
        .advance_watermark_to_infinity(tag="customers")
    )

    def build(pipeline):
        streams = pipeline | events
        customers = streams["customers"] | beam.FromRowChanges(key="k", versions=True)
        joined = streams["orders"] | LATE_PANES | Join(customers, "k", as_of=True)
        return joined | beam.ToChangelog() | beam.Map(lambda it: (str(it.kind), *ids(it.value)))

    changes = [row for row, _ in collect(build)]
    assert changes == [("+", 10, "oslo"), ("+", 20, "oslo"), ("-", 20, "oslo"), ("+", 20, "rome")]


def test_a_missing_field_names_step_and_element():
    def build(pipeline):
        right = pipeline | "Right" >> beam.Create([beam.Row(other=1)])
        return of(pipeline, "Left", [("a", 1)]) | Join(right, "k", within=(0, 1))

    with pytest.raises(StepError, match=r"raised at Row\(other=1\); .*\nAttributeError: row has no field 'k'"):
        collect(build)


def test_state_of_other_bounds_is_refused(tmp_path):
    """The cells of the rows depend on them."""

    def life(after):
        options = PipelineOptions([], checkpoint=str(tmp_path / "state"))
        pipeline = beam.Pipeline(LocalRunner(), options)
        rows = of(pipeline, "Left", [("a", 1)]) | Join(of(pipeline, "Right", [("a", 2)]), "k", within=(0, after))
        rows | beam.Map(ids) | beam.io.Write(CallSink(lambda epoch, its: None))
        return pipeline.run()

    life(60)
    with pytest.raises(TopologyChangeError, match=r"within"):
        life(30)
