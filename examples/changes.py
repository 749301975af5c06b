"""A table that is always right: counts per city of customers who move, by changes that take back what was said before.

It teaches: retractions. A customer's newest address replaces the older one; with accumulating and retracting panes the
grouping by customer takes the old one back, the grouping by city behind it takes one away there and adds one here.
`ToChangelog` makes insertions and deletions of results and retractions, and the table applies them.

    python -m examples.changes
"""

from __future__ import annotations

from collections.abc import Iterable

import headrace as beam
from headrace.testing.test_stream import TestStream
from headrace.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from headrace.transforms.window import GlobalWindows, TimestampedValue

MOVES = [("anna", "Oslo", 1), ("boris", "Rome", 2), ("clara", "Oslo", 3), ("anna", "Rome", 4), ("boris", "Bern", 5)]
"""(customer, city, seconds)."""


class Newest(beam.CombineFn):
    """The city with the greatest time."""

    def create_accumulator(self) -> tuple[int, str]:
        """Nothing yet."""
        return -1, ""

    def add_input(self, newest: tuple[int, str], move: tuple[int, str]) -> tuple[int, str]:
        """One more."""
        return max(newest, move)

    def merge_accumulators(self, parts: Iterable[tuple[int, str]]) -> tuple[int, str]:
        """Of several."""
        return max(parts)

    def extract_output(self, newest: tuple[int, str]) -> str:
        """The city."""
        return newest[1]


def changes(moves: beam.PCollection[tuple[str, tuple[int, str]]]) -> beam.PCollection[beam.Change]:
    """What is to be done to a table of customers by city."""
    return (
        moves
        | beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
        )
        | "Address" >> beam.CombinePerKey(Newest())
        | "City" >> beam.MapTuple(lambda customer, city: (city, 1))
        | "Customers" >> beam.CombinePerKey(sum)
        | beam.ToChangelog()
    )


def applied(changes: Iterable[beam.Change]) -> dict[str, int]:
    """The table after changes, as a database would have it.

    >>> applied([("+", ("Oslo", 2)), ("-", ("Oslo", 2)), ("+", ("Oslo", 1))])
    {'Oslo': 1}
    """
    table: dict[str, int] = {}
    for kind, (city, customers) in changes:
        if kind == beam.ChangeKind.INSERT:
            table[city] = customers
        elif table.get(city) == customers:
            del table[city]
    return {city: customers for city, customers in table.items() if customers}


def stream() -> TestStream:
    """Moves, one after the other."""
    made = TestStream().advance_watermark_to(0)
    for customer, city, at in MOVES:
        made = made.add_elements([TimestampedValue((customer, (at, city)), at)])
    return made.advance_watermark_to_infinity()


def show(change: beam.Change) -> None:
    """A line of the log of changes."""
    kind, (city, customers) = change
    print(kind, city, customers)


if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        _ = changes(pipeline | stream()) | beam.Map(show)
