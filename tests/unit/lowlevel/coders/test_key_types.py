"""Keys of many types: equal keys are one key, come back as what they were, and have the same bytes everywhere."""

from __future__ import annotations

import enum
import os
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from typing import Any, NamedTuple
from uuid import UUID

import cloudpickle
import pytest

import headrace as beam
from headrace.coders import registry
from headrace.coders.typecoders import CoderRegistry
from headrace.lowlevel import KeyEncodingError, StepError, TopologyError
from headrace.lowlevel.coders.coder import KeyCoder, decode_key, encode_key, key_hash_of
from headrace.lowlevel.coders.key_types import dynamic_named_tuple
from headrace.lowlevel.errors import CoderError
from headrace.sdk.coders.registry import key_problem
from headrace.transforms.window import IntervalWindow
from headrace.utils.timestamp import Duration, Timestamp
from tests.names import legible
from tests.unit.collected import values
from tests.unit.lowlevel.coders.keytypes import (
    ROW,
    Access,
    Colour,
    Level,
    Loose,
    Other,
    Place,
    Plain,
    Point,
    PointCoder,
    Stated,
    Team,
    VaguePointCoder,
)

WEST = timezone(timedelta(hours=-8))
KEYS = [
    date(2026, 2, 28),
    datetime(2026, 2, 28, 12, 30, 1, 5),
    datetime(2026, 2, 28, 12, 30, tzinfo=UTC),
    timedelta(days=-1, microseconds=7),
    Decimal("-12.340"),
    Decimal("1E+30"),
    Decimal("0.00"),
    Decimal("Infinity"),
    UUID(int=7),
    Timestamp(micros=-1),
    Duration(3.5),
    Colour.RED,
    Level.LOW,
    Access.READ | Access.WRITE,
    Place("Rome", 1),
    dynamic_named_tuple("Key", ("a", "b"))(1, "x"),
    Team("ajax", date(1900, 3, 18), rank=2, members=frozenset({"b", "a"})),
    ROW,
    Stated(["a"]),
    IntervalWindow(Timestamp(0), Timestamp(10)),
    frozenset({("a", 1), ("b", 2)}),
    {"b", "a"},
    ["a", [1]],
    {"b": 1, "a": [None]},
    (Place("Rome", 1), (Colour.BLUE, {1})),
]


@pytest.mark.parametrize("key", KEYS, ids=legible)
def test_keys_come_back_as_what_they_were(key):
    back = decode_key(encode_key(key))
    assert (back, type(back)) == (key, type(key))
    assert encode_key(back) == encode_key(key)


def test_different_keys_have_different_bytes():
    assert len(set(map(encode_key, KEYS))) == len(KEYS)
    assert len({encode_key(key) for key in [("Rome", 1), ["Rome", 1], Place("Rome", 1), Other("Rome", 1)]}) == 4
    assert encode_key(Level.LOW) != encode_key(1)
    assert encode_key({1}) != encode_key(frozenset({1}))


