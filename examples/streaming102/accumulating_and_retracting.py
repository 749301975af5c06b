"""Accumulating and retracting panes: each takes back the one before (listing 8, figure 10, table 1).

How do the panes of a window relate? Each holds all scores so far, and comes with a retraction of the pane that it
replaces. So both the last pane and the sum of all say what is right, also for consumers that group anew.

    python -m examples.streaming102.accumulating_and_retracting
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
            accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
            allowed_lateness=DAY,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [HEURISTIC]

if __name__ == "__main__":
    show(build, INPUTS)
