"""A streaming program of Beam's SDK with state, timers and side inputs: `python -m tests.spark.beam_lives OUT …`.

It sums numbers by key and minute, and compares each sum with that of all keys. The sums go to text files beside OUT.
"""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows

from headrace.io import GenerateSequence, WriteToText
from headrace.runners.beam import HeadraceRunner, Native

NUMBERS = 3000
SECONDS = 60


class Sums(beam.DoFn):
    """State of three kinds, and a timer at the end of the window that puts out what they have; a side input scales."""

    TOTAL = userstate.CombiningValueStateSpec("total", sum)
    GREATEST = userstate.ReadModifyWriteStateSpec("greatest", VarIntCoder())
    SEEN = userstate.BagStateSpec("seen", VarIntCoder())
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        scale,
        total=beam.DoFn.StateParam(TOTAL),
        greatest=beam.DoFn.StateParam(GREATEST),
        seen=beam.DoFn.StateParam(SEEN),
        end=beam.DoFn.TimerParam(END),
        where=beam.DoFn.WindowParam,
    ):
        total.add(pair[1] * scale)
        greatest.write(max(greatest.read() or 0, pair[1]))
        seen.add(pair[1])
        end.set(where.end)

    @userstate.on_timer(END)
    def ended(
        self,
        key=beam.DoFn.KeyParam,
        where=beam.DoFn.WindowParam,
        total=beam.DoFn.StateParam(TOTAL),
        greatest=beam.DoFn.StateParam(GREATEST),
        seen=beam.DoFn.StateParam(SEEN),
    ):
        yield key, int(where.start), total.read(), greatest.read(), len(set(seen.read()))


def line(sums, whole):
    (name, place), *rest = sums
    return " ".join(map(str, (name, place, *rest, whole)))


def expected() -> list[str]:
    """The lines of an undisturbed run, by plain arithmetic."""
    windows: dict[int, dict[tuple[str, int], list[int]]] = {}
    for number in range(NUMBERS):
        parts = windows.setdefault(number // SECONDS * SECONDS, {})
        parts.setdefault(("key", number % 7), []).append(number)
    return sorted(
        line((key, start, 3 * sum(part), max(part), len(part)), sum(map(sum, parts.values())))
        for start, parts in windows.items()
        for key, part in parts.items()
    )


def main(out: str, *options: str) -> None:
    """Run the program, or go on with it."""
    with beam.Pipeline(runner=HeadraceRunner(), options=PipelineOptions(list(options))) as pipeline:
        scale = beam.pvalue.AsSingleton(pipeline | "Scale" >> beam.Create([3]))
        numbers = pipeline | Native(GenerateSequence(0, NUMBERS, timestamp=float, max_delay=5))
        windows = numbers | beam.WindowInto(FixedWindows(SECONDS))
        whole = windows | beam.CombineGlobally(sum).without_defaults()
        sums = windows | beam.Map(lambda number: (("key", number % 7), number)) | beam.ParDo(Sums(), scale)
        _ = sums | "Line" >> beam.Map(line, beam.pvalue.AsSingleton(whole)) | Native(WriteToText(out, num_shards=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