@pytest.mark.parametrize(
    "same",
    [
        (Decimal("1.50"), Decimal("1.5"), Decimal("15E-1")),
        (Decimal("0"), Decimal("-0.00"), Decimal("0E+5")),
        (Decimal("100"), Decimal("1E+2")),
        (datetime(2026, 1, 1, 8, tzinfo=UTC), datetime(2026, 1, 1, 0, tzinfo=WEST)),
        (datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 2, 30, fold=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (frozenset("abcdefgh"), frozenset("hgfedcba")),
    ],
)
def test_equal_keys_are_one_key(same):
    assert all(one == same[0] for one in same)
    assert len(set(map(encode_key, same))) == 1
    assert decode_key(encode_key(same[-1])) == same[0]


def test_digits_beyond_the_contexts_precision_stay():
    long = Decimal("1." + "0123456789" * 5)
    assert decode_key(encode_key(long)) == long


PROGRAM = """
from tests.unit.lowlevel.coders.test_key_types import KEYS
from headrace.lowlevel.coders.coder import encode_key
from hashlib import sha256
print(sha256(b"|".join(map(encode_key, KEYS))).hexdigest())
"""


def test_bytes_are_the_same_in_every_process():
    def digest(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout

    assert digest("1") == digest("2") != ""


def test_bytes_are_stable():
    """What stands in checkpoints; a change here needs a way to read the old form."""
    stable = {
        "a": b"sa",
        -3: b"i-3",
        ("a", 1): b"t2:2:sa2:i1",
        None: b"n",
        True: b"T",
        0.5: b"f?\xe0\0\0\0\0\0\0",
        date(2026, 2, 28): b"d2026-02-28",
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC): b"z1000000",
        timedelta(seconds=1): b"l1000000",
        Decimal("1.50"): b"m15E-1",
        Timestamp(1): b"S1000000",
        Colour.RED: b"A20:Et2:8:s:Colour4:sREDtests.unit.lowlevel.coders.keytypes:Colour",
        Place("Rome", 1): b"A24:Ct3:7:s:Place5:sRome2:i1tests.unit.lowlevel.coders.keytypes:Place(city,number)",
        frozenset({2, 1}): b"xt2:3:bi13:bi2",
    }
    for key, encoded in stable.items():
        assert encode_key(key) == encoded
        assert decode_key(encoded) == key
        assert decode_key(encoded) == key


def local_named_tuple() -> object:
    return namedtuple("Local", "a")(1)


def local_frozen() -> object:
    @dataclass(frozen=True)
    class Inner:
        a: int

    return Inner(1)


def local_enum() -> object:
    return enum.Enum("Inside", "A").A


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        (Loose("a"), "Loose is a dataclass that can change; make it @dataclass(frozen=True)"),
        (Plain(), "register_coder"),
        (Team("a", members=frozenset({1j})), "register_coder"),
        (local_named_tuple(), "define it at the top level of a module"),
        (local_frozen(), "define it at the top level of a module"),
        (local_enum(), "define it at the top level of a module"),
        (Plain, "register_coder"),
        (Place, "register_coder"),
    ],
)
def test_keys_without_stable_bytes_are_refused_with_a_remedy(key, remedy):
    with pytest.raises(KeyEncodingError) as caught:
        encode_key(key)
    assert "cannot be encoded deterministically" in str(caught.value) and remedy in str(caught.value)


def test_a_coder_of_its_own_makes_a_type_a_key_wherever_it_stands():
    keys = KeyCoder({Point: PointCoder()})
    for key in (Point(1, 2), (Point(1, 2), "a"), frozenset({Point(1, 2)}), Team(Point(1, 2))):
        assert keys.decode(keys.encode(key)) == key
    with pytest.raises(KeyEncodingError):
        encode_key(Point(1, 2))


@pytest.fixture
def points():
    """A registry that knows points, for the length of a test."""
    before = dict(registry._registered)
    registry.register_coder(Point, PointCoder)
    yield
    registry._registered = before


def grouped(pairs: list[object], hint: object = Any) -> list[object]:
    return values(lambda p: p | beam.Create(pairs).with_output_types(hint) | beam.GroupByKey())


def test_groups_of_equal_keys(points):
    pairs = [(key, number) for number, key in enumerate([*KEYS, Point(1, 2)] * 2)]
    found = grouped(pairs)
    assert len(found) == len(KEYS) + 1
    for key, numbers in found:
        assert [(type(other), other) for other, n in pairs if n in numbers] == [(type(key), key)] * 2


def test_combining_before_the_shuffle_keeps_keys_apart(points):
    pairs = [(key, 1) for key in [("Rome", 1), Place("Rome", 1), Other("Rome", 1), Point(1, 2), Level.LOW, 1, True] * 3]
    found = values(lambda p: p | beam.Create(pairs).with_output_types(Any) | beam.CombinePerKey(sum))
    assert sorted(count for _, count in found) == [3] * 7
    assert {type(key) for key, _ in found} == {tuple, Place, Other, Point, Level, int, bool}


def test_a_hint_refuses_keys_when_the_pipeline_is_built():
    class Local(NamedTuple):
        point: Point

    for kind, said in [
        (Plain, "keys of type Plain cannot be encoded deterministically"),
        (Loose, "make it @dataclass(frozen=True)"),
        (tuple[str, Plain], "keys of type Plain"),
        (Local, "register_coder(Point, coder)"),
        (complex, "keys of type complex"),
        (beam.typehints.row_type.RowTypeConstraint.from_fields([("a", int), ("b", Plain)]), "keys of type Plain"),
    ]:
        pipeline = beam.Pipeline("LocalRunner")
        with pytest.raises(TopologyError, match=r"step 'Group': ") as caught:
            pipeline | beam.Create([]).with_output_types(tuple[kind, int]) | "Group" >> beam.GroupByKey()
        assert said in str(caught.value)


def test_hints_that_say_nothing_refuse_nothing():
    for hint in (Any, object, Colour, Place, Team, Stated, Exception | int, Decimal, list[int], set[str], Level):
        assert key_problem(hint, registry) is None or hint == Exception | int


