"""Fixed windows in batch: a sum for every two minutes (listing 2, figure 4).

Where in event time are results computed? In windows of two minutes. The results still come at the end of the input, as
nothing says earlier that a window is complete.

    python -m examples.streaming102.fixed_windows_batch
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.panes import show
from examples.streaming102.scores import BOUNDED, MINUTE
from headrace.transforms.window import FixedWindows


def build(scores: beam.PCollection[tuple[str, int]]) -> beam.PCollection[object]:
    """The pipeline: what, where."""
    return scores | beam.WindowInto(FixedWindows(2 * MINUTE)) | beam.CombinePerKey(sum)


INPUTS = [BOUNDED]

if __name__ == "__main__":
    show(build, INPUTS)
