"""The watermark authority: its rules one by one, its journal, and that shards need nothing of each other."""

from __future__ import annotations

import random
from collections.abc import Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import pytest

from headrace.lowlevel.intervals.interval_map import SPACE, IntervalMap
from headrace.lowlevel.intervals.sequencer import Sequencer
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.watermarks.authority import Authority, ShardedAuthority, decoded, shard_of

FIRST, SECOND, THIRD = Sequencer(1, 1), Sequencer(1, 2), Sequencer(2, 0)
NAMES = [f"computation {number}" for number in range(12)]


class Piece(NamedTuple):
    """An interval, in sixteenths of the key space."""

    number: int
    begin: int
    end: int

    @property
    def start(self) -> int:
        return self.begin * SPACE // 16

    @property
    def stop(self) -> int:
        return self.end * SPACE // 16


def authority(count=4, sequencer=FIRST):
    made = Authority()
    assert made.assign("a", IntervalMap.evenly(count), sequencer)
    return made


def test_the_least_of_all_intervals_and_a_missing_one_keeps_its_last_value():
    made = authority(2)
    assert made.report("a", 0, FIRST, 50)
    assert made.low_watermark("a") == MIN_TIMESTAMP
    assert made.report("a", 1, FIRST, 40)
    assert made.low_watermark("a") == 40
    assert made.report("a", 1, FIRST, 70)
    assert made.report("a", 1, FIRST, 90)
    assert made.low_watermark("a") == 50


def test_values_never_go_back():
    made = authority(1)
    made.report("a", 0, FIRST, 50)
    assert made.report("a", 0, FIRST, 40)
    assert made.report_all("a", [0], FIRST, [45]) == 0
    assert made.low_watermark("a") == 50


def test_a_stale_report_changes_nothing_and_is_counted():
    made = authority(2, SECOND)
    assert not made.report("a", 0, FIRST, 50)
    assert made.report_all("a", [0, 1], FIRST, [50, 50]) == 2
    assert (made.refused, made.values("a")) == (3, {0: MIN_TIMESTAMP, 1: MIN_TIMESTAMP})


def test_the_greatest_sequencer_seen_owns_the_interval():
    made = authority(2)
    assert made.report("a", 0, THIRD, 50)
    assert not made.report("a", 0, SECOND, 60)
    assert made.report("a", 1, SECOND, 60)
    assert made.report_all("a", [0, 1], SECOND, [70, 70]) == 1
    assert made.values("a") == {0: 50, 1: 70}


def test_what_was_never_assigned_is_refused():
    made = authority(2)
    assert not made.report("a", 2, THIRD, 5)
    assert not made.report("a", -1, THIRD, 5)
    assert not made.report("b", 0, THIRD, 5)
    assert made.report_all("a", [-1, 1, 7], THIRD, [5, 5, 5]) == 2
    assert made.report_all("b", [0, 1], THIRD, [5, 5]) == 2
    assert made.refused == 7


def test_new_intervals_begin_with_the_least_of_those_that_they_overlap():
    made = Authority()
    made.assign("a", [Piece(0, 0, 4), Piece(1, 4, 8), Piece(2, 8, 16)], FIRST)
    made.report_all("a", [0, 1, 2], FIRST, [10, 30, 20])
    made.assign("a", [Piece(3, 0, 1), Piece(4, 1, 5), Piece(5, 5, 8), Piece(6, 8, 12), Piece(7, 12, 16)], SECOND)
    assert made.values("a") == {3: 10, 4: 10, 5: 30, 6: 20, 7: 20}
    made.assign("a", [Piece(8, 0, 6), Piece(9, 6, 16)], THIRD)
    assert made.values("a") == {8: 10, 9: 20}
    assert made.low_watermark("a") == 10
    assert not made.report("a", 3, THIRD, 99)


def test_an_assignment_by_an_owner_that_was_replaced_is_refused():
    made = authority(2, THIRD)
    made.report("a", 0, THIRD, 7)
    assert not made.assign("a", IntervalMap.evenly(1), SECOND)
    assert (made.refused, made.values("a")) == (1, {0: 7, 1: MIN_TIMESTAMP})


@pytest.mark.parametrize(
    ("pieces", "rule"),
    [
        ([Piece(0, 0, 8), Piece(1, 9, 16)], "interval 1 is .* the next must begin at 9223372036854775808; give"),
        ([Piece(0, 0, 8), Piece(1, 7, 16)], "do not divide the key space"),
        ([Piece(0, 0, 15)], "give intervals for the rest"),
        ([], "give intervals for the rest"),
        ([Piece(0, 0, 8), Piece(0, 8, 16)], "two intervals of 'a' have the same number"),
    ],
)
def test_intervals_that_do_not_divide_the_key_space_are_refused(pieces, rule):
    made = authority(1)
    with pytest.raises(ValueError, match=rule):
        made.assign("a", pieces, SECOND)
    assert made.values("a") == {0: MIN_TIMESTAMP}


