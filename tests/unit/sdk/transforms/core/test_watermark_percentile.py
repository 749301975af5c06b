"""`with_watermark_percentile` in pipelines: windows end sooner, for the grouping that asked for it alone."""

from __future__ import annotations

import pytest

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.runners.local import LocalRunner
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.transforms import window

RECORDS = 200
STRAGGLERS = {50: 20, 150: 100}
"""Number of a record -> its time, where that is not the number."""


def second(line):
    return STRAGGLERS.get(int(line), int(line))


@pytest.mark.parametrize("grouping", [beam.CombinePerKey(sum), beam.GroupByKey()], ids=["combine", "group"])
def test_windows_end_when_that_share_of_records_has_come(tmp_path, grouping):
    (tmp_path / "numbers").write_text("".join(f"{number}\n" for number in range(RECORDS)))
    came = {"strict": {}, "fast": {}}

    def collect(name):
        return CallSink(lambda epoch, rows: came[name].update({value: epoch for value, _ in rows}))

    def of_window(pair, window=beam.DoFn.WindowParam):
        values = [pair[1]] if isinstance(pair[1], int) else pair[1]
        return int(float(window.start)), sum(values)

    pipeline = beam.Pipeline(LocalRunner(), argv=["--max_records_per_epoch=10"])
    numbers = (
        pipeline
        | beam.io.ReadFromText(str(tmp_path / "numbers"), timestamp=second, max_delay=100)
        | beam.Map(lambda line: ("all", 1))
        | beam.WindowInto(window.FixedWindows(10))
    )
    fast = grouping.with_watermark_percentile(95)
    (
        numbers
        | "Strict" >> grouping
        | "Of strict" >> beam.Map(of_window)
        | "To strict" >> beam.io.Write(collect("strict"))
    )
    numbers | "Fast" >> fast | "Of fast" >> beam.Map(of_window) | "To fast" >> beam.io.Write(collect("fast"))
    pipeline.run()
    counts = dict.fromkeys(range(0, RECORDS, 10), 10)
    strict = {start: n for start, n in came["strict"]}
    assert strict == counts | {start: counts[start] + change for start, change in CHANGES.items()}
    fast = {start: n for start, n in came["fast"]}
    # Stragglers are late for the grouping that asked, and for it alone.
    assert fast == counts | {start: counts[start] + min(change, 0) for start, change in CHANGES.items()}
    waits = [came["strict"][start, strict[start]] - came["fast"][start, fast[start]] for start in range(0, 90, 10)]
    assert min(waits) >= 8, "a window that ends at once needs none of the ten epochs that the strict one waits"


CHANGES = {20: 1, 50: -1, 100: 1, 150: -1}


def test_the_option_reaches_the_computation_and_can_be_taken_back():
    pipeline = beam.Pipeline(LocalRunner())
    pairs = pipeline | beam.Create([("a", 1)])
    grouping = beam.CombinePerKey(sum).with_watermark_percentile(99)
    pairs | "Fast" >> grouping | "One" >> beam.Map(print)
    pairs | "Strict" >> grouping.with_watermark_percentile(None) | "Two" >> beam.Map(print)
    keyed = compile_pipeline(pipeline).keyed
    assert {name: place.watermark_percentile for name, place in keyed.items()} == {"Fast": 99, "Strict": None}


@pytest.mark.parametrize("percentile", [0, 100, 250, -5])
def test_percentiles_that_mean_nothing_are_refused(percentile):
    with pytest.raises(ValueError, match="CombinePerKey: a watermark percentile is between 0 and 100, got"):
        beam.CombinePerKey(sum).with_watermark_percentile(percentile)
