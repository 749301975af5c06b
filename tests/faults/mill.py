"""A topology with everything that must survive a crash, drawn from a seed, and what it must put out.

Visits come out of order and more than once (`Source`). `per minute` sums them by page with state, event-time timers,
holds, and a wall-time timer for each page's first visit; `hours` sums minutes one level further down; each hour then
walks round a circle, from key to key. Nothing of what comes out depends on how the input falls into epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, cast

from headrace.lowlevel import (
    BaseInjector,
    Batch,
    CallSink,
    Computation,
    Context,
    Delivery,
    InlineComputation,
    MemorySplit,
    Record,
    TimeDomain,
    Timer,
    Topology,
)
from headrace.lowlevel.records.record import Emit
from headrace.lowlevel.time import MAX_TIMESTAMP

PAGES = 4
MINUTE, HOUR = 60, 240
SINKS = ("hellos", "minutes", "hours", "arrived")


class Visit(NamedTuple):
    number: int
    page: int
    seconds: int
    time: int


class Sum(NamedTuple):
    """Visits of a page and minute, or of a group of pages and an hour."""

    who: int
    start: int
    visits: int
    seconds: int


class Walk(NamedTuple):
    """An hour on its way round the circle."""

    origin: tuple[int, int]
    left: int
    path: tuple[int, ...]


@dataclass(frozen=True)
class World:
    """The input of a seed, and by plain recomputation what must come of it."""

    seed: int
    size: int = 30
    visits: list[Visit] = field(init=False)

    def __post_init__(self) -> None:
        random = Random(f"world {self.seed}")
        times = sorted(random.randrange(3 * HOUR) for _ in range(self.size))
        jittered = sorted(range(self.size), key=lambda at: times[at] + random.randrange(2 * MINUTE))
        made = [Visit(n, random.randrange(PAGES), random.randrange(100), times[at]) for n, at in enumerate(jittered)]
        object.__setattr__(self, "visits", made)

    def expected(self) -> dict[str, list[object]]:
        """Sink -> values, in any order."""
        return {
            "hellos": list(self.first_visits().items()),
            "minutes": [*self.minutes()],
            "hours": [*self.hours()],
            "arrived": [(walk.origin, walk.path) for walk in (list(steps(begun(hour)))[-1] for hour in self.hours())],
        }

    def minutes(self) -> Iterator[Sum]:
        """Visits by page and minute."""
        return _sums((visit.page, visit.time // MINUTE * MINUTE, 1, visit.seconds) for visit in self.visits)

    def hours(self) -> Iterator[Sum]:
        """Visits by group of pages and hour."""
        return _sums((each.who % 2, each.start // HOUR * HOUR, each.visits, each.seconds) for each in self.minutes())

    def first_visits(self) -> dict[int, int]:
        """Page -> time of the first visit that comes."""
        first: dict[int, int] = {}
        for visit in self.visits:
            first.setdefault(visit.page, visit.time)
        return first

    def steps_by_key(self) -> Counter[int]:
        """How often walks come by at each key of the circle."""
        return Counter(where(walk) for hour in self.hours() for walk in steps(begun(hour)))


def _sums(parts: Iterable[tuple[int, int, int, int]]) -> Iterator[Sum]:
    sums: dict[tuple[int, int], Sum] = {}
    for who, start, visits, seconds in parts:
        old = sums.get((who, start), Sum(who, start, 0, 0))
        sums[who, start] = old._replace(visits=old.visits + visits, seconds=old.seconds + seconds)
    return iter(sums.values())


def begun(hour: Sum) -> Walk:
    """The walk that an hour begins."""
    return Walk((hour.who, hour.start), hour.seconds % 5, ())


def where(walk: Walk) -> int:
    """The key that a walk comes by at."""
    return (walk.origin[0] + walk.origin[1] // HOUR + walk.left) % 3


def on(walk: Walk) -> Walk:
    """The walk after one step."""
    return Walk(walk.origin, walk.left - 1, (*walk.path, where(walk)))


def steps(walk: Walk) -> Iterator[Walk]:
    """A walk at each of its keys."""
    yield walk
    while walk.left:
        walk = on(walk)
        yield walk


class Source(BaseInjector):
    """Sends visits in order, some up to five times, and each new connection begins with some that were sent before.

    The watermark is perfect: no visit that has not been sent yet is behind it.
    """

    record_ids = True

    def __init__(self, world: World, watch: Callable[[int], None] = lambda repeated: None, reach: int = 12) -> None:
        self._world, self._watch, self._reach = world, watch, reach
        self._connected = False
        times = [visit.time for visit in world.visits]
        self._oldest = [min(times[at:], default=MAX_TIMESTAMP) for at in range(len(times) + 1)]

    def plan(self, position: object, limit: int, splits: int) -> Delivery:
        """The next visits, after some old ones; `watch` is told how many are sent again."""
        assert isinstance(position, int)
        random = Random(f"source {self._world.seed} {position} {self._connected}")
        back = random.randrange(self._reach) if self._connected else self._reach
        self._connected = True
        visits = self._world.visits
        end = min(len(visits), position + limit)
        old = visits[max(0, position - back) : position]
        sent = [visit for visit in random.sample(old, len(old)) + visits[position:end] for _ in range(_times(random))]
        self._watch(len(sent) - (end - position))
        size = max(1, -(-len(sent) // splits))
        parts = [batch_of(sent[at : at + size]) for at in range(0, len(sent), size)]
        return Delivery([MemorySplit(part) for part in parts], end, self._oldest[end], end == len(visits))

    def needed_slack(self) -> int:
        """How long ids must be kept behind the watermark, so that nothing that is sent again is taken for new."""
        visits = self._world.visits
        return max(
            self._oldest[at] - min(visit.time for visit in visits[max(0, at - self._reach) : at])
            for at in range(1, len(visits))
        )


def _times(random: Random) -> int:
    """How often a record is sent."""
    return random.choice((1, 1, 1, 2, 3, 5))


def batch_of(visits: list[Visit]) -> Batch:
    """Visits as they enter the topology."""
    return Batch(list(visits), [visit.time for visit in visits], [b"visit %d" % visit.number for visit in visits])


class Clean(InlineComputation):
    """Changes nothing, on the way."""

    def process_batch(self, stream: str, batch: Batch, emit: Emit) -> None:
        emit("clean", Batch(batch.values, batch.timestamps, batch.ids))


class Summing(Computation):
    """Sums by spans of event time: state, a timer for each span, and a hold until it has fired."""

    def __init__(self, output: str, span: int) -> None:
        self.output, self.span = output, span

    def initial_state(self) -> dict[int, Sum]:
        return {}

    def add(self, context: Context, time: int, visits: int, seconds: int) -> None:
        """One more part of a span."""
        open_spans, start = cast("dict[int, Sum]", context.state), time // self.span * self.span
        old = open_spans.get(start, Sum(cast(int, context.key), start, 0, 0))
        open_spans[start] = old._replace(visits=old.visits + visits, seconds=old.seconds + seconds)
        context.set_timer(str(start), start + self.span)
        context.hold(min(open_spans))

    def process_timer(self, timer: Timer, context: Context) -> None:
        open_spans = cast("dict[int, Sum]", context.state)
        done = open_spans.pop(int(timer.tag))
        context.produce(self.output, done, done.start)
        if open_spans:
            context.hold(min(open_spans))
        else:
            context.release()


class PerMinute(Summing):
    """Visits of a page by minute, and a greeting five microseconds of wall time after the page's first visit."""

    GREETED = b"greeted"

    def process_record(self, record: Record, context: Context) -> None:
        visit = cast(Visit, record.value)
        if context.read(self.GREETED) is None:
            context.write(self.GREETED, b"%d" % visit.time)
            context.set_timer("hello", context.wall_time + 5, TimeDomain.WALL_TIME, hold=visit.time)
        self.add(context, visit.time, 1, visit.seconds)

    def process_timer(self, timer: Timer, context: Context) -> None:
        if timer.domain is TimeDomain.WALL_TIME:
            first = int(context.read(self.GREETED) or b"-1")
            context.produce("hellos", (context.key, first), first)
        else:
            super().process_timer(timer, context)


