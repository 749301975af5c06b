"""The classes of keys: a key stays the same key when its class moves; two classes of one name are not one key."""

from __future__ import annotations

import math
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import headrace as beam
from headrace.lowlevel import class_lookup
from headrace.lowlevel.class_lookup import MainProgram, declare_main_program, find_class
from headrace.lowlevel.coders.coder import (
    STANDARD_KEYS,
    KeyCoder,
    PickleCoder,
    decode_key,
    encode_key,
    key_hash_of,
    names_in,
)
from headrace.lowlevel.coders.key_classes import identity_of
from headrace.lowlevel.errors import KeyEncodingError, StepError, StoredClassError
from tests.unit.collected import values

CLASSES = (
    "from dataclasses import dataclass\nfrom enum import Enum\nfrom typing import NamedTuple\n"
    "@dataclass(frozen=True)\nclass Page:\n    number: int\n"
    "class Point(NamedTuple):\n    x: int\n    y: int\n"
    "class Color(Enum):\n    RED = 1\n"
)
Make = Callable[[str], ModuleType]


@pytest.fixture
def make(tmp_path) -> Iterator[Make]:
    """Makes modules of the program with the classes."""
    made = []

    def new(name: str) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(tmp_path / f"{name}.py")
        exec(CLASSES, vars(module))
        made.append(name)
        return module

    yield new
    for name in made:
        sys.modules.pop(name, None)
    class_lookup._moved.clear()


@pytest.fixture
def main_program() -> Iterator[Callable[[MainProgram], None]]:
    yield declare_main_program
    class_lookup._declared = None


def keys_of(module: ModuleType) -> list[object]:
    one = module.Page(1), module.Point(1, 2), module.Color.RED
    return [*one, one, frozenset(one), {one[0]: one[1]}, [one[2]], ("a", (one[0], 7))]


def test_the_hash_of_a_key_does_not_depend_on_the_module_of_its_class(make):
    first, second = (list(map(encode_key, keys_of(make(name)))) for name in ("first_place", "second_place"))
    assert first != second
    assert list(map(identity_of, first)) == list(map(identity_of, second))
    assert list(map(key_hash_of, first)) == list(map(key_hash_of, second))
    assert len(set(map(key_hash_of, first))) == len(first)


def test_a_key_whose_class_has_moved_is_decoded_to_the_class_where_it_is(make):
    before = list(map(encode_key, keys_of(make("first_place"))))
    del sys.modules["first_place"]
    moved = make("second_place")
    assert [decode_key(key) for key in before] == keys_of(moved)


def test_keys_of_the_first_release_are_read(make):
    make("second_place")
    old = b"Dt2:17:sfirst_place:Page2:i1"
    assert decode_key(old) == sys.modules["second_place"].Page(1)
    assert names_in(b"t2:%d:%b2:i7" % (len(old), old)) == {"first_place:Page"}


def test_a_step_that_keeps_the_spelling_of_the_first_release_has_its_keys(make):
    moved = make("second_place")
    keys = STANDARD_KEYS.of_step(frozenset({"first_place:Page"}))
    assert keys.encode(moved.Page(1)) == b"Dt2:17:sfirst_place:Page2:i1"
    assert keys.decode(keys.encode(moved.Page(1))) == moved.Page(1)
    assert pickle.loads(pickle.dumps(keys)).encode(moved.Page(1)) == keys.encode(moved.Page(1))
    assert keys.encode(moved.Color.RED) == encode_key(moved.Color.RED)


def test_two_classes_of_one_name_are_not_keys_of_one_step(make):
    first, second = make("first_place"), make("second_place")
    keys = STANDARD_KEYS.of_step()
    keys.encode(first.Page(1))
    with pytest.raises(KeyEncodingError, match=r"another class of this name, first_place\.Page"):
        keys.encode(second.Page(1))
    # Another process may know only one of them.
    other = pickle.loads(pickle.dumps(keys))
    other.decode(encode_key(second.Page(1)))
    with pytest.raises(StoredClassError, match=r"first_place\.Page, which is another class than second_place\.Page"):
        other.decode(encode_key(first.Page(1)))


