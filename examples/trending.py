"""The queries that are searched for most, every five minutes of the last fifteen.

It teaches: sliding windows, a grouping behind a grouping (counts, then the largest of them), and how a hot key is
spread (`with_fanout`): the top of all queries is one key, which no cluster could otherwise share.

    python -m examples.trending
"""

from __future__ import annotations

from random import Random

import headrace as beam
from headrace.transforms.window import IntervalWindow, SlidingWindows, TimestampedValue

MINUTE, HOUR = 60, 60 * 60
QUERIES = ("weather", "news", "maps", "recipes", "trains", "cinema", "translate", "football")


def searches(seed: int = 1, count: int = 3_000) -> list[tuple[str, int]]:
    """(query, seconds): an hour in which football becomes more and more of a topic."""
    random = Random(seed)
    found = []
    for number in range(count):
        at = number * HOUR // count
        weights = [8, 7, 6, 5, 4, 3, 2, 16 * at / HOUR]
        found.append((random.choices(QUERIES, weights)[0], at))
    return found


def trending(queries: beam.PCollection[str], most: int = 3) -> beam.PCollection[list[tuple[int, str]]]:
    """The most frequent queries of each window, the first one first."""
    return (
        queries
        | beam.WindowInto(SlidingWindows(15 * MINUTE, 5 * MINUTE))
        | "Count" >> beam.combiners.Count.PerElement()
        | "Count first" >> beam.KvSwap()
        | "Top" >> beam.CombineGlobally(beam.combiners.TopCombineFn(most)).without_defaults().with_fanout(4)
    )


def show(top: list[tuple[int, str]], window: IntervalWindow = beam.DoFn.WindowParam) -> None:
    """A line for a window."""
    start, end = (instant.micros // 60_000_000 for instant in (window.start, window.end))
    print(f"minutes {start:3} to {end:3}: " + ", ".join(f"{query} {count}" for count, query in top))


if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        timed = pipeline | beam.Create(searches()) | beam.MapTuple(lambda query, at: TimestampedValue(query, at))
        _ = trending(timed) | beam.Map(show)
