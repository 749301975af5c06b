"""What: keys of types other than plain ones, and what a coder makes a key."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.parity.corpus import program
from tests.parity.programs.wrong import wrong


class Place(NamedTuple):
    city: str
    number: int


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


@dataclass(frozen=True)
class Team:
    name: str
    rank: int = 0


@dataclass
class Loose:
    name: str


class Stated:
    def __init__(self, word: str) -> None:
        self.word = word

    def __getstate__(self):
        return {"word": self.word}

    def __setstate__(self, state):
        self.__dict__.update(state)


def grouped(beam, p, keys, show):
    """How often each key comes, by the type of what comes back."""
    pairs = p | beam.Create([(key, 1) for key in keys * 2]).with_output_types(Any)
    # Not combined: Beam's runner does that in a dictionary, where some keys cannot be, and others are taken for equal.
    groups = pairs | beam.GroupByKey()
    return groups | "Show" >> beam.MapTuple(lambda key, ones: (type(key).__name__, show(key), len(list(ones))))


@program
def key_of_named_tuples(beam, p):
    return grouped(beam, p, [Place("a", 1), Place("a", 2), Place("b", 1)], tuple)


@program
def key_of_named_tuples_beside_tuples(beam, p):
    return grouped(beam, p, [Place("a", 1), ("a", 1)], tuple)


@program
def key_of_enumerations(beam, p):
    return grouped(beam, p, [Colour.RED, Colour.BLUE, 1, "blue"], str)


@program
def key_of_frozen_dataclasses(beam, p):
    return grouped(beam, p, [Team("a", 1), Team("a", 2), Team("b")], lambda team: (team.name, team.rank))


@program
def key_of_lists(beam, p):
    return grouped(beam, p, [["a", 1], ["a", 2], [], [["a"]]], repr)


@program
def key_of_sets(beam, p):
    return grouped(beam, p, [{"a", "b", "c"}, {"c", "b", "a"}, set()], sorted)


@program
def key_of_dicts(beam, p):
    return grouped(beam, p, [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {}], lambda found: sorted(found.items()))


@program
def key_of_rows(beam, p):
    rows = [beam.Row(a=1, b="x"), beam.Row(a=1, b="y"), beam.Row(a=1, b="x")]
    pairs = p | beam.Create(rows) | beam.Map(lambda row: (row, 1))
    return pairs | beam.CombinePerKey(sum) | "Show" >> beam.MapTuple(lambda key, count: (key.a, key.b, count))


@program
def key_of_objects_that_state_themselves(beam, p):
    return grouped(beam, p, [Stated("a"), Stated("b"), Stated("a")], lambda stated: stated.word)


@program
def key_of_nested_kinds(beam, p):
    keys = [(Place("a", 1), Colour.RED), (Place("a", 1), Colour.BLUE), (Team("a"), None)]
    return grouped(beam, p, keys, lambda key: (type(key[0]).__name__, str(key[1])))


@wrong(Exception)
def key_of_dataclasses_that_change(beam, p):
    pairs = p | beam.Create([(Loose("a"), 1)]).with_output_types(Any)
    return pairs | beam.GroupByKey() | beam.MapTuple(lambda key, values: key.name)


@wrong(Exception)
def key_of_complex_numbers(beam, p):
    return p | beam.Create([(1j, 1)]).with_output_types(Any) | beam.GroupByKey()
