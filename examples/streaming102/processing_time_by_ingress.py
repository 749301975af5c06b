"""Processing-time windows by ingress time: each score happens when it arrives (listing 10, figure 15).

The source gives every score the time of its arrival, so windows of event time are windows of the clock. The watermark
can be perfect, as nothing older can still arrive: each window has one pane, at its end. The results are those of
`processing_time_by_triggers.py`.

    python -m examples.streaming102.processing_time_by_ingress
"""

from __future__ import annotations

import headrace as beam
from examples.streaming102.classic_batch import ParseFn
from examples.streaming102.panes import show
from examples.streaming102.scores import FIRST, MINUTE, SECOND, of_ingress, of_lines
from headrace.transforms.window import FixedWindows


def build(raw: beam.PCollection[str]) -> beam.PCollection[object]:
    """The pipeline: what, where."""
    return raw | beam.ParDo(ParseFn()) | beam.WindowInto(FixedWindows(2 * MINUTE)) | beam.CombinePerKey(sum)


INPUTS = [of_lines(of_ingress(given)) for given in (FIRST, SECOND)]

if __name__ == "__main__":
    show(build, INPUTS)
