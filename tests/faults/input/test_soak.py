"""Very many keys, until all windows are closed: nothing is left of them, neither state nor timers, ids or holds."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

import headrace as beam
from headrace.lowlevel import BaseInjector, Batch, CallSink, Computation, Context, Delivery, Record, Timer
from headrace.lowlevel.checkpoint import Checkpoint, CheckpointView
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import SECOND
from headrace.runners.engine.options import EpochProgress, RunOptions, RunResult
from headrace.runners.local import LocalRunner
from headrace.runners.spark import SparkRunner
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from headrace.transforms.window import FixedWindows, Sessions, SlidingWindows
from tests.depth import faults
from tests.faults.tally import Tally

pytestmark = pytest.mark.faults

SPAN, EPOCHS = 200 * SECOND, 10
"""Of event time; how many pieces the records come in."""
LATE, DELAY = 4 * SECOND, 5 * SECOND
"""How much later than others a record comes, and what the watermark allows for."""
SIZE, GAP = 10, 3
"""Of windows and between sessions, seconds."""
BRANCHES = ("fixed", "sliding", "sessions", "stateful", "raw")
Sums = dict[str, "array[int]"]
"""Branch -> what comes out of it, each a key and a count in one number: there are millions."""


def coded(key: int, count: int) -> int:
    return key << 10 | count


def time_of(number: int, numbers: int) -> int:
    """Records come nearly in order, two of each key, some seconds apart."""
    return number * SPAN // numbers + number * 7919 * SECOND // 10 % LATE


@dataclass(frozen=True)
class Numbers(BaseInjector):
    """Records that are made where they are read, each with an id, as they may be sent again."""

    numbers: int
    max_delay: int | None = DELAY
    record_ids: bool = True
    id_slack: int = SECOND

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """A piece in so many parts."""
        begin = cast(int, position)
        end = min(begin + min(limit, self.numbers // EPOCHS), self.numbers)
        step = max(1, -(-(end - begin) // splits))
        parts = [Stretch(at, min(at + step, end), self.numbers) for at in range(begin, end, step)]
        return Delivery(parts, end, done=end == self.numbers)


@dataclass(frozen=True)
class Stretch:
    """Numbers from one to before another."""

    begin: int
    end: int
    numbers: int

    def read(self) -> Iterable[Batch]:
        """All at once."""
        numbers = range(self.begin, self.end)
        ids = [b"%d" % number for number in numbers]
        yield Batch([(number // 2, 1) for number in numbers], [time_of(n, self.numbers) for n in numbers], ids)


class Later(beam.DoFn):
    """Keeps what comes, and tells of it when its window ends."""

    BAG, LAST = BagStateSpec("bag"), ReadModifyWriteStateSpec("last")
    END, WAKE = TimerSpec("end", TimeDomain.WATERMARK), TimerSpec("wake", TimeDomain.REAL_TIME)

    def process(
        self,
        pair: tuple[int, int],
        window: object = beam.DoFn.WindowParam,
        bag: object = beam.DoFn.StateParam(BAG),
        last: object = beam.DoFn.StateParam(LAST),
        end: object = beam.DoFn.TimerParam(END),
        wake: object = beam.DoFn.TimerParam(WAKE),
    ) -> None:
        bag.add(pair[1])
        last.write(pair[0])
        end.set(window.end)
        wake.set_relative(10**9)

    @on_timer(END)
    def on_end(
        self,
        key: int = beam.DoFn.KeyParam,
        bag: object = beam.DoFn.StateParam(BAG),
        last: object = beam.DoFn.StateParam(LAST),
    ) -> Iterator[tuple[int, int]]:
        assert last.read() == key
        yield key, sum(bag.read())

    @on_timer(WAKE)
    def on_wake(self) -> None:
        """The window closes long before; at the end of bounded input the timer fires then."""


class Raw(Computation):
    """Counts a key's records, under a hold, until no more can come."""

    def process_record(self, record: Record, context: Context) -> None:
        count, first = cast("tuple[int, int]", context.state or (0, record.timestamp))
        context.state = count + 1, min(first, record.timestamp)
        context.hold(min(first, record.timestamp))
        context.set_timer("end", SPAN + LATE if record.key == 0 else record.timestamp + 30 * SECOND)

    def process_timer(self, timer: Timer, context: Context) -> None:
        context.produce("counts", (context.key, cast("tuple[int, int]", context.state)[0]))
        context.state = None
        context.release()


def pipeline(numbers: int, rows: Sums) -> beam.Pipeline:
    """All branches, each with its sums."""
    made = beam.Pipeline()
    pairs = made | beam.io.Read(Numbers(numbers))
    windows = {"fixed": FixedWindows(SIZE), "sliding": SlidingWindows(SIZE, SIZE / 2), "sessions": Sessions(GAP)}
    sums = {
        name: pairs | f"window {name}" >> beam.WindowInto(window, allowed_lateness=1) | name >> beam.CombinePerKey(sum)
        for name, window in windows.items()
    }
    fixed = pairs | "window stateful" >> beam.WindowInto(FixedWindows(SIZE), allowed_lateness=1)
    sums["stateful"] = fixed | "stateful" >> beam.ParDo(Later())
    sums["raw"] = pairs | "raw" >> beam.RunComputation(Raw(), key=lambda pair: pair[0], outputs="counts")
    for name, its in sums.items():
        its | f"out {name}" >> beam.io.Write(CallSink(Add(rows[name])))
    return made