def test_the_classes_of_two_steps_may_have_one_name(make):
    first, second = make("first_place"), make("second_place")

    def build(pipeline):
        numbers = pipeline | beam.Create([1, 2])
        sums = [
            numbers | f"Key {n}" >> beam.Map(lambda n, page=page: (page(1), n)) | f"Sum {n}" >> beam.CombinePerKey(sum)
            for n, page in enumerate([first.Page, second.Page])
        ]
        return sums | beam.Flatten() | beam.MapTuple(lambda key, total: (type(key).__module__, total))

    assert sorted(values(build)) == [("first_place", 3), ("second_place", 3)]


def test_tasks_that_know_one_class_each_do_not_make_one_key_of_two(make):
    first, second = make("first_place"), make("second_place")

    def build(pipeline):
        parts = [
            pipeline | f"One {n}" >> beam.Create([n]) | f"Key {n}" >> beam.Map(lambda n, page=page: (page(1), n))
            for n, page in enumerate([first.Page, second.Page])
        ]
        return parts | beam.Flatten() | "Group" >> beam.GroupByKey()

    with pytest.raises(StepError, match=r"(?s)Group.*another class"):
        values(build)


def test_what_two_modules_have_is_not_taken_from_either(make):
    make("second_place")
    make("third_place")
    with pytest.raises(StoredClassError, match=r"is now in second_place and third_place"):
        find_class("first_place", "Page")


def test_the_main_program_is_found_under_both_of_its_names(make, main_program):
    prog = make("some_prog")
    main_program(MainProgram("some_prog", "__main__"))
    assert find_class("__main__", "Page") is prog.Page
    assert decode_key(b"A16:Dt2:6:s:Page2:i1__main__:Page(number)") == prog.Page(1)
    main_program(MainProgram("some_prog", "other_prog"))
    assert find_class("other_prog", "Page") is prog.Page


def test_a_class_of_an_installed_package_is_not_taken_for_one_that_is_gone():
    with pytest.raises(StoredClassError, match="no longer in the program"):
        find_class("gone_place", "Fraction")


def test_a_registered_coder_follows_its_type(make):
    moved = make("second_place")
    old = KeyCoder({moved.Page: PickleCoder()}).encode(moved.Page(1)).replace(b"second_place:", b"first_place:")
    assert KeyCoder({moved.Page: PickleCoder()}).decode(old) == moved.Page(1)


def test_a_coder_that_is_gone(make):
    page = make("second_place").Page
    encoded = KeyCoder({page: PickleCoder()}).encode(page(1))
    with pytest.raises(StoredClassError, match=r"second_place\.Page, which has no coder in this program"):
        KeyCoder({dict: PickleCoder()}).decode(encoded)


def nans() -> list[float]:
    bits = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001]
    return [struct.unpack(">d", each.to_bytes(8, "big"))[0] for each in bits]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda nan: nan,
        lambda nan: ("a", nan),
        lambda nan: frozenset({nan, "a"}),
        lambda nan: frozenset({nan, math.nan, "a"}),
        lambda nan: [{"a": nan}],
        lambda nan: beam.Row(a=nan),
    ],
)
def test_nan_is_one_key(wrap):
    assert len({encode_key(wrap(nan)) for nan in nans()}) == 1
    decimals = [Decimal(text) for text in ("NaN", "-NaN", "NaN123", "sNaN")]
    assert len({encode_key(("a", nan)) for nan in decimals}) == 1
    assert encode_key(0.0) == encode_key(-0.0)


def test_nan_is_one_key_of_a_grouping():
    def grouped(pipeline):
        return pipeline | beam.Create([(nan, 1) for nan in nans()]) | beam.CombinePerKey(sum)

    assert [(math.isnan(key), total) for key, total in values(grouped)] == [(True, 4)]


def test_nan_of_columns_is_one_key(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"key": np.array(nans()), "value": [1, 2, 3, 4]}), tmp_path / "in.parquet")

    def grouped(pipeline):
        rows = pipeline | beam.io.ReadFromParquet(str(tmp_path / "in.parquet"), as_rows=True)
        return rows | beam.GroupBy("key").aggregate_field("value", sum, "total")

    assert [row.total for row in values(grouped)] == [10]
