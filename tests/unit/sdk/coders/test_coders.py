"""Coders: values come back, stable bytes, Beam's names, and which coder goes with which type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as beam
from headrace import coders
from headrace.coders import registry
from headrace.coders.coders import DeterministicFastPrimitivesCoder
from headrace.coders.typecoders import CoderRegistry
from headrace.typehints.row_type import RowTypeConstraint
from headrace.utils.timestamp import Timestamp
from tests.unit.lowlevel.coders.keytypes import Place, Point, PointCoder, Team

INTS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-(2**62), 2**62).map(lambda micros: Timestamp(micros=micros))
PLAIN = [
    (coders.BytesCoder(), st.binary()),
    (coders.StrUtf8Coder(), st.text()),
    (coders.VarIntCoder(), INTS),
    (coders.BigIntegerCoder(), st.integers()),
    (coders.FloatCoder(), st.floats(allow_nan=False)),
    (coders.BooleanCoder(), st.booleans()),
    (coders.DecimalCoder(), st.decimals(allow_nan=False)),
    (coders.TimestampCoder(), TIMES),
    (coders.PickleCoder(), st.lists(st.integers())),
    (coders.CloudpickleCoder(), st.dictionaries(st.text(), st.integers())),
    (coders.FastPrimitivesCoder(), st.sets(st.integers())),
]


@st.composite
def coded(draw):
    """A coder of coders, and a value for it."""
    coder, made = draw(st.sampled_from(PLAIN))
    other, others = draw(st.sampled_from(PLAIN))
    kind = draw(st.sampled_from(["plain", "nullable", "tuple", "list", "sequence", "map"]))
    if kind == "nullable":
        return coders.NullableCoder(coder), draw(st.none() | made)
    if kind == "tuple":
        return coders.TupleCoder([coder, other, coder]), draw(st.tuples(made, others, made))
    if kind == "list":
        return coders.ListCoder(coder), draw(st.lists(made))
    if kind == "sequence":
        return coders.TupleSequenceCoder(coder), draw(st.lists(made).map(tuple))
    if kind == "map":
        return coders.MapCoder(coders.StrUtf8Coder(), coder), draw(st.dictionaries(st.text(), made))
    return coder, draw(made)


@given(coded())
def test_values_come_back(case):
    coder, value = case
    data = coder.encode(value)
    back = coder.decode(data)
    assert (back, type(back)) == (value, type(value))
    assert coder.estimate_size(value) == len(data)
    if coder.is_deterministic():
        assert coder.encode(back) == data


@given(coded(), coded())
def test_a_tuple_of_anything_comes_back(one, other):
    coder = coders.TupleCoder([one[0], other[0]])
    assert coder.decode(coder.encode((one[1], other[1]))) == (one[1], other[1])
    assert coder.is_deterministic() == (one[0].is_deterministic() and other[0].is_deterministic())
    assert coder.is_kv_coder()


def test_bytes_are_stable():
    assert coders.VarIntCoder().encode(-1).hex() == "ffffffffffffffffff01"
    assert coders.VarIntCoder().encode(300).hex() == "ac02"
    assert coders.FloatCoder().encode(1.0).hex() == "3ff0000000000000"
    assert coders.BooleanCoder().encode(True) == b"\x01"
    assert coders.TimestampCoder().encode(Timestamp(0)).hex() == "8000000000000000"
    assert coders.BigIntegerCoder().encode(-129).hex() == "ff7f"
    pair = coders.TupleCoder([coders.StrUtf8Coder(), coders.VarIntCoder()])
    assert pair.encode(("ab", 1)).hex() == "0261620101"
    assert coders.MapCoder(coders.StrUtf8Coder(), coders.VarIntCoder()).encode({"b": 2, "a": 1}) == b"\1a\1\1\1b\1\2"


@given(INTS, st.text(), st.floats(allow_nan=False), st.booleans())
def test_plain_bytes_are_those_of_beam(number, text, real, truth):
    theirs = pytest.importorskip("apache_beam.coders")
    assert coders.VarIntCoder().encode(number) == theirs.VarIntCoder().encode(number)
    assert coders.StrUtf8Coder().encode(text) == theirs.StrUtf8Coder().encode(text)
    assert coders.FloatCoder().encode(real) == theirs.FloatCoder().encode(real)
    assert coders.BooleanCoder().encode(truth) == theirs.BooleanCoder().encode(truth)


@given(TIMES, TIMES)
def test_timestamps_sort_by_their_bytes(one, other):
    coder = coders.TimestampCoder()
    assert (coder.encode(one) < coder.encode(other)) == (one < other)


@pytest.mark.parametrize(
    ("hint", "coder"),
    [
        (int, coders.VarIntCoder()),
        (str | None, coders.NullableCoder(coders.StrUtf8Coder())),
        (tuple[str, int], coders.TupleCoder([coders.StrUtf8Coder(), coders.VarIntCoder()])),
        (beam.typehints.KV[str, float], coders.TupleCoder([coders.StrUtf8Coder(), coders.FloatCoder()])),
        (tuple[int, ...], coders.TupleSequenceCoder(coders.VarIntCoder())),
        (list[bytes], coders.ListCoder(coders.BytesCoder())),
        (Iterable[bool], coders.IterableCoder(coders.BooleanCoder())),
        (Sequence[Decimal], coders.IterableCoder(coders.DecimalCoder())),
        (dict[str, Timestamp], coders.MapCoder(coders.StrUtf8Coder(), coders.TimestampCoder())),
        (Place, coders.RowCoder(Place, {"city": coders.StrUtf8Coder(), "number": coders.VarIntCoder()})),
        (
            RowTypeConstraint.from_fields([("a", int)]),
            coders.RowCoder(beam.Row, {"a": coders.VarIntCoder()}),
        ),
        (int | str, coders.FastPrimitivesCoder()),
        (Point, coders.FastPrimitivesCoder()),
    ],
)
def test_the_coder_of_a_type(hint, coder):
    assert registry.get_coder(hint) == coder


def test_rows_come_back_as_their_own_type():
    for value in (Place("Rome", 3), Team("ajax", None, rank=1)):
        coder = registry.get_coder(type(value))
        fields = [name for name in ("size",) if hasattr(value, name)]
        if not fields:
            assert coder.decode(coder.encode(value)) == value
    coder = registry.get_coder(RowTypeConstraint.from_fields([("a", int), ("b", str)]))
    assert coder.decode(coder.encode(beam.Row(a=1, b="x"))) == beam.Row(a=1, b="x")


def test_users_coders():
    coders_of = CoderRegistry()
    coders_of.register_coder(Point, PointCoder)
    assert coders_of.get_coder(list[Point]) == coders.ListCoder(PointCoder())
    coder = coders_of.get_coder(tuple[Point, Point])
    assert coder.is_deterministic()
    assert coder.decode(coder.encode((Point(1, 2), Point(3, 4)))) == (Point(1, 2), Point(3, 4))
    with pytest.raises(TypeError, match="the coder of Point must be a Coder"):
        coders_of.register_coder(Point, int)
    with pytest.raises(TypeError, match="registered for a class"):
        coders_of.register_coder("Point", PointCoder)


def test_deterministic_coders_of_coders_that_are_not():
    coder = coders.TupleCoder([coders.PickleCoder(), coders.VarIntCoder()])
    assert not coder.is_deterministic()
    sure = coder.as_deterministic_coder("Group")
    assert sure.is_deterministic() and sure.decode(sure.encode((Place("a", 1), 2))) == (Place("a", 1), 2)
    assert isinstance(coders.FastPrimitivesCoder().as_deterministic_coder("Group"), DeterministicFastPrimitivesCoder)

    class Vague(coders.Coder):
        pass

    with pytest.raises(ValueError, match="step 'Group': Vague is not deterministic"):
        coders.ListCoder(Vague()).as_deterministic_coder("Group")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_numbers_too_large_for_a_varint_are_refused(number):
    with pytest.raises(OverflowError, match="BigIntegerCoder"):
        coders.VarIntCoder().encode(number)


def test_a_tuple_of_another_length_is_refused():
    with pytest.raises(ValueError):
        coders.TupleCoder([coders.VarIntCoder()]).encode((1, 2))
