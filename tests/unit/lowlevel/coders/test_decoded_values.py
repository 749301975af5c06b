"""Which values count as immutable, and which of them stay decoded."""

from __future__ import annotations

import copyreg
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, Flag
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from headrace.lowlevel.class_lookup import dumps
from headrace.lowlevel.coders.decoded_values import DecodedValues
from headrace.lowlevel.coders.immutable_values import is_immutable

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    x: int
    y: object = None


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int
    y: object = None


@dataclass(frozen=True)
class More(Point):
    z: int = field(default=0, compare=False)

    @property
    def total(self) -> int:
        return self.x + self.z


@dataclass(frozen=True)
class Generics(Generic[T]):
    x: T


@dataclass(frozen=True)
class Checked(Point):
    def __post_init__(self) -> None:
        object.__setattr__(self, "x", int(self.x))


@dataclass(frozen=True)
class Unfielded(Point):
    """Its instances get something that is no field."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "other", [])


@dataclass(frozen=True)
class Lazy(Point):
    @cached_property
    def total(self) -> int:
        return self.x


@dataclass(frozen=True)
class SelfChanging(Point):
    def count(self) -> None:
        object.__setattr__(self, "x", self.x + 1)


@dataclass(frozen=True)
class SlottedAnd(Point):
    __slots__ = ("other",)


@dataclass(frozen=True)
class OwnState(Point):
    def __getstate__(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True)
class Reduced(Point):
    pass


copyreg.pickle(Reduced, lambda value: (Reduced, (value.x,)))


@dataclass(frozen=True)
class Listed(list):
    x: int


@dataclass(frozen=True)
class Settable(Point):
    pass


Settable.__setattr__ = object.__setattr__


class Thawed(Point):
    """No dataclass itself: its instances take attributes."""


@dataclass
class Mutable:
    x: int


class Named(NamedTuple):
    x: int
    y: object = None


Plain = namedtuple("Plain", "x y")


class WithDict(Plain):
    pass


class WithoutDict(Plain):
    __slots__ = ()


class Made(Plain):
    __slots__ = ()

    def __new__(cls, x, y):
        return super().__new__(cls, x, y)


class Number(int):
    pass


class Zone(tzinfo):
    pass


class Colour(Enum):
    RED = ("r", [])


class Access(Flag):
    READ = 1
    WRITE = 2


IMMUTABLE = [
    *(None, True, 3, 2.5, 1j, "tea", b"tea", Decimal("1.50"), UUID(int=3), date(2026, 1, 2), timedelta(1), ()),
    *(datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=ZoneInfo("Europe/Paris"))),
    *(Point(1, ("a", 2.5)), Point(1, Point(2)), Slotted(1, Slotted(2)), More(1, 2, 3), Generics(1), Checked(1)),
    *(Named(1, Slotted(2)), Plain(1, 2), WithoutDict(1, 2), Colour.RED, Access.READ | Access.WRITE),
    (1, (2, (3, (Colour.RED, Point(1))))),
]
MUTABLE = [
    *([], {}, set(), frozenset({1}), bytearray(), object(), Mutable(1), Number(3), int, len, range(3)),
    *(Point(1, []), Point(1, (2, Point({}))), Slotted(1, []), Named(1, []), (1, ([],)), Generics([])),
    *(Unfielded(1), Lazy(1), SelfChanging(1), OwnState(1), Reduced(1), Settable(1), Thawed(1), SlottedAnd(1)),
    *(WithDict(1, 2), Made(1, 2), datetime(2026, 1, 2, tzinfo=Zone()), Listed.__new__(Listed)),
]


@pytest.mark.parametrize("value", IMMUTABLE, ids=repr)
def test_what_user_code_cannot_change_is_immutable(value: object) -> None:
    assert is_immutable(value)
    assert is_immutable((value, Point(1, value)))


@pytest.mark.parametrize("value", MUTABLE, ids=lambda value: type(value).__name__)
def test_what_may_change_in_any_part_is_not(value: object) -> None:
    assert not is_immutable(value)
    assert not is_immutable((value,))
    assert not is_immutable(Slotted(1, (2, value)))


def test_a_deep_value_counts_as_mutable() -> None:
    deep: object = ()
    for _ in range(100_000):
        deep = (deep,)
    assert not is_immutable(deep)


SIZE = 10 * 500 + 200
"""What a pickle of 500 bytes counts as."""


def numbered(number: int) -> bytes:
    """A pickle of 500 bytes."""
    data = dumps(str(number).rjust(500 - len(dumps("x" * 300)) + 300))
    assert len(data) == 500
    return data


def visited(values: DecodedValues, *numbers: int) -> None:
    """Read values, and leave them as they are."""
    for number in numbers:
        data = numbered(number)
        values.left_unchanged(data, values.decode(data))


def kept(values: DecodedValues, numbers: range) -> list[int]:
    """Which values are there."""
    return [number for number in numbers if numbered(number) in {*values._young, *values._old}]


def test_only_long_immutable_values_that_were_left_alone_are_kept() -> None:
    values = DecodedValues(100_000)
    for value in (Point(1, [2]), [*range(100)], (1, "a"), Mutable(1)):
        data = dumps(value)
        values.left_unchanged(data, values.decode(data))
        assert values.decode(data) is not values.decode(data)
        assert not values.holds(data, value)
    data, value = dumps(Point(1)), Point(1)
    assert values.decode(data) is not values.decode(data)
    values.left_unchanged(data, value)
    assert values.decode(data) is value and values.holds(data, value)
    assert not values.holds(data, Point(1)), "an equal one is another one"
    assert (len(values), values.hits, values.used) == (1, 1, 10 * len(data) + 200)


def test_without_a_limit_nothing_is_kept() -> None:
    values = DecodedValues(0)
    visited(values, 1, 1)
    assert (len(values), values.used, values.hits) == (0, 0, 0)


def test_what_is_read_stays_and_what_is_not_goes() -> None:
    values = DecodedValues(8 * SIZE)
    visited(values, 1, 2, 3, 4, 5)
    assert kept(values, range(10)) == [1, 2, 3, 4, 5]
    visited(values, 1, 2, *([5] * 9), 6, 7)
    assert kept(values, range(10)) == [1, 2, 5, 6, 7]
    assert values.used == len(values) * SIZE <= values.limit


def test_if_there_is_too_much_nothing_is_taken_for_a_while() -> None:
    values = DecodedValues(8 * SIZE)
    visited(values, *range(9))
    before = kept(values, range(100))
    visited(values, *range(20, 55))
    assert kept(values, range(100)) == before
    visited(values, *range(55, 100))
    assert kept(values, range(55)) != before, "it goes on"


def test_a_smaller_limit_takes_effect_at_once() -> None:
    values = DecodedValues(8 * SIZE)
    visited(values, *range(6))
    assert values.used == 6 * SIZE
    values.resize(3 * SIZE)
    assert values.used == 2 * SIZE and kept(values, range(10)) == [4, 5]
    values.resize(SIZE)
    assert (values.used, len(values)) == (0, 0)
    values.resize(8 * SIZE)
    visited(values, 1)
    assert kept(values, range(10)) == [1]


def test_what_is_larger_than_half_of_the_limit_is_not_kept() -> None:
    values = DecodedValues(2 * SIZE - 1)
    visited(values, 1, 1)
    assert len(values) == 0
