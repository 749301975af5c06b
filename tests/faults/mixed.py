"""One topology with strong and weak productions side by side, and the world outside that it sends to."""

from __future__ import annotations

from collections import Counter
from random import Random

from headrace.lowlevel import Batch, BoundedInjector, CallSink, Computation, InlineComputation, SendSink, Topology
from headrace.runners.engine.clock import ManualClock

ROWS = [((i % 5, i), (i * 37) % 400) for i in range(40)]
"""((key, number), timestamp)."""
WEAK = ("alerts", "even", "echo")
"""Sinks, and streams, of weak productions."""
STRONG = ("sums", "seen")
"""Those of strong ones."""
DELAY = 1.0
"""Seconds until a release counts as a straggler."""


class Sums(Computation):
    """Strong: a running sum for each key."""

    def process_record(self, record, context):
        context.state = (context.state or 0) + record.value[1]
        context.produce("sums", (context.key, context.state))


class Alerts(Computation):
    """Weak, to a sink and to another computation; it has state, which is exact all the same."""

    strong_productions = False

    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce("alerts", (record.value[1], context.state))


class Even(InlineComputation):
    """Weak, where records are read."""

    strong_productions = False

    def process_batch(self, stream, batch, emit):
        even = [(value, time) for value, time in batch.rows() if value[1] % 2 == 0]
        emit("even", Batch([value for value, _ in even], [time for _, time in even]))


class Seen(Computation):
    """Strong, behind the weak one: how often it was told of each number."""

    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce("seen", (record.value[0], context.state))


class Echo(Computation):
    """Weak behind weak: what it releases shows at once if it is given a record twice."""

    strong_productions = False

    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce("echo", (record.value[0], context.state))


class World:
    """Everything outside. Strong deliveries come under an epoch, weak ones as often as they come.

    `moody` chooses for each release whether it is taken, taken slowly, or not taken.
    """

    def __init__(self, moody: Random | None = None):
        self.clock = ManualClock()
        self.strong: dict[tuple[str, int], list] = {}
        self.weak: dict[str, Counter] = {name: Counter() for name in WEAK}
        self.refused = self.slow = 0
        self._moody = moody

    def sink(self, name):
        def deliver(epoch, rows):
            rows = sorted(rows)
            assert self.strong.setdefault((name, epoch), rows) == rows, "a repeated delivery differs"

        return CallSink(deliver)

    def weak_sink(self, name):
        def send(epoch, rows):
            mood = self._moody.random() if self._moody else 1.0
            if mood < 0.2:
                self.refused += 1
                return False
            if mood < 0.4:
                self.slow += 1
                self.clock.sleep(3_000_000)
            self.weak[name].update(value for value, _ in rows)
            return True

        return SendSink(send)

    def values(self, name):
        return sorted(row for (sink, _), rows in self.strong.items() if sink == name for row in rows)


def topology(world: World) -> Topology:
    made = Topology()
    made.injector("in", BoundedInjector(ROWS))
    made.computation("sums", Sums(), {"in": lambda value: value[0]}, ["sums"])
    made.computation("alerts", Alerts(), {"in": lambda value: value[0]}, ["alerts"])
    made.computation("seen", Seen(), {"alerts": lambda value: value[0]}, ["seen"])
    made.computation("echo", Echo(), {"alerts": lambda value: value[0]}, ["echo"])
    made.inline("even", Even(), ["in"], ["even"])
    for name in STRONG:
        made.sink(name, name, world.sink(name))
    for name in WEAK:
        made.sink(name, name, world.weak_sink(name))
    return made


def check(world: World, expected: World, where: str) -> int:
    """Strong: exactly what was expected; weak: everything, and nothing else. How many repeats there were."""
    for name in STRONG:
        assert world.values(name) == expected.values(name), where
    for name, values in expected.weak.items():
        assert set(world.weak[name]) == set(values), where
    return sum(counter.total() for counter in world.weak.values()) - sum(map(len, expected.weak.values()))
