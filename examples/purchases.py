"""Sessions of clicks, joined with what was bought in them.

It teaches: two streams in the same session windows, `CoGroupByKey`, and that a session joins what belongs together even
where clicks and purchases come out of order or from sources of different speed.

    python -m examples.purchases
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypedDict

import headrace as beam
from headrace.transforms.window import IntervalWindow, Sessions, TimestampedValue

GAP = 10 * 60
"""Seconds without a click or purchase after which a visit is over."""
CLICKS = [
    ("anna", "home", 0),
    ("anna", "shoes", 40),
    ("boris", "home", 60),
    ("anna", "cart", 500),
    ("boris", "hats", 300),
    ("anna", "home", 4_000),
    ("anna", "hats", 4_100),
]
"""(user, page, seconds)."""
PURCHASES = [("anna", 80, 520), ("clara", 15, 700)]
"""(user, price, seconds)."""


class Visit(NamedTuple):
    """What somebody did between two breaks."""

    user: str
    start: int
    end: int
    """Seconds; the end without the gap."""
    pages: tuple[str, ...]
    spent: int


class Sides(TypedDict):
    """What a visit is made of."""

    pages: Iterable[str]
    prices: Iterable[int]


def visits(
    clicks: beam.PCollection[tuple[str, str]], bought: beam.PCollection[tuple[str, int]]
) -> beam.PCollection[Visit]:
    """The visits of all users, each when its gap has passed."""
    sides = {
        "pages": clicks | "Visits of clicks" >> beam.WindowInto(Sessions(GAP)),
        "prices": bought | "Visits of purchases" >> beam.WindowInto(Sessions(GAP)),
    }
    return sides | beam.CoGroupByKey() | "Visit" >> beam.Map(_visit)


def _visit(joined: tuple[str, Sides], window: IntervalWindow = beam.DoFn.WindowParam) -> Visit:
    user, sides = joined
    start, end = (instant.micros // 1_000_000 for instant in (window.start, window.end))
    return Visit(user, start, end - GAP, tuple(sorted(sides["pages"])), sum(sides["prices"]))


def timed(rows: Iterable[tuple[str, object, int]]) -> Iterator[TimestampedValue]:
    """(user, what) at its time."""
    return (TimestampedValue((user, what), at) for user, what, at in rows)


def build(pipeline: beam.Pipeline) -> beam.PCollection[Visit]:
    """The pipeline over the data above."""
    clicks = pipeline | "Clicks" >> beam.Create(CLICKS) | "At" >> beam.FlatMap(lambda row: timed([row]))
    bought = pipeline | "Purchases" >> beam.Create(PURCHASES) | "Bought at" >> beam.FlatMap(lambda row: timed([row]))
    return visits(clicks, bought)


if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        _ = build(pipeline) | beam.Map(print)
