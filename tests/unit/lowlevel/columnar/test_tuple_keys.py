"""Keys encoded by column are those that are encoded one by one, and come back."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.coders.coder import KeyCoder, PickleCoder
from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.columnar.key_columns import ENCODED, TupleKeys

CODER = KeyCoder()
KINDS = {str: pa.large_string(), int: pa.int64()}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["", ":", "3:s", "é" * 60])
_FIELDS = {str: _TEXT, int: st.integers(-(1 << 63), (1 << 63) - 1)}


@st.composite
def tuples(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """Keys of one kind."""
    kinds = draw(st.lists(st.sampled_from([str, int]), min_size=1, max_size=4))
    keys = draw(st.lists(st.tuples(*(_FIELDS[kind] for kind in kinds)), min_size=1, max_size=20))
    if draw(st.booleans()):
        return keys
    name = draw(st.sampled_from(["Key", "K" * 50]))
    make = dynamic_named_tuple(name, tuple(f"field{n}" for n in range(len(kinds))))
    return [make(*key) for key in keys]


def columns_of(keys: Sequence[tuple[object, ...]]) -> list[pa.Array]:
    return [pa.array(values, KINDS[type(values[0])]) for values in zip(*keys, strict=True)]


@given(tuples())
def test_bytes_by_column_are_the_bytes_one_by_one_and_come_back(keys: list[tuple[object, ...]]) -> None:
    made = TupleKeys.like(keys[0], CODER.encode)
    assert made is not None
    encoded = made.encoded(columns_of(keys))
    assert encoded.to_pylist() == list(map(CODER.encode, keys))
    padded = pa.concat_arrays([pa.array([b"x"], ENCODED), encoded, pa.array([b"y"], ENCODED)])
    for array in (encoded, padded.slice(1, len(keys))):
        found = made.decoded(array)
        assert found is not None
        assert list(zip(*(column.to_pylist() for column in found), strict=True)) == list(map(tuple, keys))


@given(tuples(), st.lists(st.binary(max_size=30) | tuples().map(lambda keys: CODER.encode(keys[0])), min_size=1))
def test_other_bytes_are_refused_or_are_such_keys(keys: list[tuple[object, ...]], others: list[bytes]) -> None:
    made = TupleKeys.like(keys[0], CODER.encode)
    assert made is not None
    found = made.decoded(pa.array([CODER.encode(keys[0]), *others], ENCODED))
    if found is not None:
        rows = zip(*(column.to_pylist() for column in found), strict=True)
        assert [tuple(CODER.decode(other)) for other in others] == list(rows)[1:]


def test_half_a_pair_of_surrogates_and_large_numbers_are_not_for_columns() -> None:
    text, number = TupleKeys.like(("a",), CODER.encode), TupleKeys.like((1,), CODER.encode)
    assert text is not None and number is not None
    assert text.decoded(pa.array([CODER.encode(("\ud800",))], ENCODED)) is None
    assert number.decoded(pa.array([CODER.encode((1 << 64,))], ENCODED)) is None


class Odd(tuple[str, ...]):
    """Looks like a tuple, and is encoded by a coder of the program's own."""


@pytest.mark.parametrize("key", ["text", (), (True,), (1.5,), (("a",),), ("a", None), Odd(("a",))])
def test_other_keys_have_no_columns(key: object) -> None:
    assert TupleKeys.like(key, KeyCoder({Odd: PickleCoder()}).encode) is None
