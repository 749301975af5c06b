"""Sensors that fall silent: dips, and the absence of data, in streams of measurements.

It teaches: a raw computation that acts when *nothing* comes. Only a watermark can tell that a sensor was silent, as a
late measurement would look the same on a wall clock. A timer on the low watermark is set for when the next measurement
is due; a measurement moves it; if it fires, nothing has come.

    python -m examples.sensors
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from headrace.lowlevel import SECOND, BoundedInjector, CallSink, Computation, Context, Record, Timer, Topology

EVERY = 10 * SECOND
"""How often a sensor should be heard of, microseconds."""
PATIENCE = 3
"""Measurements that may be missing before it is told."""
DIP = 0.5
"""Share of what is usual below which a measurement is a dip."""
WEIGHT = 0.2
"""Of a new measurement in what is usual."""


class Watch(Computation):
    """Of one sensor: state is what is usual, and since when it is silent."""

    def initial_state(self) -> object:
        """(usual, silent since)."""
        return None, None

    def process_record(self, record: Record, context: Context) -> None:
        """A measurement."""
        usual, silent = cast("tuple[float | None, int | None]", context.state)
        value = cast("tuple[str, float]", record.value)[1]
        if silent is not None:
            context.produce("alerts", (context.key, "back", record.timestamp))
        if usual is not None and value < DIP * usual:
            context.produce("alerts", (context.key, "dip", record.timestamp))
        else:
            usual = value if usual is None else (1 - WEIGHT) * usual + WEIGHT * value
        context.state = usual, None
        context.set_timer("due", record.timestamp + PATIENCE * EVERY)

    def process_timer(self, timer: Timer, context: Context) -> None:
        """Nothing came for too long."""
        usual, silent = cast("tuple[float | None, int | None]", context.state)
        if silent is None:
            context.state = usual, timer.timestamp
            context.produce("alerts", (context.key, "silent", timer.timestamp))


def measurements() -> list[tuple[tuple[str, float], int]]:
    """((sensor, value), time): ten minutes of three sensors; one dips, one is silent for a while, one for good."""
    found = []
    for number in range(60):
        at = number * EVERY
        found.append((("boiler", 20.0 if number != 25 else 4.0), at))
        if not 20 <= number < 40:
            found.append((("pump", 5.0), at))
        if number < 30:
            found.append((("valve", 1.0), at))
    return found


def topology(rows: Iterable[tuple[object, int]], alerts: CallSink) -> Topology:
    """Sensors watched, alerts to a sink."""
    made = Topology()
    made.injector("measurements", BoundedInjector(rows, max_delay=EVERY))
    made.computation("watch", Watch(), {"measurements": lambda row: row[0]}, ["alerts"])
    made.sink("alerts", "alerts", alerts)
    return made


def show(alert: tuple[str, str, int]) -> None:
    """A line for an alert."""
    sensor, what, at = alert
    print(f"{at // SECOND:4} s  {sensor:6} {what}")


if __name__ == "__main__":
    from headrace.runners import RunOptions
    from headrace.sdk.pipeline.runner_choice import find_runner

    shown = CallSink(lambda epoch, rows: [show(value) for value, _ in rows])
    find_runner(None).run_topology(topology(measurements(), shown), RunOptions(max_records_per_epoch=30))
