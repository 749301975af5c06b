"""q5, q7, q11 and q12: bids counted or compared in windows."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

import time

from benchmarks.nexmark.pipelines.elementwise import bids
from benchmarks.nexmark.settings import GAP, PERIOD, WINDOW


def highest_of(beam):
    """A `CombineFn` over pairs of a measure and an item: the greatest measure, and all items that have it."""

    class Highest(beam.CombineFn):
        def create_accumulator(self):
            return None, []

        def add_input(self, accumulator, element):
            greatest, items = accumulator
            measure, item = element
            if greatest is None or measure > greatest:
                return measure, [item]
            return (greatest, [*items, item]) if measure == greatest else accumulator

        def merge_accumulators(self, accumulators):
            found = [accumulator for accumulator in accumulators if accumulator[1]]
            greatest = max((measure for measure, _ in found), default=None)
            return greatest, [item for measure, items in found if measure == greatest for item in items]

        def extract_output(self, accumulator):
            return accumulator

    return Highest()


def hot_items(beam, events):
    sliding = beam.WindowInto(beam.window.SlidingWindows(WINDOW, PERIOD))
    auctions = bids(beam, events) | beam.Map(lambda bid: bid["auction"]) | sliding
    counts = (
        auctions | beam.combiners.Count.PerElement() | "By count" >> beam.Map(lambda counted: (counted[1], counted[0]))
    )
    hottest = counts | beam.CombineGlobally(highest_of(beam)).without_defaults()

    def rows(found, window=beam.DoFn.WindowParam):
        count, auctions = found
        return [(window.start.micros, auction, count) for auction in auctions]

    return hottest | beam.FlatMap(rows)


def highest_bid(beam, events):
    priced = bids(beam, events) | "By price" >> beam.Map(
        lambda bid: (bid["price"], (bid["auction"], bid["bidder"], bid["time"]))
    )
    fixed = priced | beam.WindowInto(beam.window.FixedWindows(WINDOW))
    highest = fixed | beam.CombineGlobally(highest_of(beam)).without_defaults()

    def rows(found, window=beam.DoFn.WindowParam):
        price, bids = found
        return [(window.start.micros, auction, bidder, price, time) for auction, bidder, time in bids]

    return highest | beam.FlatMap(rows)


def user_sessions(beam, events):
    bidders = bids(beam, events) | beam.Map(lambda bid: bid["bidder"])
    counts = bidders | beam.WindowInto(beam.window.Sessions(GAP)) | beam.combiners.Count.PerElement()

    def row(counted, window=beam.DoFn.WindowParam):
        return counted[0], window.start.micros, window.end.micros, counted[1]

    return counts | "Row" >> beam.Map(row)


def processing_time(beam, events):
    """An event's time is when it is read: windows of the clock, as by ingress time."""
    stamped = bids(beam, events) | "Now" >> beam.Map(
        lambda bid: beam.window.TimestampedValue(bid["bidder"], time.time())
    )
    return stamped | beam.WindowInto(beam.window.FixedWindows(WINDOW)) | beam.combiners.Count.PerElement()
