"""The same for Headrace, as column expressions: for events that are never looked at, no Python value is made."""

# The names are those of `by_row`, whose functions have no types.
# mypy: ignore-errors

from __future__ import annotations

from functools import reduce

import headrace as beam
from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.query import LOGGED
from benchmarks.nexmark.settings import CATEGORY, SHARDS, SKIP, STATES, WINDOW
from headrace import col

is_any = col.kind.is_not_null()
is_person = col.kind == PERSON
is_auction = col.kind == AUCTION
is_bid = col.kind == BID
is_auction_or_bid = col.kind != PERSON
is_chosen = is_bid & (col.auction % SKIP == 0)
is_local = is_person & col.state.isin(STATES)
is_in_category = is_auction & (col.category == CATEGORY)
auction_of = col.auction
bidder_of = col.bidder
_TEXTS = [col(name).fill_null(0).cast(str) for name in LOGGED]


def in_euros():
    return beam.Select("auction", "bidder", price=col.price * 89 // 100, time="time", extra="extra")


def by_price():
    return beam.WithKeys(col.price)


def windows_of_the_clock():
    """All time, reported ten seconds after the first bid since the last report."""
    trigger = beam.transforms.trigger
    return beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=trigger.Repeatedly(trigger.AfterProcessingTime(WINDOW)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )


def grouped_lines(events):
    """Pairs of a shard and its lines."""
    line = reduce(lambda line, text: line + "," + text, _TEXTS)
    rows = events | beam.Select(shard=col.time % SHARDS, line=line)
    return rows | "Shard and line" >> beam.Map(lambda row: (row.shard, row.line)) | beam.GroupByKey()
