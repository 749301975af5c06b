"""Functions of one event, and steps that are more than that, for Beam."""

# Beam's decorators and default arguments mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import apache_beam as beam

from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.query import LOGGED
from benchmarks.nexmark.settings import CATEGORY, SHARDS, SKIP, STATES


def is_any(event):
    return True


def is_person(event):
    return event["kind"] == PERSON


def is_auction(event):
    return event["kind"] == AUCTION


def is_bid(event):
    return event["kind"] == BID


def is_auction_or_bid(event):
    return event["kind"] != PERSON


def is_chosen(event):
    return event["kind"] == BID and event["auction"] % SKIP == 0


def is_local(event):
    return event["kind"] == PERSON and event["state"] in STATES


def is_in_category(event):
    return event["kind"] == AUCTION and event["category"] == CATEGORY


def auction_of(bid):
    return bid["auction"]


def bidder_of(bid):
    return bid["bidder"]


def in_euros():
    return beam.Map(
        lambda bid: {
            "auction": bid["auction"],
            "bidder": bid["bidder"],
            "price": bid["price"] * 89 // 100,
            "time": bid["time"],
            "extra": bid["extra"],
        }
    )


def by_price():
    return beam.Map(lambda bid: (bid["price"], bid))


def windows_of_the_clock():
    """All time, as this runner has no clock for bounded input: what the windows' counts add up to."""
    return beam.WindowInto(beam.window.GlobalWindows())


def grouped_lines(events):
    """Pairs of a shard and its lines."""

    def keyed(event):
        return event["time"] % SHARDS, ",".join([str(event[name] or 0) for name in LOGGED])

    return events | "Shard and line" >> beam.Map(keyed) | beam.GroupByKey()
