"""Early and late firings put together from simpler triggers (listing 4, figure 7).

A sequence: at each full minute until the watermark passes the end of the window, then for each score that comes late.
It is what `AfterWatermark(early=…, late=…)` says in short, and gives the same panes as `early_and_late.py`.

    python -m examples.streaming102.early_and_late_by_hand
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import DAY, HEURISTIC, MINUTE, PERFECT
from headrace.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterEach,
    AfterWatermark,
    AtPeriod,
    OrFinally,
    Repeatedly,
)
from headrace.transforms.window import FixedWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when, how."""
    return (
        scores
        | beam.WindowInto(
            FixedWindows(2 * MINUTE),
            trigger=AfterEach(
                OrFinally(Repeatedly(AtPeriod(MINUTE)), AfterWatermark()),
                Repeatedly(AfterCount(1)),
            ),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=DAY,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [PERFECT, HEURISTIC]

if __name__ == "__main__":
    show(build, INPUTS)
