"""Prints the input of the examples here: which score arrives when, and where the two watermarks are then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.streaming102.scores import SCORES, SECOND_ORDER, Score, clock, heuristic, perfect


def table(scores: Sequence[Score]) -> Iterator[str]:
    """A line for each arrival.

    >>> for line in table([Score(5, 43_200, 43_210), Score(9, 43_205, 43_220, foreseen=False)]):
    ...     print(line)
    arrives   points  happened  perfect watermark  heuristic watermark
    12:00:10       5  12:00:00  12:00:05           12:00:10
    12:00:20       9  12:00:05  12:00:20           12:00:20
    """
    yield "arrives   points  happened  perfect watermark  heuristic watermark"
    in_order = sorted(scores, key=lambda score: score.arrives)
    for place, score in enumerate(in_order, 1):
        now, to_come = score.arrives, in_order[place:]
        watermarks = f"{clock(perfect(now, to_come)):17}  {clock(heuristic(now, to_come))}"
        yield f"{clock(now)}  {score.points:6}  {clock(score.happened)}  {watermarks}"


if __name__ == "__main__":
    tables = {"first order of arrival": SCORES, "second order of arrival": SECOND_ORDER}
    print(*("\n".join([name, *table(scores)]) for name, scores in tables.items()), sep="\n\n")
