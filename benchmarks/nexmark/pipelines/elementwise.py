"""q0, q1 and q2: one event at a time."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from benchmarks.nexmark.events import BID
from benchmarks.nexmark.settings import SKIP


def bids(beam, events):
    """Those events that are bids."""
    return events | "Bids" >> beam.Filter(lambda event: event["kind"] == BID)


def pass_through(beam, events):
    return events | beam.Map(lambda event: event)


def currency_conversion(beam, events):
    return bids(beam, events) | "In euros" >> beam.Map(
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": bid["price"] * 89 // 100,
            "time": bid["time"],
            "extra": bid["extra"],
        }
    )


def selection(beam, events):
    chosen = bids(beam, events) | "Chosen" >> beam.Filter(lambda bid: bid["auction"] % SKIP == 0)
    return chosen | beam.Map(lambda bid: (bid["auction"], bid["price"]))
