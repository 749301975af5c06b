"""q3 and q8: persons with their auctions."""

# Two modules with the same names mean nothing to a type checker.
# mypy: ignore-errors

from __future__ import annotations

from benchmarks.nexmark.events import PERSON
from benchmarks.nexmark.settings import WINDOW


def local_items(beam, by, events):
    """Whichever comes first waits in state for the other; a seller stays, for auctions to come."""
    userstate = beam.transforms.userstate

    class Sellers(beam.DoFn):
        SELLER = userstate.ReadModifyWriteStateSpec("seller", beam.coders.PickleCoder())
        WAITING = userstate.BagStateSpec("waiting", beam.coders.VarIntCoder())

        def process(self, element, seller=beam.DoFn.StateParam(SELLER), waiting=beam.DoFn.StateParam(WAITING)):
            event = element[1]
            if event["kind"] == PERSON:
                person = event["name"], event["city"], event["state"]
                seller.write(person)
                for auction in waiting.read():
                    yield *person, auction
                waiting.clear()
            elif (person := seller.read()) is not None:
                yield *person, event["id"]
            else:
                waiting.add(event["id"])

    people = events | "Local" >> beam.Filter(by.is_local)
    auctions = events | "Category" >> beam.Filter(by.is_in_category)
    by_id = people | "By id" >> beam.Map(lambda person: (person["id"], person))
    by_seller = auctions | "By seller" >> beam.Map(lambda auction: (auction["seller"], auction))
    return (by_id, by_seller) | beam.Flatten() | beam.ParDo(Sellers())


def new_users(beam, by, events):
    people = events | "People" >> beam.Filter(by.is_person)
    auctions = events | "Auctions" >> beam.Filter(by.is_auction)
    sides = {
        "person": people
        | "By id" >> beam.Map(lambda person: (person["id"], person["name"]))
        | "Windows of people" >> beam.WindowInto(beam.window.FixedWindows(WINDOW)),
        "auctions": auctions
        | "By seller" >> beam.Map(lambda auction: (auction["seller"], (auction["id"], auction["reserve"])))
        | "Windows of auctions" >> beam.WindowInto(beam.window.FixedWindows(WINDOW)),
    }

    def rows(joined, window=beam.DoFn.WindowParam):
        person, found = joined
        auctions = list(found["auctions"])
        return [(person, name, *auction, window.start.micros) for name in found["person"] for auction in auctions]

    return sides | beam.CoGroupByKey() | beam.FlatMap(rows)
