"""Processing-time windows by triggers: what each two minutes of the clock brought (listing 9, figure 14).

Where in event time? Nowhere: one window for all of time, whose discarding panes are the "windows", cut by the clock. So
they depend on when scores arrive, not on when they happened: in another order, other results.

    python -m examples.streaming102.processing_time_by_triggers
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import FIRST, MINUTE, SECOND
from headrace.transforms.trigger import AccumulationMode, AtPeriod, Repeatedly
from headrace.transforms.window import GlobalWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when, how."""
    return (
        scores
        | beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AtPeriod(2 * MINUTE)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [FIRST, SECOND]

if __name__ == "__main__":
    show(build, INPUTS)