class Hours(Summing):
    """Minutes of a group of pages by hour."""

    def process_record(self, record: Record, context: Context) -> None:
        minute = cast(Sum, record.value)
        self.add(context, minute.start, minute.visits, minute.seconds)


class Walking(Computation):
    """Sends walks round; its state counts how many came by."""

    def process_record(self, record: Record, context: Context) -> None:
        walk = walk_of(record.value)
        context.state = cast(int, context.state or 0) + 1
        if walk.left:
            context.produce("walks", on(walk))
        else:
            context.produce("arrived", (walk.origin, walk.path))


def walk_of(value: object) -> Walk:
    """What is to walk: an hour that begins to, or one on its way."""
    return begun(value) if isinstance(value, Sum) else cast(Walk, value)


def page_of(value: object) -> int:
    return cast(Visit, value).page


def group_of(value: object) -> int:
    return cast(Sum, value).who % 2


def place_of(value: object) -> int:
    return where(walk_of(value))


def topology(source: Source, sink: Callable[[str], CallSink]) -> Topology:
    """All of it; `sink` makes the sink of a stream."""
    made = Topology()
    made.injector("visits", source)
    made.inline("clean up", Clean(), ["visits"], ["clean"])
    made.computation("per minute", PerMinute("minutes", MINUTE), {"clean": page_of}, ["minutes", "hellos"])
    made.computation("hours", Hours("hours", HOUR), {"minutes": group_of}, ["hours"])
    made.computation("circle", Walking(), {"hours": place_of, "walks": place_of}, ["walks", "arrived"])
    for stream in SINKS:
        made.sink(stream, stream, sink(stream))
    return made


class Mill:
    """The topology of a seed, with repeats."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)

    def topology(self, sink: Callable[[str], CallSink]) -> Topology:
        return topology(Source(self.world), sink)

    def expected(self) -> dict[str, list[object]]:
        """Sink -> values, by recomputation."""
        return self.world.expected()
