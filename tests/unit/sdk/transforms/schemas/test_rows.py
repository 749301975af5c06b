"""Rows: fields by name, aggregates, joins by field against a join by hand, and what is refused."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as beam
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.transforms.schemas import CoGroup, Join
from headrace.typehints import TypeCheckError
from headrace.typehints.row_type import RowTypeConstraint
from tests.unit.collected import values

USERS = [beam.Row(user=1, name="ann"), beam.Row(user=2, name="bob"), beam.Row(user=None, name="nobody")]
ORDERS = [
    beam.Row(user=1, item="x"),
    beam.Row(user=1, item="y"),
    beam.Row(user=3, item="z"),
    beam.Row(user=None, item="q"),
]


class Flight(NamedTuple):
    carrier: str
    delay: int

    @property
    def late(self) -> bool:
        return self.delay > 15


def joined(how, left=USERS, right=ORDERS, on="user"):
    def build(p):
        orders = p | "Orders" >> beam.Create(right)
        return p | "Users" >> beam.Create(left) | Join(orders, on, how)

    return {(getattr(row.left, "name", None), getattr(row.right, "item", None)) for row in values(build)}


def test_joins_by_field():
    matched = {("ann", "x"), ("ann", "y")}
    lonely_left, lonely_right = {("bob", None), ("nobody", None)}, {(None, "z"), (None, "q")}
    assert joined("inner") == matched
    assert joined("left") == matched | lonely_left
    assert joined("right") == matched | lonely_right
    assert joined("outer") == matched | lonely_left | lonely_right


def test_joins_by_several_fields_of_different_names():
    left = [beam.Row(a=1, b="x", name="one"), beam.Row(a=1, b="y", name="two")]
    right = [{"a": 1, "c": "x", "item": "i"}]

    def build(p):
        rows = p | "Right" >> beam.Create(right) | beam.Map(lambda fields: beam.Row(**fields))
        return p | beam.Create(left) | Join(rows, ["a", ("b", "c")], names=("l", "r"))

    (row,) = values(build)
    assert (row.l.name, row.r.item) == ("one", "i")


fields = st.none() | st.integers(0, 3)
sides = st.lists(fields, max_size=5)


@settings(max_examples=25)
@given(sides, sides, st.sampled_from(["inner", "left", "right", "outer"]))
def test_joins_as_by_hand(left, right, how):
    users = [beam.Row(user=user, name=f"u{place}") for place, user in enumerate(left)]
    orders = [beam.Row(user=user, item=f"o{place}") for place, user in enumerate(right)]
    pairs = {(u.name, o.item) for u in users for o in orders if u.user == o.user is not None}
    if how in ("left", "outer"):
        pairs |= {(u.name, None) for u in users if u.name not in {name for name, _ in pairs}}
    if how in ("right", "outer"):
        pairs |= {(None, o.item) for o in orders if o.item not in {item for _, item in pairs}}
    assert joined(how, users, orders) == pairs


def test_several_collections_together():
    def build(p):
        users, orders = p | "Users" >> beam.Create(USERS[:2]), p | "Orders" >> beam.Create(ORDERS[:3])
        return {"users": users, "orders": orders} | CoGroup("user")

    found = {row.user: ([u.name for u in row.users], sorted(o.item for o in row.orders)) for row in values(build)}
    assert found == {1: (["ann"], ["x", "y"]), 2: (["bob"], []), 3: ([], ["z"])}


def test_fields_of_properties_and_dicts():
    flights = [Flight("UA", 2), Flight("UA", 20)]
    assert values(lambda p: p | beam.Create(flights) | beam.Select("late")) == [
        beam.Row(late=False),
        beam.Row(late=True),
    ]
    found = values(lambda p: p | beam.Create([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) | total("a", "b"))
    assert found == [(1, 5)]


def total(by, field):
    return beam.GroupBy(by).aggregate_field(field, sum, "total")


def test_a_class_of_combiners_is_as_good_as_one():
    mean = beam.GroupBy("carrier").aggregate_field("delay", beam.combiners.MeanCombineFn, "mean")
    assert values(lambda p: p | beam.Create([Flight("UA", 2), Flight("UA", 4)]) | mean) == [("UA", 3.0)]


def test_types_follow():
    flights = beam.Pipeline("LocalRunner") | beam.Create([Flight("UA", 2)])
    assert flights.element_type is Flight
    chosen = flights | beam.Select("carrier", minutes="delay")
    assert chosen.element_type == RowTypeConstraint.from_fields([("carrier", str), ("minutes", int)])
    assert (flights | beam.GroupBy("carrier")).element_type.__args__[0] is str


def test_a_field_that_is_not_there_is_refused_when_the_pipeline_is_built():
    for step in (beam.Select("colour"), beam.GroupBy("colour"), total("carrier", "colour")):
        with pytest.raises(TypeCheckError) as caught:
            beam.Pipeline("LocalRunner") | beam.Create([Flight("UA", 2)]) | "Step" >> step
        said = str(caught.value)
        assert said == "step 'Step': what step 'Create' puts out, Flight, has no field 'colour'; it has carrier, delay"


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: beam.Select(), ValueError, "Select takes at least one field"),
        (lambda: beam.GroupBy(3), TypeError, "names of fields and functions of the element, got 3"),
        (lambda: beam.Select("a", "a"), ValueError, "the field 'a' twice"),
        (lambda: total("a", "b").aggregate_field("c", sum, "total"), ValueError, "other than a, total, got 'total'"),
        (lambda: total("a", "b").aggregate_field("c", sum, "no name"), ValueError, "got 'no name'"),
        (lambda: Join(None, "a", "cross"), ValueError, "how must be one of inner, left, right, outer, got 'cross'"),
        (lambda: Join(None, []), ValueError, "at least one field"),
        (lambda: CoGroup(), ValueError, "at least one field"),
    ],
)
def test_wrong_arguments(make, kind, said):
    with pytest.raises(kind, match=said):
        make()


PROGRAM = """
import pickle, sys
from headrace import Row
from headrace.lowlevel.coders.key_types import dynamic_named_tuple
sys.stdout.buffer.write(pickle.dumps([Row(a=1, b="x"), dynamic_named_tuple("Key", ("a", "b"))(1, "x")]))
"""


def test_rows_of_another_process_are_equal():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=dict(os.environ), capture_output=True, check=True)
    row, key = pickle.loads(ran.stdout)
    assert row == beam.Row(a=1, b="x") and hash(row) == hash(beam.Row(a=1, b="x"))
    assert key == (1, "x") and key.b == "x"


def test_rows_pickle_small():
    rows = [beam.Row(carrier="UA", delay=number) for number in range(1000)]
    assert len(pickle.dumps(rows, 5)) < 1000 * 20


def test_a_row_that_was_pickled_or_copied_is_equal_and_apart():
    row = beam.Row(carrier="UA", delay=3)
    for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert other == row
        other.delay = 4
        assert row.delay == 3
    assert pickle.loads(pickle.dumps(beam.Row())) == beam.Row()


class TestNulls:
    """The error names step, key, field and value, wherever the combiner meets them."""

    ROWS = ({"team": "red", "n": 1, "m": 1}, {"team": "red", "n": 1, "m": None})

    @pytest.mark.parametrize("combiner", [sum, max, beam.combiners.MeanCombineFn()])
    @pytest.mark.parametrize("records", [1, 9])
    @pytest.mark.parametrize("field", ["m", lambda row: row["m"]])
    def test_of_a_field_that_is_combined(self, combiner, records, field):
        options = PipelineOptions(max_records_per_epoch=records)
        with pytest.raises(StepError) as caught, beam.Pipeline("LocalRunner", options) as pipeline:
            grouping = (
                beam.GroupBy("team").aggregate_field("n", sum, "first").aggregate_field(field, combiner, "second")
            )
            pipeline | beam.Create(self.ROWS) | grouping
        error = caught.value
        assert (error.step, error.key) == ("GroupBy(team)/Combine", ("red",))
        text = "m" if field == "m" else "<lambda row: row['m']>"
        note = f"while field 'second' (aggregate_field of {text}) was combined; leave nulls out before, or give them"
        assert note in error.cause
        if records == 9 or combiner is not max:
            assert error.value == (1, None)

    def test_of_a_key_are_named_where_only_two_values_do_not_go_together(self):
        with pytest.raises(StepError, match="at the value None; leave such values out before") as caught:
            values(lambda p: p | beam.Create([("red", 1), ("red", None)]) | beam.CombinePerKey(max))
        assert caught.value.key == "red"

    def test_a_value_of_another_type_is_named(self):
        with pytest.raises(StepError, match="raised for key 'red' at 'x'"):
            values(lambda p: p | beam.Create([("red", 1), ("red", "x")]) | beam.CombinePerKey(max))
