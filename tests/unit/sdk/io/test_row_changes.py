"""How: changes of rows as a collection with retractions: what a change puts out, with and without a key."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace import RowChange, RowOperation
from headrace.lowlevel import CallSink, StepError, TopologyError
from headrace.metrics import MetricsFilter
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.window import FixedWindows, TimestampedValue
from tests.unit.collected import collect

READ, INSERT, UPDATE = RowOperation.READ, RowOperation.INSERT, RowOperation.UPDATE
DELETE, TRUNCATE = RowOperation.DELETE, RowOperation.TRUNCATE


def order(key, amount=1, at=5, **more):
    return {"id": key, "amount": amount, "at": at, **more}


def log(changes, **arguments):
    """What the changes, each at the second of its number, become: '+' or '-', the row and its event time."""

    def build(p):
        stamped = [TimestampedValue(change, number) for number, change in enumerate(changes)]
        return p | beam.Create(stamped) | beam.FromRowChanges(**arguments) | beam.ToChangelog()

    return [(str(change.kind), change.value, micros // 1_000_000) for change, micros in collect(build)]


def test_an_update_takes_the_row_before_back_at_its_own_event_time():
    changes = [
        RowChange(READ, None, order(1)),
        RowChange(UPDATE, None, order(1, 4)),
        RowChange(DELETE, {"id": 1}),
    ]
    assert log(changes, key="id") == [
        ("+", order(1), 0),
        ("-", order(1), 0),
        ("+", order(1, 4), 1),
        ("-", order(1, 4), 1),
    ]


def test_an_event_time_of_the_row():
    changes = [RowChange(INSERT, None, order(1, at=30)), RowChange(UPDATE, order(1, at=30), order(1, at=20))]
    expected = [("+", order(1, at=30), 30), ("-", order(1, at=30), 30), ("+", order(1, at=20), 20)]
    assert log(changes, key="id", timestamp="at") == expected
    assert log(changes, key=["id"], timestamp=lambda row: row["at"]) == expected
    assert log(changes, timestamp="at") == expected


def test_versions_end_when_the_next_one_begins():
    changes = [
        RowChange(INSERT, None, order(1, at=0)),
        RowChange(UPDATE, order(1, at=0), order(1, at=7)),
        RowChange(DELETE, order(1, at=7)),
    ]
    ended = [("+", order(1, at=0), 0), ("-", order(1, at=0), 7), ("+", order(1, at=7), 7), ("-", order(1, at=7), 7)]
    for key in ("id", None):
        assert log(changes, key=key, timestamp="at", versions=True) == ended
    by_commit = [("+", order(1, at=0), 0), ("-", order(1, at=0), 1), ("+", order(1, at=7), 1), ("-", order(1, at=7), 2)]
    assert log(changes, key="id", versions=True) == by_commit


def test_what_comes_again_or_was_never_there_changes_nothing():
    first = RowChange(INSERT, None, order(1))
    changes = [first, first, RowChange(READ, None, order(1)), RowChange(DELETE, order(2)), RowChange(DELETE, {"id": 2})]
    assert log(changes, key="id") == [("+", order(1), 0)]


def test_a_change_of_the_key_is_a_deletion_and_an_insertion():
    changes = [RowChange(INSERT, None, order(1)), RowChange(UPDATE, {"id": 1}, order(2)), RowChange(DELETE, {"id": 1})]
    assert sorted(log(changes, key=lambda row: row["id"]), key=str) == sorted(
        [("+", order(1), 0), ("-", order(1), 0), ("+", order(2), 1)], key=str
    )
    partial = [RowChange(INSERT, None, order(1)), RowChange(UPDATE, {"amount": 1}, order(1, 2))]
    assert log(partial, key=["id"]) == [("+", order(1), 0), ("-", order(1), 0), ("+", order(1, 2), 1)]


def test_truncation_takes_back_all_rows_that_are_there():
    changes = [RowChange(INSERT, None, order(key)) for key in range(40)]
    changes += [
        RowChange(DELETE, {"id": 3}),
        RowChange(TRUNCATE),
        RowChange(TRUNCATE),
        RowChange(INSERT, None, order(5)),
    ]
    net = {}
    for kind, row, _ in log(changes, key="id"):
        net[row["id"]] = net.get(row["id"], 0) + (1 if kind == "+" else -1)
    assert {key for key, count in net.items() if count} == {5}
    assert set(net.values()) == {0, 1}


def test_changes_out_of_order_are_told_by_their_sequence():
    newest = RowChange(UPDATE, None, order(1, 9), sequence=(2, 5))
    changes = [
        newest,
        RowChange(INSERT, None, order(1), sequence=(1, 7)),
        newest._replace(after=order(1, 8)),
        RowChange(DELETE, {"id": 1}, sequence=(3, 0)),
        RowChange(UPDATE, None, order(1, 7), sequence=(2, 9)),
        RowChange(INSERT, None, order(1, 6), sequence=(4, 0)),
    ]
    assert log(changes, key="id") == [("+", order(1, 9), 0), ("-", order(1, 9), 0), ("+", order(1, 6), 5)]


def test_a_change_from_before_a_truncation_brings_nothing_back():
    changes = [RowChange(INSERT, None, order(1), 1), RowChange(TRUNCATE, sequence=5), RowChange(TRUNCATE, sequence=7)]
    changes += [RowChange(INSERT, None, order(key), sequence) for key, sequence in ((1, 4), (2, 6), (3, 8))]
    assert log(changes, key="id") == [("+", order(1), 0), ("-", order(1), 0), ("+", order(3), 5)]


def test_changes_that_are_left_out_are_counted():
    changes = [RowChange(INSERT, None, order(1), number) for number in (2, 1, 2)]
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | beam.Create(changes) | beam.FromRowChanges(key="id") | beam.ToChangelog()
    _ = rows | beam.io.Write(CallSink(lambda epoch, given: None))
    found = pipeline.run().metrics().query(MetricsFilter().with_name("superseded"))["counters"]
    assert [each.committed for each in found] == [2]


def test_fields_that_the_source_left_out_are_those_of_the_row_before():
    changes = [
        RowChange(INSERT, None, order(1, note="long")),
        RowChange(UPDATE, None, order(1, 2, note="?"), unchanged=("note",)),
    ]
    assert log(changes, key="id")[-1] == ("+", order(1, 2, note="long"), 1)
    with pytest.raises(
        StepError, match=r"fields \['note'\] of .* are told to be as before, and no row before it is known"
    ):
        log(changes[1:], key="id")


def test_rows_may_have_attributes_for_fields():
    changes = [RowChange(INSERT, None, beam.Row(id=1, amount=2)), RowChange(UPDATE, None, beam.Row(id=1, amount=3))]
    assert [(kind, row.amount) for kind, row, _ in log(changes, key="id")] == [("+", 2), ("-", 2), ("+", 3)]


@pytest.mark.parametrize("change", [RowChange(UPDATE, None, order(1)), RowChange(DELETE), RowChange(TRUNCATE)])
def test_without_a_key_the_row_before_must_be_told(change):
    with pytest.raises(StepError, match=r"does not tell what it takes back; give FromRowChanges a key="):
        log([change])


def test_what_is_no_change_of_a_row_is_refused_by_name():
    for bad in (7, ("upsert", None, order(1)), ("insert",) * 9):
        with pytest.raises(StepError, match=r"is no change of a row; give RowChange\(operation, before, after\)"):
            log([bad], key="id")
    with pytest.raises(StepError, match="has no field 'id', which key= names"):
        log([RowChange(INSERT, None, {"name": "a"})], key="id")
    with pytest.raises(StepError, match="the change delete has no row"):
        log([RowChange(DELETE)], key="id")
    with pytest.raises(TypeError, match="key must be a list of columns"):
        beam.FromRowChanges(key=7)


def test_the_collection_may_retract_so_what_cannot_correct_itself_refuses_it():
    pipeline = beam.Pipeline("LocalRunner")
    rows = pipeline | beam.Create([RowChange(INSERT, None, order(1))]) | beam.FromRowChanges(key="id")
    early = AfterWatermark(early=AfterCount(1))
    discarding = beam.WindowInto(FixedWindows(10), early, AccumulationMode.DISCARDING)
    _ = rows | discarding | beam.WithKeys("all") | "Sum" >> beam.GroupByKey()
    with pytest.raises(TopologyError, match="step 'Sum' gets retractions, but its windows are emptied by each pane"):
        pipeline.topology()
