"""Discarding panes: each holds only what came since the one before (listing 7, figure 9, table 1).

How do the panes of a window relate? They do not overlap: their sum is the sum of the window, and the last alone says
nothing. For consumers that add up what they get.

    python -m examples.streaming102.discarding
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import DAY, HEURISTIC, MINUTE
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, AtPeriod
from headrace.transforms.window import FixedWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when, how."""
    return (
        scores
        | beam.WindowInto(
            FixedWindows(2 * MINUTE),
            trigger=AfterWatermark(early=AtPeriod(MINUTE), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=DAY,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [HEURISTIC]

if __name__ == "__main__":
    show(build, INPUTS)
