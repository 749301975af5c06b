"""Early and late firings: what is known so far every minute, and corrections (listing 5, figures 7 and 13).

Early panes, at each full minute of processing time, are for watermarks that are too slow; late ones, for each score
that comes late, for those that are too fast. How do the panes of a window relate? They accumulate: each holds all
scores so far. The last of a window is the same whatever the watermark and the order of arrival.

    python -m examples.streaming102.early_and_late
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import DAY, HEURISTIC, MINUTE, PERFECT, SECOND
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
            allowed_lateness=DAY,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [PERFECT, HEURISTIC, SECOND]

if __name__ == "__main__":
    show(build, INPUTS)