def test_a_coder_that_is_not_deterministic_makes_no_keys():
    coders = CoderRegistry()
    coders.register_coder(Point, VaguePointCoder())
    assert "the coder VaguePointCoder of keys of type Point is not deterministic" in str(key_problem(Point, coders))
    with pytest.raises(KeyEncodingError):
        coders.key_coder().encode(Point(1, 2))
    coders.register_coder(Point, PointCoder)
    assert key_problem(Point, coders) is None
    assert coders.key_coder().decode(coders.key_coder().encode(Point(1, 2))) == Point(1, 2)


def test_without_a_hint_the_key_is_refused_where_it_is_met():
    with pytest.raises(StepError) as caught:
        grouped([("a", 1), (Plain(), 2)])
    assert caught.value.step == "GroupByKey"
    assert "of type Plain cannot be encoded deterministically" in caught.value.cause


class OneWayCoder(PointCoder):
    def decode(self, data):
        raise ValueError("cannot read it")


def test_a_key_that_cannot_be_read_names_the_step(points):
    registry.register_coder(Point, OneWayCoder())
    with pytest.raises(StepError, match="cannot read it") as caught:
        grouped([(Point(1, 2), 2)])
    assert caught.value.step == "GroupByKey"


class MissingCoder(PointCoder):
    """One whose module is nowhere but in the program."""

    def __reduce__(self):
        return import_module, ("a_module_of_the_driver",)


class LockedCoder(PointCoder):
    def __init__(self):
        self.numbers = (number for number in range(9))


class BrokenCoder(PointCoder):
    @classmethod
    def from_type_hint(cls, hint, registry):
        raise OSError("no table of codes")


KEYS_OF_POINTS = KeyCoder({Point: PointCoder()})
PROBLEMS = {
    MissingCoder: r"cannot be loaded in this process \(ModuleNotFoundError: .*a_module_of_the_driver.*\); install the",
    LockedCoder: r"cannot be sent to the workers \(TypeError: .*'generator' object\); make one that can be pickled",
    BrokenCoder: r"cannot be made \(OSError: no table of codes\); mend it, or register an instance",
}


@pytest.mark.parametrize("coder", PROBLEMS)
def test_a_coder_that_cannot_be_used_fails_only_those_pipelines_that_need_it(points, coder):
    registry.register_coder(Point, coder if coder is BrokenCoder else coder())
    assert grouped([("a", 1), (Colour.RED, 2)]) == [("a", [1]), (Colour.RED, [2])]
    sent = pickle.loads(cloudpickle.dumps(registry.key_coder()))
    said = rf"^the coder {coder.__name__} that is registered for type Point {PROBLEMS[coder]}"
    for use in (lambda: sent.encode(("a", Point(1, 2))), lambda: sent.decode(KEYS_OF_POINTS.encode(Point(1, 2)))):
        with pytest.raises(CoderError, match=said):
            use()
    assert sent.decode(sent.encode(("a", 1))) == ("a", 1)


def test_an_unusable_coder_of_a_stated_key_is_told_when_the_pipeline_is_built(points):
    registry.register_coder(Point, BrokenCoder)
    pairs = beam.Pipeline("LocalRunner") | beam.Create([(Point(1, 2), 1)])
    with pytest.raises(CoderError, match="BrokenCoder that is registered for type Point cannot be made"):
        pairs | beam.GroupByKey()


def test_own_coders_travel():
    coder = pickle.loads(cloudpickle.dumps(KEYS_OF_POINTS))
    assert coder.decode(coder.encode((Point(1, 2), "a"))) == (Point(1, 2), "a") and str(coder) == str(KEYS_OF_POINTS)


@pytest.mark.parametrize(
    "key",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
    ],
    ids=["east", "west"],
)
def test_times_outside_the_years_of_utc_are_refused_before_they_are_stored(key: datetime) -> None:
    with pytest.raises(KeyEncodingError, match="not within the years 1 to 9999 of UTC"):
        encode_key(("visit", key))
    last = datetime.max.replace(tzinfo=UTC)
    assert decode_key(encode_key(last)) == last


def test_the_state_of_a_key_is_found_by_every_byte_of_it_and_by_the_same_hash_in_every_release() -> None:
    keys = ["Ab", "ab", "AB", "Ab ", b"Ab", b"ab", ("Ab",), ("ab",), 1, "1", ("a", "b"), ("ab", ""), None, ""]
    assert len({key_hash_of(encode_key(key)) for key in keys}) == len(keys)
    assert key_hash_of(encode_key("Ab")).hex() == "38cb49a45382e4c4d4141f9a67ad55e6"
