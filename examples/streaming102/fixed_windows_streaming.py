"""Fixed windows in streaming: each result when the watermark passes the end of its window (listings 2 and 3, figure 6).

When are results materialized? When the watermark says that a window is complete. That is the default, here spelled out.
A perfect watermark is *too slow*: it waits for the 9, and all other windows wait with it. A heuristic one may be *too
fast*: this one does not know of the 9, which comes when its window is closed, and is dropped.

    python -m examples.streaming102.fixed_windows_streaming
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import HEURISTIC, MINUTE, PERFECT
from headrace.transforms.trigger import AccumulationMode, AfterWatermark
from headrace.transforms.window import FixedWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where, when."""
    return (
        scores
        | beam.WindowInto(
            FixedWindows(2 * MINUTE),
            trigger=AfterWatermark(),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        | beam.CombinePerKey(sum)
    )


INPUTS = [PERFECT, HEURISTIC]

if __name__ == "__main__":
    show(build, INPUTS)
