"""q5, q7, q11 and q12: bids counted or compared in windows."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from operator import itemgetter

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

        def add_inputs(self, accumulator, elements):
            """Many at once, where a runner asks for that."""
            elements = list(elements)
            greatest = max(map(itemgetter(0), elements), default=None)
            items = [item for measure, item in elements if measure == greatest]
            return self.merge_accumulators([accumulator, (greatest, items)])

        def merge_accumulators(self, accumulators):
            found = [accumulator for accumulator in accumulators if accumulator[1]]
            greatest = max((measure for measure, _ in found), default=None)
            return greatest, [item for measure, items in found if measure == greatest for item in items]

        def extract_output(self, accumulator):
            return accumulator

    return Highest()


def hot_items(beam, by, events):
    sliding = beam.WindowInto(beam.window.SlidingWindows(WINDOW, PERIOD))
    auctions = bids(beam, by, events) | beam.Map(by.auction_of) | sliding
    counts = (
        auctions | beam.combiners.Count.PerElement() | "By count" >> beam.Map(lambda counted: (counted[1], counted[0]))
    )
    hottest = counts | beam.CombineGlobally(highest_of(beam)).without_defaults()

    def rows(found, window=beam.DoFn.WindowParam):
        count, auctions = found
        return [(window.start.micros, auction, count) for auction in auctions]

    return hottest | beam.FlatMap(rows)


def highest_bid(beam, by, events):
    priced = bids(beam, by, events) | "By price" >> by.by_price()
    fixed = priced | beam.WindowInto(beam.window.FixedWindows(WINDOW))
    highest = fixed | beam.CombineGlobally(highest_of(beam)).without_defaults()

    def rows(found, window=beam.DoFn.WindowParam):
        price, bids = found
        return [(window.start.micros, bid["auction"], bid["bidder"], price, bid["time"]) for bid in bids]

    return highest | beam.FlatMap(rows)


def user_sessions(beam, by, events):
    bidders = bids(beam, by, events) | beam.Map(by.bidder_of)
    counts = bidders | beam.WindowInto(beam.window.Sessions(GAP)) | beam.combiners.Count.PerElement()

    def row(counted, window=beam.DoFn.WindowParam):
        return counted[0], window.start.micros, window.end.micros, counted[1]

    return counts | "Row" >> beam.Map(row)


def processing_time(beam, by, events):
    bidders = bids(beam, by, events) | beam.Map(by.bidder_of)
    return bidders | "Windows of the clock" >> by.windows_of_the_clock() | beam.combiners.Count.PerElement()
