"""Allowed lateness: how long a window is kept for what comes late (listing 6, figure 8).

When is a window closed, and its state freed? When the watermark is a minute past its end. The 6, which only this
example has, is late by less; the 9 by more, so it is dropped and counted.

    python -m examples.streaming102.allowed_lateness
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import MINUTE, WITH_SIX
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, AtPeriod
from headrace.transforms.window import FixedWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when, how."""
    return (
        scores
        | beam.WindowInto(
            FixedWindows(2 * MINUTE),
            trigger=AfterWatermark(early=AtPeriod(MINUTE), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=MINUTE,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [WITH_SIX]

if __name__ == "__main__":
    show(build, INPUTS)
