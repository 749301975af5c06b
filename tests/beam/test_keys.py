"""Keys that go as they are stand for the same keys of Beam's as encoded ones do, by row and by column."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from itertools import product
from unittest.mock import patch

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.typehints import typehints
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coders.coder import encode_key
from headrace.runners.beam import HeadraceRunner
from headrace.runners.beam.functions import keys
from headrace.runners.beam.functions.keys import BeamKeyCoder, Decode, Encode, NoKeys, Texts
from headrace.sdk.expressions.batch_view import BatchView, Unable
from headrace.sdk.expressions.element_schema import Single, Tuple, pair

Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


@dataclass(frozen=True)
class KeyedPage:
    name: str
    part: object = None


PARTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), 2**70]),
    st.sampled_from(["", "a", "1", "None"]),
    st.sampled_from([b"", b"a", b"1"]),
    st.sampled_from([0.0, -0.0, 1.0, 2.0]),
    st.sampled_from([Point(1, 2), Level.LOW]),
)
KEYS = st.recursive(
    PARTS,
    lambda parts: (
        st.lists(parts, max_size=3).map(tuple)
        | st.lists(parts, max_size=2)
        | st.builds(KeyedPage, st.sampled_from(["a", "b"]), parts)
        | st.builds(Point, parts, parts)
    ),
)


def of_any():
    return coders.FastPrimitivesCoder().as_deterministic_coder("a step")


CODERS = {
    "any": of_any(),
    "text and number": typecoders.registry.get_coder(typehints.Tuple[str, int]),
    "number and any": typecoders.registry.get_coder(typehints.Tuple[int, typehints.Any]).as_deterministic_coder("a"),
    "text and bytes": typecoders.registry.get_coder(typehints.Tuple[str, bytes]),
    "list": typecoders.registry.get_coder(typehints.List[typehints.Any]).as_deterministic_coder("a"),
    "text and list": typecoders.registry.get_coder(
        typehints.Tuple[str, typehints.List[typehints.Any]]
    ).as_deterministic_coder("a"),
    "pickled": coders.PickleCoder(),
}


def of_beam(coder, key):
    """The bytes by which Beam compares a key, and the key that it gives; None if it refuses the key."""
    try:
        encoded = coder.encode(key)
        return encoded, repr(coder.decode(encoded))
    except Exception:
        return None


@pytest.mark.parametrize("name", CODERS)
@given(
    given_keys=st.lists(
        KEYS
        | st.tuples(st.sampled_from(["a", ""]), KEYS)
        | st.tuples(st.sampled_from(["a", ""]), st.booleans() | st.integers(0, 1)),
        max_size=6,
    )
)
def test_the_same_keys_are_equal_as_with_beam(name, given_keys):
    coder = CODERS[name]
    ours, taken = BeamKeyCoder(coder), []
    for key in given_keys:
        expected = of_beam(coder, key)
        if expected is None:
            with pytest.raises(Exception):  # noqa: B017 - each kind of key has an error of its own
                ours.encode(key)
        else:
            encoded = ours.encode(key)
            assert repr(ours.decode(encoded)) == expected[1]
            taken.append((expected[0], encode_key(encoded)))
    for (one, our_one), (other, our_other) in product(taken, taken):
        assert (our_one == our_other) is (one == other)


def test_which_keys_go_as_they_are():
    assert [BeamKeyCoder(of_any()).encode(key) for key in ("a", 1, None, ("a", (1, None)))] == [
        "a",
        1,
        None,
        ("a", (1, None)),
    ]
    others = (True, 1.0, b"a", ("a", True), [1])
    assert {type(BeamKeyCoder(of_any()).encode(key)) for key in others} == {bytes}
    classed = (Point(1, 2.5), Level.LOW, KeyedPage("a", (True, b"")), ("a", Level.LOW), [Point(1, [2])])
    assert all(BeamKeyCoder(of_any()).encode(key) is key for key in classed)
    typed = BeamKeyCoder(CODERS["text and number"])
    assert typed.encode(("a", 1)) == typed.encode(("a", True)) == typed.encode(["a", 1]) == ("a", 1)
    assert typed.encode(("a", True))[1].__class__ is int
    assert BeamKeyCoder(CODERS["pickled"]).plain == NoKeys()
    coder = BeamKeyCoder(CODERS["list"])
    assert coder.encode((Level.LOW,)) == [Level.LOW] and coder.encode([1]) != [1]
    names = [repr(BeamKeyCoder(CODERS[name])) for name in ("list", "text and list", "text and number")]
    assert ["plain" in name for name in names] == [False, False, True]
    assert BeamKeyCoder(coders.StrUtf8Coder()).plain == Texts()


COLUMNS = {
    "text": pa.array(["a", None, "b"]),
    "large text": pa.array(["a", None, "b"], pa.large_string()),
    "number": pa.array([1, 2, None], pa.int32()),
    "whole number": pa.array([1, 2, 3]),
    "nothing": pa.nulls(3),
    "known text": pa.array(["a", "b", "a"]),
    "truth": pa.array([True, None, False]),
    "share": pa.array([1.0, 2.0, None]),
    "bytes": pa.array([b"a", b"b", None]),
    "decimal": pa.array([Decimal(1), Decimal(2), None]),
}
TABLE = pa.record_batch(list(COLUMNS.values()), list(COLUMNS))


def by_column(function, shape):
    """The pairs that a function of pairs makes of columns; None if it does not."""
    view = BatchView(TABLE, np.zeros(3, np.int64), pair(shape, Single(0)), lambda: (None, None))
    try:
        return view.result(function.on_columns(view)).values
    except Unable:
        return None


def shapes():
    singles = [Single(place) for place in range(len(COLUMNS))]
    return [*singles, *(Tuple((one, other)) for one, other in product(singles, singles))]


@pytest.mark.parametrize("name", CODERS)
def test_columns_of_keys_go_as_they_are_where_single_keys_do(name):
    coder = BeamKeyCoder(CODERS[name])
    found = 0
    for shape in shapes():
        pairs = pair(shape, Single(0)).values(TABLE)
        for function in (Encode(coder), Decode(coder)):
            columns = by_column(function, shape)
            if columns is not None:
                found += 1
                assert repr(columns) == repr([function(each) for each in pairs])
    assert found == {"any": 2 * (6 + 36), "text and number": 2, "number and any": 2 * 6}.get(name, 0)


MIXED = [1, True, 1.0, "1", b"1", None, (1, "a"), (True, "a"), (1.0, "a"), Point(1, "a"), 1, True, (1, "a")]


def told(row, name, file):
    with open(file, "a", encoding="utf-8") as rows:
        print(name, row, file=rows)


def groups(runner, file):
    """What two groupings of the mixed keys give."""
    file.write_text("", encoding="utf-8")
    with beam.Pipeline(runner=runner) as pipeline:
        pairs = pipeline | beam.Create(MIXED) | beam.Map(lambda key: (key, 1)).with_output_types(tuple[object, int])
        grouped = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, ones: (key, list(ones)))
        counted = pairs | beam.combiners.Count.PerKey()
        for name, rows in (("grouped", grouped), ("counted", counted)):
            _ = rows | name >> beam.Map(told, name, str(file))
    return sorted(file.read_text(encoding="utf-8").splitlines())


def test_keys_of_many_types_in_one_grouping(tmp_path):
    ours = groups(HeadraceRunner("LocalRunner"), tmp_path / "ours")
    with patch.object(keys, "plain_keys", lambda coder: NoKeys()):
        assert ours == groups(HeadraceRunner("LocalRunner"), tmp_path / "encoded")
    # Beam's own runner combines before its shuffle by Python's equality, for which 1, 1.0 and True are one key.
    assert ours[10:] == groups(FnApiRunner(), tmp_path / "beam")[-10:]
    assert len(ours) == 2 * 10


@pytest.mark.parametrize("wrap", [lambda nan: nan, lambda nan: ("a", nan)])
def test_nan_is_one_key(wrap, capsys):
    bits = (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1)
    nans = [struct.unpack(">d", each.to_bytes(8, "big"))[0] for each in bits]
    with beam.Pipeline(HeadraceRunner()) as pipeline:
        pairs = pipeline | beam.Create(nans) | beam.Map(lambda nan: (wrap(nan), 1))
        _ = pairs | beam.CombinePerKey(sum) | beam.Values() | beam.Map(print)
    assert capsys.readouterr().out == "3\n"


def test_keys_of_a_class_inside_a_function_are_told_apart_by_beams_coder(tmp_path):
    """Headrace's own encoding names the class, which no other process finds."""
    at = {}
    Local = namedtuple("Local", "id")
    for runner in (FnApiRunner(), HeadraceRunner()):
        told = tmp_path / type(runner).__name__
        with beam.Pipeline(runner) as pipeline:
            pairs = pipeline | beam.Create([0, 1, 0]) | beam.Map(lambda number: (Local(number), number))
            counts = pairs | beam.GroupByKey() | beam.MapTuple(lambda key, found: (tuple(key), len(list(found))))
            _ = counts | beam.combiners.ToList() | beam.Map(lambda rows, to=told: to.write_text(str(sorted(rows))))
        at[told.name] = told.read_text()
    assert set(at.values()) == {"[((0,), 2), ((1,), 1)]"} and len(at) == 2
