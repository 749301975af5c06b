"""State and timers: pay once for each order, and remind whoever has not paid in time.

Events of orders arrive, some of them twice. For each order the step keeps what it has seen, and a timer on the
watermark: a payment that comes twice counts once, and an order that is not paid a minute after it was placed is put out
as overdue, as soon as the watermark says that no earlier event is still to come. Run it with
`python -m examples.stateful`.
"""

from __future__ import annotations

from collections.abc import Iterable

import headrace as beam
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import (
    CombiningValueState,
    CombiningValueStateSpec,
    SetState,
    SetStateSpec,
    TimerSpec,
    UserTimer,
    on_timer,
)
from headrace.transforms.window import TimestampedValue
from headrace.utils.timestamp import Timestamp

EVENTS = [
    ("order 1", "placed", 0),
    ("order 2", "placed", 10),
    ("order 1", "payment 17", 40),
    ("order 1", "payment 17", 45),
    ("order 3", "placed", 50),
    ("order 3", "payment 18", 140),
]
"""Order, what happened, at which second."""
PATIENCE = 60
"""Seconds of event time within which an order is to be paid."""


class Orders(beam.DoFn):
    """Puts out (order, "paid" or "overdue")."""

    PAYMENTS = SetStateSpec("payments")
    EVENTS = CombiningValueStateSpec("events", sum)
    DEADLINE = TimerSpec("deadline", TimeDomain.WATERMARK)

    def process(
        self,
        event: tuple[str, str],
        time: Timestamp = beam.DoFn.TimestampParam,
        payments: SetState = beam.DoFn.StateParam(PAYMENTS),
        events: CombiningValueState = beam.DoFn.StateParam(EVENTS),
        deadline: UserTimer = beam.DoFn.TimerParam(DEADLINE),
    ) -> Iterable[tuple[str, str]]:
        """An event of an order."""
        order, what = event
        events.add(1)
        if what == "placed":
            deadline.set(time + PATIENCE)
        elif what not in payments.read():
            payments.add(what)
            deadline.clear()
            yield order, "paid"

    @on_timer(DEADLINE)
    def overdue(
        self,
        order: object = beam.DoFn.KeyParam,
        events: CombiningValueState = beam.DoFn.StateParam(EVENTS),
    ) -> Iterable[tuple[object, str]]:
        """The time to pay is over."""
        yield order, f"overdue after {events.read()} event(s)"


def as_they_come() -> TestStream:
    """The events as a stream whose watermark follows ten seconds behind."""
    stream = TestStream()
    for order, what, second in EVENTS:
        stream = stream.advance_watermark_to(second - 10)
        stream = stream.add_elements([TimestampedValue((order, what), second)])
    return stream.advance_watermark_to_infinity()


def main(runner: str = "LocalRunner") -> None:
    """Print what becomes of the orders.

    >>> main()
    ('order 1', 'paid')
    ('order 2', 'overdue after 1 event(s)')
    ('order 3', 'overdue after 1 event(s)')
    ('order 3', 'paid')
    """
    with beam.Pipeline(runner) as pipeline:
        _ = pipeline | as_they_come() | beam.ParDo(Orders()) | beam.Map(print)


if __name__ == "__main__":
    main()
