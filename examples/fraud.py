"""A rule for card payments: a large one soon after a tiny one is stopped for a second look.

It teaches: state and timers inside a `DoFn`. When a tiny amount was paid is kept for the card; a timer on the watermark
takes it away after a minute of event time, so that no state is left of cards that are quiet.

    python -m examples.fraud
"""

from __future__ import annotations

from collections.abc import Iterator

import headrace as beam
from headrace.coders import VarIntCoder
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import (
    ReadModifyWriteRuntimeState,
    ReadModifyWriteStateSpec,
    TimerSpec,
    UserTimer,
    on_timer,
)
from headrace.transforms.window import TimestampedValue
from headrace.utils.timestamp import Timestamp

TINY, LARGE, SPAN = 1, 500, 60
"""Amounts, and seconds for which a tiny payment is remembered."""
PAYMENTS = [
    ("anna", 1, 0),
    ("anna", 700, 20),
    ("boris", 1, 0),
    ("boris", 900, 90),
    ("clara", 800, 30),
    ("anna", 600, 30),
]
"""(card, amount, seconds)."""


class Suspicious(beam.DoFn):
    """Puts out payments that are to be looked at."""

    TRIED = ReadModifyWriteStateSpec("tried", VarIntCoder())
    """When a tiny amount was paid, microseconds."""
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        at: Timestamp = beam.DoFn.TimestampParam,
        tried: ReadModifyWriteRuntimeState = beam.DoFn.StateParam(TRIED),
        forget: UserTimer = beam.DoFn.TimerParam(FORGET),
    ) -> Iterator[tuple[str, int]]:
        """One payment."""
        card, amount = element
        before = tried.read()
        # The timer fires when the watermark says that the minute is over, which may be after this payment came.
        if amount >= LARGE and before is not None and at.micros - before <= SPAN * 1_000_000:
            yield card, amount
        if amount <= TINY:
            tried.write(at.micros)
            forget.set(at + SPAN)
        else:
            tried.clear()
            forget.clear()

    @on_timer(FORGET)
    def expire(self, tried: ReadModifyWriteRuntimeState = beam.DoFn.StateParam(TRIED)) -> None:
        """Nothing more can come in the minute."""
        tried.clear()


def suspicious(payments: beam.PCollection[tuple[str, int]]) -> beam.PCollection[tuple[str, int]]:
    """(card, amount) of payments that are to be looked at."""
    return payments | beam.ParDo(Suspicious())


def at_their_times(rows: list[tuple[str, int, int]]) -> Iterator[TimestampedValue]:
    """(card, amount) at its time."""
    return (TimestampedValue((card, amount), at) for card, amount, at in rows)


if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        payments = pipeline | beam.Create(PAYMENTS) | beam.FlatMap(lambda row: at_their_times([row]))
        _ = suspicious(payments) | beam.MapTuple(lambda card, amount: print(f"look at {card}: {amount}"))
