"""q0, q1 and q2: one event at a time."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations


def bids(beam, by, events):
    """Those events that are bids."""
    return events | "Bids" >> beam.Filter(by.is_bid)


def pass_through(beam, by, events):
    return events | beam.Filter(by.is_any)


def currency_conversion(beam, by, events):
    return bids(beam, by, events) | "In euros" >> by.in_euros()


def selection(beam, by, events):
    return events | "Chosen" >> beam.Filter(by.is_chosen) | beam.Map(lambda bid: (bid["auction"], bid["price"]))