class Add:
    """A sink's function: keeps what comes."""

    def __init__(self, rows: array[int]) -> None:
        self.rows = rows

    def __call__(self, epoch: int, rows: list[tuple[tuple[int, int], int]]) -> None:
        self.rows.extend(coded(key, count) for (key, count), _ in rows)


def nothing_yet() -> Sums:
    return {branch: array("q") for branch in BRANCHES}


def expected(numbers: int) -> Sums:
    """All sums, by brute force."""
    rows = nothing_yet()
    for key in range(numbers // 2):
        times = [time_of(number, numbers) for number in (2 * key, 2 * key + 1)]
        rows["raw"].append(coded(key, len(times)))
        for branch, of in (("fixed", _fixed), ("stateful", _fixed), ("sliding", _sliding), ("sessions", _sessions)):
            rows[branch].extend(coded(key, count) for count in of(times))
    return rows


def _fixed(times: list[int]) -> Iterable[int]:
    return Counter(time // (SIZE * SECOND) for time in times).values()


def _sliding(times: list[int]) -> Iterable[int]:
    half = SIZE * SECOND // 2
    return Counter(place for time in times for place in (time // half, time // half - 1)).values()


def _sessions(times: list[int]) -> Iterator[int]:
    count, last = 0, None
    for time in sorted(times):
        if last is not None and time - last >= GAP * SECOND:
            yield count
            count = 0
        count, last = count + 1, time
    yield count


@dataclass
class Soak:
    """What was seen of a run's state."""

    rows: Sums
    result: RunResult
    most: Counter[str]
    """The most of each table at any time that was looked."""
    left: Counter[str]
    """What is there in the end."""


def check(seen: Soak, numbers: int, run: Tally) -> None:
    run.fire(min(seen.most["keys"], seen.most["cells"], seen.most["marks"], seen.most["ids"]) > 0)
    for branch, wanted in expected(numbers).items():
        if (one := sorted(wanted)) != (other := sorted(seen.rows[branch])):
            run.compare(one, other, branch)
    assert set(seen.left) >= {"keys", "cells", "marks", "ids"}
    for table, entries in seen.left.items():
        run.note(f"{table} left", entries)
        run.note(f"{table} at the most", seen.most[table])
    assert not any(seen.left.values()), f"left: {seen.left}"
    assert seen.result.unfired_wall_timers == 0
    assert seen.result.total("dropped_late") == 0


def test_nothing_is_left_in_memory(tally: Callable[[int], Tally]) -> None:
    run = tally(17)
    run.plan()
    numbers = 2 * faults(quick=2_000, full=1_000_000)
    rows = nothing_yet()
    runner = LocalRunner(intervals=2)
    most: Counter[str] = Counter()

    def look(progress: EpochProgress) -> None:
        nonlocal most
        most |= count()

    def count() -> Counter[str]:
        total: Counter[str] = Counter()
        for store in runner.stores.values():
            total.update(store.count())
        return total

    topology = pipeline(numbers, rows).topology()
    result = runner.run_topology(topology, RunOptions(max_records_per_epoch=numbers, progress=look))
    check(Soak(rows, result, most, count()), numbers, run)


@pytest.mark.spark
@pytest.mark.slow
def test_nothing_is_left_in_a_checkpoint(spark: SparkSession, tmp_path: Path, tally: Callable[[int], Tally]) -> None:
    run = tally(17)
    run.plan()
    numbers = 2 * faults(quick=1_000, full=1_000_000)
    rows = nothing_yet()
    most: Counter[str] = Counter()

    def look(progress: EpochProgress) -> None:
        nonlocal most
        if progress.epoch in (3, 6):
            most |= _counted(Checkpoint.read(ObjectStore(str(tmp_path))))

    topology = pipeline(numbers, rows).topology()
    options = RunOptions(str(tmp_path), max_records_per_epoch=numbers, progress=look)
    result = SparkRunner(spark, intervals=2).run_topology(topology, options)
    view = Checkpoint.read(ObjectStore(str(tmp_path)))
    assert view.manifest is not None
    held = {name: its for name, its in view.manifest.holds.items() if its}
    assert not held and not view.manifest.pending
    check(Soak(rows, result, most, _counted(view)), numbers, run)


def _counted(view: CheckpointView) -> Counter[str]:
    """Entries of all computations, by table."""
    assert view.manifest is not None
    total: Counter[str] = Counter()
    for names in view.manifest.topology.levels:
        for name in names:
            total.update(view.load(name).count())
    return total
