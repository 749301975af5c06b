"""Joins by time, key by key, against recomputation from all rows: at every instant, with late rows and retractions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from operator import itemgetter
from random import Random
from typing import Any, cast

import pytest

from headrace.lowlevel.class_lookup import loads
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import Batch, KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.sdk.functions.changelog import Change, ChangeKind
from headrace.sdk.functions.matched import Matched
from headrace.sdk.functions.time_joins import AsOfJoin, IntervalJoin, JoinPlan, TimeJoin
from headrace.sdk.model.panes import UNMATCHED_RETRACTIONS
from headrace.sdk.model.row import Row
from tests.depth import seeds

UNIT = 10_000_000
"""Microseconds; some units share a cell of an as-of join."""
ENDS = 60
"""Units until which rows come."""
KINDS = {"inner": (False, False), "left": (True, False), "right": (False, True), "outer": (True, True)}
SEEDS = seeds(400, 20_000)


@dataclass(eq=False)
class Known:
    """A row as the model knows it."""

    side: int
    key: str
    value: int
    time: int
    end: int = MAX_TIMESTAMP + 1


@dataclass
class Case:
    """A join and its random input."""

    seed: int
    is_as_of: bool
    rng: Random = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng = Random(self.seed)
        kinds = ("inner", "left") if self.is_as_of else KINDS
        self.keeps = KINDS[rng.choice([*kinds])]
        self.lateness = rng.choice([0, 0, 3, 12, 40]) * UNIT
        self.early = self.lateness > 0 and rng.random() < 0.6
        self.takes_back = rng.choice([(False, False), (True, False), (False, True), (True, True)])
        self.before, self.after = rng.choice([0, 0, 2, 9]) * UNIT, rng.choice([0, 1, 7, 30]) * UNIT
        self.oldest = rng.choice([None, 0, 5 * UNIT])
        self.disorder = rng.choice([0, 4, 25])
        self.is_orderly = rng.random() < 0.25
        """Whether no row is late and none is retracted."""
        self.plan = JoinPlan(Matched(*self.keeps, ("left", "right")), "out", self.lateness, self.early, self.takes_back)

    def join(self) -> TimeJoin:
        return AsOfJoin(self.plan, self.oldest) if self.is_as_of else IntervalJoin(self.plan, self.before, self.after)


class Model:
    """All rows that were taken and not taken back, and what follows from them."""

    def __init__(self, case: Case) -> None:
        self.case, self.rows = case, list[Known]()
        self.counted: Counter[str] = Counter()
        self.waiting: list[tuple[str, int, int, int]] = []
        self.tidy = True
        """Whether no row was late and none was retracted."""

    def feed(self, records: list[tuple[str, int, bool, int, int]], watermark: int, then: int) -> None:
        waiting = []
        for key, side, takes_back, value, time in sorted(records, key=lambda record: (record[1], record[0])):
            self.tidy &= time >= watermark and not takes_back
            if time + self.case.lateness < watermark:
                self.counted["dropped_late"] += 1
            elif key == "none" and not self.case.keeps[side]:
                continue
            elif not takes_back:
                self.rows.append(Known(side, key, value, time))
            elif not self._take_back(key, side, value, time, watermark):
                waiting.append((key, side, value, time))
        self.waiting = [each for each in self.waiting if not self._take_back(*each, watermark)]
        waiting = [each for each in waiting if not self._take_back(*each, watermark)]
        self.counted[UNMATCHED_RETRACTIONS] += len(waiting)
        self.waiting = [each for each in self.waiting + waiting if each[3] + self.case.lateness >= then]

    def _take_back(self, key: str, side: int, value: int, time: int, watermark: int) -> bool:
        ends = self.case.is_as_of and side == 1
        found = [row for row in self.rows if (row.side, row.key, row.value) == (side, key, value) and row.time <= time]
        if ends:
            kept = self._kept(key, watermark - self.case.lateness)
            found = [row for row in found if row in kept and row.end > MAX_TIMESTAMP]
        else:
            found = [row for row in found if row.time + self.case.lateness >= watermark]
        if not found:
            return False
        row = max(reversed(found), key=lambda row: row.time)
        if ends and row.time < time:
            row.end = time
        else:
            self.rows.remove(row)
        return True

    def _kept(self, key: str, least: int) -> list[Known]:
        """The right rows of a key that may be the newest of a left row at or after the least time."""
        rows = [row for row in self.rows if (row.side, row.key) == (1, key)]
        older = [row for row in rows if row.time < least]
        newest = [max(reversed(older), key=lambda row: row.time)] if older else []
        return [row for row in rows if row.time >= least or (row in newest and self._until(row) > least)]

    def _until(self, row: Known) -> int:
        return row.end if self.case.oldest is None else min(row.end, row.time + self.case.oldest + 1)

    def results(self, watermark: int) -> Counter[Any]:
        """What must have come out by a watermark: key, left and right value, timestamp."""
        case = self.case
        sides: list[list[Known]] = [[row for row in self.rows if row.side == side] for side in (0, 1)]
        if case.is_as_of:
            rows = [(left, self._as_of(left, sides[1])) for left in sides[0] if self._out(left.time, watermark)]
            return Counter(
                (left.key, left.value, right and right.value, left.time)
                for left, right in rows
                if right or case.keeps[0]
            )
        found: Counter[Any] = Counter()
        matched = set()
        for left, right in product(*sides):
            if left.key == right.key != "none" and left.time - case.before <= right.time <= left.time + case.after:
                found[left.key, left.value, right.value, max(left.time, right.time)] += 1
                matched |= {left, right}
        for side, last in ((0, case.after), (1, case.before)):
            for row in sides[side] if case.keeps[side] else ():
                if row not in matched and self._out(row.time + last, watermark):
                    found[row.key, *((row.value, None) if side == 0 else (None, row.value)), row.time] += 1
        return found

    def _out(self, last: int, watermark: int) -> bool:
        return watermark == MAX_TIMESTAMP or last + (0 if self.case.early else self.case.lateness) < watermark

    def _as_of(self, left: Known, rights: list[Known]) -> Known | None:
        found = [right for right in rights if right.key == left.key != "none" and right.time <= left.time]
        newest = max(reversed(found), key=lambda row: row.time, default=None)
        return None if newest is None or self._until(newest) <= left.time else newest


class Bench:
    """Runs a join on the real worker over a state store in memory."""

    def __init__(self, case: Case) -> None:
        self.case = case
        keyed = itemgetter(0)
        self.place = Keyed("join", case.join(), {"in0": keyed, "in1": keyed}, frozenset(["out"]))
        self.store = MemoryStateStore()
        self.watermark = self.output_watermark = MIN_TIMESTAMP
        self.net: Counter[Any] = Counter()
        self.counted: Counter[str] = Counter()
        self.late = 0
        """By how much the latest result was behind the output watermark."""

    def run(self, records: list[tuple[str, int, bool, int, int]], watermark: int) -> None:
        keys: dict[bytes, tuple[bytes, list[KeyRecords]]] = {}
        for key, side in sorted({record[:2] for record in records}, key=itemgetter(1, 0)):
            its = [record for record in records if record[:2] == (key, side)]
            values = [
                (_keyed(key, side), (side + 2 * takes_back, Row(key=key, value=value)))
                for *_, takes_back, value, _ in its
            ]
            encoded = encode_key(_keyed(key, side))
            of_key = keys.setdefault(key_hash_of(encoded), (encoded, []))[1]
            of_key.append(KeyRecords(f"in{side}", values, [time for *_, time in its]))
        worker = Worker(self.place, self.store, self._emitted)
        commit = worker.run(Bundle(keys, self.watermark, watermark, 0))
        self.store.apply(commit.delta)
        self.counted.update(commit.counters)
        before, self.watermark = self.output_watermark, watermark
        self.output_watermark = min([watermark, *([commit.hold.timestamp] if commit.hold else [])])
        assert self.output_watermark >= before, "the output watermark went back"

    def kept_rows(self) -> int:
        """Number of rows in its state."""
        hashes = [
            key_hash_of(encode_key(_keyed(key, side))) for key, side in [("a", 0), ("b", 0), ("none", 0), ("none", 1)]
        ]
        return sum(len(loads(cell)) for each in hashes for name, cell in self.store.scan(each, b"") if name)

    def _emitted(self, stream: str, batch: Batch) -> None:
        for value, timestamp in batch.rows():
            sign, row = 1, value
            if self.case.plan.changes:
                assert isinstance(value, Change)
                sign, row = (1 if value.kind is ChangeKind.INSERT else -1), value.value
            assert isinstance(row, Row)
            self.late = max(self.late, self.output_watermark - timestamp)
            left, right = cast(Any, (row.left, row.right))
            result = (left or right).key, left and left.value, right and right.value, timestamp
            self.net[result] += sign
            assert self.net[result] >= 0, f"{result} was retracted before it came"


def _keyed(key: str, side: int) -> tuple[int | None, tuple[str | None]]:
    return (side, (None,)) if key == "none" else (None, (key,))


def script(case: Case) -> list[tuple[list[tuple[str, int, bool, int, int]], int]]:
    """Bundles of records (key, side, whether it is a retraction, value, time), and the watermark after each."""
    rng, now, watermark, rows = case.rng, 0, MIN_TIMESTAMP, list[tuple[str, int, int, int]]()
    bundles, overtaken = [], list[tuple[str, int, bool, int, int]]()
    while now < ENDS:
        records, overtaken = overtaken, []
        for _ in range(rng.choice([0, 1, 3, 8])):
            at = max(0, now - rng.randint(0, case.disorder) + rng.choice([0, 0, 5]))
            key, side, value = rng.choice(["a", "a", "b", "none"]), rng.randint(0, 1), rng.randint(1, 3)
            if case.takes_back[side] and rows and not case.is_orderly and rng.random() < 0.4:
                key, _, value, at = rng.choice([row for row in rows if row[1] == side] or [(key, side, value, at)])
                records.append((key, side, True, value, (at + rng.choice([0, 0, 0, 1, 9])) * UNIT))
            else:
                row = (key, side, False, value, at * UNIT + rng.choice([0, 0, 0, 1, -1]))
                overtakes = case.takes_back[side] and not case.is_orderly and rng.random() < 0.1
                (overtaken if overtakes else records).append(row)
                if overtakes:
                    records.append((key, side, True, *row[3:]))
                rows.append((key, side, value, at))
        rng.shuffle(records)
        now += rng.choice([0, 1, 1, 6])
        if rng.random() < 0.7:
            behind = case.disorder + 1 if case.is_orderly else rng.choice([0, 2, 10])
            watermark = max(watermark, (now - behind) * UNIT + rng.choice([0, 1]))
        bundles.append((records, watermark))
    return bundles


@pytest.mark.parametrize("is_as_of", [False, True], ids=["within", "as of"])
def test_results_are_those_of_a_recomputation(is_as_of: bool) -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        case = Case(seed, is_as_of)
        bench, model = Bench(case), Model(case)
        for records, watermark in script(case):
            model.feed(records, bench.watermark, watermark)
            bench.run(records, watermark)
            assert +bench.net == model.results(watermark), f"{case} at {watermark}"
            _check_lateness(bench, model)
            seen.update(key for key in ("dropped_late",) if model.counted[key])
            seen["held"] += bench.output_watermark < bench.watermark
        for watermark in (ENDS * UNIT * 3, MAX_TIMESTAMP):
            bench.run([], watermark)
            assert +bench.net == model.results(watermark), f"{case} at the end"
            _check_lateness(bench, model)
            if watermark == MAX_TIMESTAMP or not is_as_of:
                assert not any(bench.store.count().values()), f"{case} keeps {bench.store.count()}"
            assert bench.kept_rows() <= 2, f"{case}: more than the newest right row of each of two keys"
            assert bench.output_watermark == watermark
        assert bench.counted["dropped_late"] == model.counted["dropped_late"], case
        assert bench.counted[UNMATCHED_RETRACTIONS] == model.counted[UNMATCHED_RETRACTIONS], case
        assert model.tidy >= case.is_orderly, case
        seen["tidy"] += model.tidy
        seen["changes"] += case.plan.changes
    assert min(seen[key] for key in ("dropped_late", "held", "tidy", "changes")) > len(SEEDS) // 20 or len(SEEDS) < 100


def _check_lateness(bench: Bench, model: Model) -> None:
    """No result is late where no row is, and none is so late that a window behind the join would not take it."""
    if model.tidy:
        assert bench.late <= 0, bench.case
    assert bench.late <= bench.case.lateness, bench.case
