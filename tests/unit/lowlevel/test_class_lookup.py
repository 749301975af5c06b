"""Members of enumerations in stored values."""

from __future__ import annotations

import pickle
from enum import Enum, Flag, IntEnum, StrEnum, auto

import pytest

from headrace.lowlevel.class_lookup import dumps, loads


class Colour(Enum):
    RED = "r"
    CRIMSON = "r"
    GREEN = ("a value", "of two")


class Size(IntEnum):
    SMALL = auto()
    LARGE = auto()


class Place(StrEnum):
    HERE = "here"


class Access(Flag):
    READ = auto()
    WRITE = auto()


class Own(Enum):
    ONE = 1

    def __reduce_ex__(self, protocol):
        return Own, (1,)


MEMBERS = [*Colour, Colour.CRIMSON, *Size, *Place, *Access, Access.READ | Access.WRITE, Access(0), *Own]


@pytest.mark.parametrize("member", MEMBERS, ids=repr)
def test_members_are_themselves_again(member: Enum) -> None:
    assert loads(dumps(member)) is member
    assert loads(dumps({member.name: (member, [member])})) == {member.name: (member, [member])}


@pytest.mark.parametrize("member", MEMBERS, ids=repr)
def test_as_an_earlier_release_has_stored_them(member: Enum) -> None:
    assert loads(pickle.dumps(member)) is member


def test_what_says_itself_how_it_is_pickled_and_combinations_go_by_their_values() -> None:
    assert b"EnumMember" in dumps(Access.READ)
    assert b"EnumMember" not in dumps(Own.ONE)
    assert b"EnumMember" not in dumps(Access.READ | Access.WRITE)
