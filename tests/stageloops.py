"""The generated loops of a stage, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace as beam
from headrace.runners.local import LocalRunner
from headrace.sdk.operators.fusion.loop_codegen import Loop, LoopWriter
from headrace.transforms.window import FixedWindows


def loops_of(steps: Sequence[beam.PTransform], values: Sequence[object]) -> list[Loop]:
    """The loops that are written for the steps from `Create(values)` to a grouping by key, the longest first."""
    written: list[Loop] = []
    write = LoopWriter.write

    def keeping(writer: LoopWriter, *arguments: object) -> Loop:
        written.append(write(writer, *arguments))  # type: ignore[arg-type]
        return written[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LoopWriter, "write", keeping)
        with beam.Pipeline(runner=LocalRunner()) as pipeline:
            collection = pipeline | beam.Create(values)
            for number, step in enumerate(steps):
                collection |= f"step {number}" >> step
            _ = collection | beam.GroupByKey()
    return sorted(written, key=lambda loop: -len(loop.lines))


GOLDEN = Path(__file__).parent / "golden" / "generated_loops.md"
_HEAD = """# The loops that are generated for the three commonest stages

`sdk/operators/fusion/loop_codegen.py` writes a stage between two groupings as one Python function. This page shows it
for three stages, as `python -m tests.stageloops` prints them; a test compares. Variables: `v` an element, `t` its
timestamp in microseconds UTC, `r1` the output of step 1, `y1` the class of its last output, `o…` and `so…` the values
and timestamps for a stream. `special` has the classes of outputs with a tag, timestamp or windows of their own.
"""


class _Stamp(beam.DoFn):
    def process(self, element, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):  # type: ignore[no-untyped-def]
        yield element, (timestamp, window)


STAGES: dict[str, tuple[list[beam.PTransform], object]] = {
    "`Map`, `Filter` and a `Map` to pairs": (
        [beam.Map(str.strip), beam.Filter(bool), beam.Map(lambda text: (text[0], text))],
        "a",
    ),
    "`FlatMap` to words and a `Map` to pairs": ([beam.FlatMap(str.split), beam.Map(lambda word: (word, 1))], "a b"),
    "`WindowInto` and a `ParDo` that takes timestamp and window": (
        [beam.WindowInto(FixedWindows(60)), beam.ParDo(_Stamp())],
        "a",
    ),
}
"""What is shown -> steps, and an element that goes through them."""


def shown_loops() -> str:
    """The page with the loops of all stages."""
    parts = [_HEAD]
    for name, (steps, value) in STAGES.items():
        lines = loops_of(steps, [value])[0].lines
        parts.append("\n".join([f"## {name}\n", "```text", *lines, "```", ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    GOLDEN.write_text(shown_loops(), encoding="utf-8")
