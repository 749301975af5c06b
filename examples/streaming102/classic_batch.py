"""Classic batch: the sum of everything (listing 1, figure 2).

What is computed? The points of each team, of scores that are read from a log and parsed. Nothing says where in event
time or when, so there is one result for all of time, at the end of the input.

    python -m examples.streaming102.classic_batch
"""

from __future__ import annotations

from collections.abc import Iterator

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import BOUNDED, of_lines


class ParseFn(beam.DoFn):
    """Makes a pair of team and points of a line."""

    def process(self, element: str) -> Iterator[tuple[str, int]]:
        """The one pair that is in the line."""
        team, points = element.split()
        yield team, int(points)


def build(raw: beam.PCollection[str]) -> beam.PCollection[object]:
    """The pipeline: what."""
    return raw | beam.ParDo(ParseFn()) | beam.CombinePerKey(sum)


INPUTS = [of_lines(BOUNDED)]

if __name__ == "__main__":
    show(build, INPUTS)
