"""Members of enumerations, and instances of classes that are defined again, in stored values."""

from __future__ import annotations

import pickle
import sys
from dataclasses import make_dataclass
from enum import Enum, Flag, IntEnum, StrEnum, auto

import pytest

from headrace.lowlevel import class_lookup
from headrace.lowlevel.class_lookup import MainProgram, declare_main_program, dumps, loads
from headrace.lowlevel.errors import StoredClassError


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


def defined(monkeypatch: pytest.MonkeyPatch, *fields: str) -> type:
    """A frozen dataclass of whole numbers that this module has from now on under the name `Point`."""
    kind = make_dataclass("Point", [(name, int) for name in fields], frozen=True, namespace={"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "Point", kind, raising=False)
    return kind


def test_a_class_that_is_defined_again_is_the_new_one_and_other_fields_are_refused(monkeypatch) -> None:
    first = defined(monkeypatch, "x", "y")
    data = dumps(first(1, 2))
    assert type(loads(data)) is type(loads(data)) is first
    again = defined(monkeypatch, "x", "y")
    assert type(loads(data)) is type(loads(data)) is again
    defined(monkeypatch, "x", "z")
    with pytest.raises(StoredClassError, match="had the fields x, y and now has x, z"):
        loads(data)
    monkeypatch.setattr(sys.modules[__name__], "Point", again)
    assert loads(data) == again(1, 2)


def test_a_class_that_was_found_by_one_name_of_the_main_program_is_found_by_the_other(monkeypatch) -> None:
    monkeypatch.setattr(class_lookup, "_declared", None)
    data = dumps(defined(monkeypatch, "x", "y")(1, 2))
    loads(data)
    module = type(sys)("another_main")
    monkeypatch.setitem(sys.modules, "another_main", module)
    monkeypatch.setattr(module, "__file__", __file__, raising=False)
    kind = make_dataclass("Point", [("x", int), ("y", int)], frozen=True, namespace={"__module__": "another_main"})
    monkeypatch.setattr(module, "Point", kind, raising=False)
    declare_main_program(MainProgram("another_main", __name__))
    assert type(loads(data)) is kind
