"""q9, q4 and q6: what auctions bring when they close."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from benchmarks.nexmark.events import AUCTION
from benchmarks.nexmark.generator import SECOND
from benchmarks.nexmark.settings import LAST, PATIENCE, PERIOD, WINDOW


def winner_of(beam):
    """A `DoFn` over pairs of an auction's number and an event: a timer closes it; a bid before its auction waits."""
    userstate, coder = beam.transforms.userstate, beam.coders.PickleCoder()
    watermark = beam.transforms.timeutil.TimeDomain.WATERMARK
    timestamp = beam.utils.timestamp.Timestamp

    class Winner(beam.DoFn):
        OPEN = userstate.ReadModifyWriteStateSpec("open", coder)
        BEST = userstate.ReadModifyWriteStateSpec("best", coder)
        EARLY = userstate.BagStateSpec("early", coder)
        CLOSE = userstate.TimerSpec("close", watermark)
        FORGET = userstate.TimerSpec("forget", watermark)

        def process(
            self,
            element,
            open_=beam.DoFn.StateParam(OPEN),
            best=beam.DoFn.StateParam(BEST),
            early=beam.DoFn.StateParam(EARLY),
            close=beam.DoFn.TimerParam(CLOSE),
            forget=beam.DoFn.TimerParam(FORGET),
        ):
            kind, event = element[1]
            if kind == AUCTION:
                close.set(timestamp(micros=event[3]))
                begin(event, open_, best, early)
            elif not bid(event, open_, best, early):
                forget.set(timestamp(micros=event[0] + PATIENCE * SECOND))

        @userstate.on_timer(CLOSE)
        def close(self, key=beam.DoFn.KeyParam, open_=beam.DoFn.StateParam(OPEN), best=beam.DoFn.StateParam(BEST)):
            yield from end(key, open_, best)

        @userstate.on_timer(FORGET)
        def forget(self, early=beam.DoFn.StateParam(EARLY)):
            early.clear()

    return Winner()


def begin(auction, open_, best, early):
    """The auction has come: its bids that came before it count."""
    open_.write(auction)
    found = None
    for event in early.read():
        found = better(auction, found, event)
    if found is not None:
        best.write(found)
    early.clear()


def bid(event, open_, best, early):
    """A bid has come; False if its auction has not, so that it waits."""
    auction = open_.read()
    if auction is None:
        early.add(event)
        return False
    held = best.read()
    found = better(auction, held, event)
    if found is not held:
        best.write(found)
    return True


def end(key, open_, best):
    """The auction closes: who has won it, if anybody."""
    auction, found = open_.read(), best.read()
    open_.clear()
    best.clear()
    if found is not None:
        _, _, seller, expires, category = auction
        time, bidder, price = found
        yield key, seller, category, expires, bidder, price, time


def better(auction, best, bid):
    """Of two bids the one that wins, if it is valid at all; `best` is, or is None."""
    start, reserve, _, expires, _ = auction
    time, _, price = bid
    if not start <= time < expires or price < reserve:
        return best
    if best is None or price > best[2] or (price == best[2] and time < best[0]):
        return bid
    return best


def keyed(event):
    """Auctions and bids by auction."""
    if event["kind"] == AUCTION:
        auction = event["time"], event["reserve"], event["seller"], event["expires"], event["category"]
        return event["id"], (AUCTION, auction)
    return event["auction"], (event["kind"], (event["time"], event["bidder"], event["price"]))


def winning_bids(beam, by, events):
    related = events | "Auctions and bids" >> beam.Filter(by.is_auction_or_bid)
    return related | "By auction" >> beam.Map(keyed) | "Winner" >> beam.ParDo(winner_of(beam))


def price_by_category(beam, by, events):
    sliding = beam.WindowInto(beam.window.SlidingWindows(WINDOW, PERIOD))
    prices = winning_bids(beam, by, events) | "By category" >> beam.Map(lambda won: (won[2], won[5])) | sliding

    def row(averaged, window=beam.DoFn.WindowParam):
        return averaged[0], window.start.micros, averaged[1]

    return prices | beam.combiners.Mean.PerKey() | "Row" >> beam.Map(row)


def price_by_seller(beam, by, events):
    """Pairs of when an auction closed and its price, the latest of them."""

    class Latest(beam.CombineFn):
        def create_accumulator(self):
            return []

        def add_input(self, accumulator, element):
            accumulator.append(element)
            return sorted(accumulator)[-LAST:] if len(accumulator) > LAST else accumulator

        def merge_accumulators(self, accumulators):
            return sorted(element for accumulator in accumulators for element in accumulator)[-LAST:]

        def extract_output(self, accumulator):
            return sum(price for _, _, price in accumulator) / len(accumulator)

    closed = winning_bids(beam, by, events) | "By seller" >> beam.Map(lambda won: (won[1], (won[3], won[0], won[5])))
    return closed | "All time" >> beam.WindowInto(beam.window.GlobalWindows()) | beam.CombinePerKey(Latest())