@pytest.mark.parametrize("count", [1, 511, 512, 513, 5000])
def test_the_least_over_many_blocks(count):
    dice, made, values = random.Random(count), authority(count), [MIN_TIMESTAMP] * count
    for _ in range(3 * count):
        number = min(range(count), key=values.__getitem__) if dice.random() < 0.2 else dice.randrange(count)
        values[number] = max(values[number], dice.randrange(1000))
        made.report("a", number, FIRST, values[number])
        if dice.random() < 0.1:
            assert made.low_watermark("a") == min(values)
    made.report_all("a", range(count), FIRST, [value + 1 for value in values])
    assert made.low_watermark("a") == min(values) + 1


@pytest.mark.parametrize("values", [[7] * 6, [1, 2, 3, 4, 5, 6], [7, 7, 7, MIN_TIMESTAMP, 9, 9], [MAX_TIMESTAMP] * 6])
def test_the_journal_gives_the_values_back_to_a_new_owner(values):
    made = authority(6)
    made.report_all("a", range(6), FIRST, values)
    journal = made.journal()
    assert decoded(journal["a"]).tolist() == values
    restored = Authority()
    restored.restore(journal, {"a": IntervalMap.evenly(6)}, THIRD)
    assert restored.values("a") == made.values("a")
    assert restored.low_watermark("a") == min(values)
    assert restored.journal() == journal
    assert not restored.report("a", 0, SECOND, MAX_TIMESTAMP)


def test_the_journal_follows_every_change():
    made, seen = authority(3), []
    for change in (
        lambda: made.report("a", 0, FIRST, 5),
        lambda: made.report_all("a", [1], FIRST, [6]),
        lambda: made.assign("a", IntervalMap.evenly(2), SECOND),
        lambda: made.assign("b", IntervalMap.evenly(1), FIRST),
        lambda: made.remove("a"),
    ):
        seen.append(made.journal())
        change()
        assert made.journal() != seen[-1]
    assert made.journal() == {"b": part_of([MIN_TIMESTAMP])}


def part_of(values):
    made = authority(len(values))
    made.report_all("a", range(len(values)), FIRST, values)
    return made.journal()["a"]


def test_equal_values_take_no_space():
    made = authority(500_000)
    assert len(made.journal()["a"]) == 25


def test_a_journal_of_other_intervals_is_refused():
    with pytest.raises(ValueError, match="watermarks of 2 intervals of 'a', which has 3"):
        Authority().restore({"a": part_of([1, 2])}, {"a": IntervalMap.evenly(3)}, SECOND)
    with pytest.raises(ValueError, match="no part of an authority's journal"):
        decoded(b"X" + part_of([1, 2])[1:])


Operation = tuple[str, str, int, Sequencer, int]


def operations(seed: int) -> list[Operation]:
    """Assignments and reports, stale ones too, over several computations."""
    dice = random.Random(seed)
    made: list[Operation] = [("assign", name, dice.randint(1, 9), FIRST, 0) for name in NAMES]
    for _ in range(2000):
        kind = "assign" if dice.random() < 0.02 else "report"
        sequencer = Sequencer(dice.randint(1, 2), dice.randint(0, 40))
        number = dice.randint(1, 9) if kind == "assign" else dice.randrange(9)
        made.append((kind, dice.choice(NAMES), number, sequencer, dice.randrange(1000)))
    return made


def play(authority: Authority, script: Iterable[Operation]) -> tuple[dict[str, bytes], dict[str, int], int]:
    """The journal, the low watermarks and the number of refusals after a script."""
    names = set()
    for kind, name, number, sequencer, value in script:
        names.add(name)
        if kind == "assign":
            authority.assign(name, IntervalMap.evenly(number), sequencer)
        else:
            authority.report(name, number, sequencer, value)
    return authority.journal(), {name: authority.low_watermark(name) for name in names}, authority.refused


def play_alone(script: list[Operation]) -> tuple[dict[str, bytes], dict[str, int], int]:
    return play(Authority(), script)


@pytest.mark.parametrize(
    "pool",
    [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(3, get_context("spawn"))],
    ids=["threads", "processes"],
)
def test_shards_apart_from_each_other_know_what_one_authority_knows(pool):
    script = operations(11)
    parts = [[item for item in script if shard_of(item[1], 3) == shard] for shard in range(3)]
    assert all(parts)
    executor: Executor
    with pool() as executor:
        played = list(executor.map(play_alone, parts))
    journal, watermarks, refused = play_alone(script)
    assert refused > 100
    assert {name: part for each, _, _ in played for name, part in each.items()} == journal
    assert {name: value for _, each, _ in played for name, value in each.items()} == watermarks
    assert sum(each for _, _, each in played) == refused


def test_one_journal_for_any_number_of_shards():
    one, three = Authority(), ShardedAuthority(3)
    for operation in operations(12):
        play(one, [operation])
        play(three.of(operation[1]), [operation])
    assert three.journal() == one.journal()
    assert three.refused == one.refused
    intervals = {name: IntervalMap.evenly(len(one.values(name))) for name in NAMES}
    five = ShardedAuthority(5)
    five.restore(three.journal(), intervals, Sequencer(3, 0))
    assert {name: five.of(name).low_watermark(name) for name in NAMES} == {
        name: one.low_watermark(name) for name in NAMES
    }
    assert five.journal() == one.journal()
    with pytest.raises(ValueError, match="cannot have 0 shards"):
        ShardedAuthority(0)
