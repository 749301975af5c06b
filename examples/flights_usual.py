"""A raw computation: what is usual for a carrier at this hour of the day, and when is it far from that?

The shape is that of MillWheel's Zeitgeist (MillWheel paper §2, figures 1 and 2), which finds spikes and dips in search
queries: records are counted in a bucket of time; once the bucket is complete, it is held against a model of what was
usual so far; then the model learns from it. Counting needs `process_record`. Knowing that a bucket is complete needs
`process_timer` on the low watermark: a dip is what did *not* arrive, and only the watermark can tell that from what
has not arrived yet. The model is long-term state, a few numbers for each carrier and hour of the day.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from math import sqrt
from typing import NamedTuple
from zoneinfo import ZoneInfo

from headrace.lowlevel import Computation, Context, Record, Timer

HOUR_US = 3_600_000_000
"""Microseconds in an hour."""
NEW_YORK = ZoneInfo("America/New_York")
"""The clock that the hours of the day are read from: people's habits follow it, not UTC."""

_MEMORY = 0.05
"""How much of the model the newest hour makes up: about the last twenty days count."""
_PRACTICE = 14
"""Hours that a model learns from before it judges any."""
_FAR = 4.0
"""Deviations from the usual that make a spike or a dip."""
_LEAST_DEVIATION = {"delay": 10.0, "flights": 2.0}
"""Minutes and flights: below these even the quietest hour's ups and downs surprise nobody."""
_ENOUGH_FLIGHTS = 3
"""Departures that make a mean delay worth judging."""
_QUIET_HOURS = 6
"""How long hours without any flight are watched after a flight; one night is longer, a gap in the day is not."""


@dataclass(slots=True)
class Usual:
    """Mean and variance of a quantity, older values counting exponentially less.

    >>> usual = Usual()
    >>> for value in [10.0, 14.0, 10.0, 14.0]:
    ...     usual.learn(value)
    >>> usual.mean, sqrt(usual.variance)
    (12.0, 2.0)
    """

    mean: float = 0.0
    variance: float = 0.0
    learned: int = 0
    """Number of values."""

    def learn(self, value: float) -> None:
        """Take one more value in. The first few have equal weights, so the first is not taken for the truth."""
        self.learned += 1
        weight = max(_MEMORY, 1 / self.learned)
        change = value - self.mean
        self.mean += weight * change
        self.variance = (1 - weight) * (self.variance + weight * change * change)

    def deviations(self, value: float, least: float) -> float:
        """How many standard deviations (each at least `least`) the value is above the mean."""
        return (value - self.mean) / max(sqrt(self.variance), least)


class Finding(NamedTuple):
    """An hour of a carrier that was far from usual."""

    carrier: str
    hour: int
    """Start of the hour of scheduled departure, microseconds UTC."""
    kind: str
    """'spike' above the usual or 'dip' below it."""
    measure: str
    """'delay', the mean departure delay in minutes, or 'flights', the number of departures."""
    value: float
    usual: float
    deviations: float


@dataclass(slots=True)
class Bucket:
    """One hour of a carrier so far."""

    flights: int = 0
    """Scheduled flights reported."""
    departures: int = 0
    delay_min: float = 0.0
    """Sum over the departures."""

    def measures(self) -> list[tuple[str, float]]:
        """What of this hour is held against the usual: name and value."""
        departures = ("flights", float(self.departures))
        if self.departures < _ENOUGH_FLIGHTS:
            return [departures]
        return [departures, ("delay", self.delay_min / self.departures)]


@dataclass(slots=True)
class CarrierState:
    """Everything remembered of a carrier. Persisted: every field."""

    open: dict[int, Bucket] = field(default_factory=dict)
    """Hours not yet complete, by their start in microseconds UTC."""
    watch_until_us: int = 0
    """Hours that start before this are judged even if no flight is reported in them."""
    usual: dict[tuple[int, str], Usual] = field(default_factory=dict)
    """(hour of the day in New York, measure) -> model."""


class UsualDelay(Computation):
    """Keyed by carrier: reports the hours that are far from usual to the stream `output`, as `Finding`s.

    Values are flights as in the replay, timestamps their scheduled departures. A flight that is reported after its hour
    was judged is dropped and counted; the counter `judged` has all others once their hour is complete.
    """

    def __init__(self, output: str = "findings") -> None:
        self.output = output

    def initial_state(self) -> CarrierState:
        """A carrier that nothing is known of."""
        return CarrierState()

    def process_record(self, record: Record, context: Context) -> None:
        """Count the flight in its hour; the first one of an hour asks to be woken when the hour is complete."""
        hour = record.timestamp - record.timestamp % HOUR_US
        if hour + HOUR_US <= context.watermark:
            context.drop_late()
            return
        state, flight = context.state, record.value
        assert isinstance(state, CarrierState) and isinstance(flight, dict)
        bucket = state.open.get(hour)
        if bucket is None:
            bucket = state.open[hour] = Bucket()
            state.watch_until_us = max(state.watch_until_us, hour + _QUIET_HOURS * HOUR_US)
            _wake_at_end(hour, context)
        bucket.flights += 1
        if (delay := flight["delay_min"]) is not None:
            bucket.departures += 1
            bucket.delay_min += delay

    def process_timer(self, timer: Timer, context: Context) -> None:
        """The hour is complete: judge it, learn from it, and see to the next hour even if nothing happens in it."""
        state = context.state
        assert isinstance(state, CarrierState)
        hour = timer.timestamp - HOUR_US
        bucket = state.open.pop(hour, None) or Bucket()
        for finding in judge(str(context.key), hour, bucket, state.usual):
            context.produce(self.output, finding, hour)
        context.count("judged", bucket.flights)
        if hour + HOUR_US < state.watch_until_us:
            _wake_at_end(hour + HOUR_US, context)


def _wake_at_end(hour: int, context: Context) -> None:
    context.set_timer(f"hour {hour}", hour + HOUR_US)


def judge(carrier: str, hour: int, bucket: Bucket, models: dict[tuple[int, str], Usual]) -> list[Finding]:
    """The findings on a complete hour; the models of its hour of the day learn from it afterwards.

    >>> models: dict[tuple[int, str], Usual] = {}
    >>> for day in range(20):
    ...     assert judge("UA", day * 24 * HOUR_US, Bucket(10, 10, 50.0), models) == []
    >>> [finding] = judge("UA", 20 * 24 * HOUR_US, Bucket(10, 10, 900.0), models)
    >>> finding.kind, finding.measure, finding.value, finding.usual
    ('spike', 'delay', 90.0, 5.0)
    """
    time_of_day = datetime.fromtimestamp(hour // 1_000_000, NEW_YORK).hour
    findings = []
    for measure, value in bucket.measures():
        model = models.setdefault((time_of_day, measure), Usual())
        if model.learned >= _PRACTICE:
            deviations = model.deviations(value, _LEAST_DEVIATION[measure])
            if abs(deviations) >= _FAR:
                kind = "spike" if deviations > 0 else "dip"
                findings.append(Finding(carrier, hour, kind, measure, value, model.mean, deviations))
        model.learn(value)
    return findings
