"""Sessions: windows that the data make, and that merge (listing 11, figure 17).

Where in event time? In stretches of activity with less than a minute between scores. Scores that come out of order make
sessions that turn out to be one: then its pane takes back those of all the sessions that it replaces.

    python -m examples.streaming102.sessions
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import DAY, HEURISTIC, MINUTE
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, AtPeriod
from headrace.transforms.window import Sessions


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when, how."""
    return (
        scores
        | beam.WindowInto(
            Sessions(MINUTE),
            trigger=AfterWatermark(early=AtPeriod(MINUTE), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING_AND_RETRACTING,
            allowed_lateness=DAY,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [HEURISTIC]

if __name__ == "__main__":
    show(build, INPUTS)
