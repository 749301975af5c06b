"""The small transforms of `transforms.util`: what is refused, and what parity programs cannot see."""

from __future__ import annotations

import logging

import pytest

import headrace as beam
from headrace.lowlevel import CallSink, StepError
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms import window
from tests.unit.collected import values


def test_with_keys_of_a_constant_takes_no_arguments():
    with pytest.raises(TypeError, match="WithKeys of the constant key 'k' takes no further arguments"):
        values(lambda p: p | beam.Create([1]) | beam.WithKeys("k", 3))


def test_keys_of_what_is_no_pair_names_the_element():
    with pytest.raises(StepError, match=r"Keys.*3"):
        values(lambda p: p | beam.Create([3]) | beam.Keys())


class TestPartition:
    def one(self, fn, n=2):
        return values(lambda p: (p | beam.Create([1]) | beam.Partition(fn, n))[0])

    def test_what_is_no_number_of_a_part(self):
        with pytest.raises(StepError, match="must give an integer, got True of type bool"):
            self.one(lambda number, parts: True)
        with pytest.raises(StepError, match=r"must give an integer, got '0' of type str"):
            self.one(lambda number, parts: "0")
        with pytest.raises(StepError, match=r"out-of-bounds part 2, which is not in \[0, 2\)"):
            self.one(lambda number, parts: 2)
        with pytest.raises(StepError, match="out-of-bounds part -1"):
            self.one(lambda number, parts: -1)

    def test_what_is_no_partition(self):
        with pytest.raises(ValueError, match="Partition into 0 parts; give a whole number of at least 1"):
            beam.Partition(lambda number, parts: 0, 0)
        with pytest.raises(TypeError, match="Partition takes a PartitionFn or a function, got 3"):
            beam.Partition(3, 2)
        with pytest.raises(StepError, match="PartitionFn does not define partition_for"):
            self.one(beam.PartitionFn())


class TestRegex:
    def test_a_group_that_is_not_there_is_refused_when_the_pipeline_is_built(self):
        lines = beam.Pipeline("LocalRunner") | beam.Create(["a"])
        with pytest.raises(IndexError, match=r"'\(a\)' has no group 2; it has groups 0 to 1"):
            lines | beam.Regex.matches("(a)", 2)
        with pytest.raises(IndexError, match=r"has no group 'b'; it has groups 0 to 1 \('a'\)"):
            lines | beam.Regex.find_kv("(?P<a>a)", "a", "b")
        with pytest.raises(IndexError, match="has no group 1"):
            lines | beam.Regex.find_all("a", beam.Regex.ALL)

    def test_a_pattern_without_groups_has_its_match(self):
        assert values(lambda p: p | beam.Create(["ab", "b"]) | beam.Regex.all_matches("a")) == [["a"]]


class TestLogElements:
    def lines(self, caplog, **options):
        def build(p):
            stamped = p | beam.Create([window.TimestampedValue("a", 61.5)]) | beam.WindowInto(window.FixedWindows(60))
            return stamped | beam.LogElements(level=logging.WARNING, **options)

        with caplog.at_level(logging.INFO):
            assert values(build) == ["a"]
        return [record.message for record in caplog.records if "log_elements" in record.name]

    def test_writes_what_is_asked_for(self, caplog):
        assert self.lines(caplog) == ["a"]

    def test_times_beyond_the_calendar(self, capsys):
        """Elements of `Create` and the global window are at the ends of time."""
        assert values(lambda p: p | beam.Create([1]) | beam.LogElements(with_timestamp=True, with_window=True)) == [1]
        assert capsys.readouterr().out == (
            "1, timestamp='the beginning of time', window(start=the beginning of time, end=the end of time)\n"
        )
        far = window.TimestampedValue(1, 10**12)
        assert values(lambda p: p | beam.Create([far]) | beam.LogElements(with_timestamp=True)) == [1]
        assert capsys.readouterr().out == "1, timestamp='1000000000000 seconds since 1970'\n"

    def test_times_and_panes(self, caplog):
        (line,) = self.lines(caplog, prefix="> ", with_timestamp=True, with_window=True, with_pane_info=True)
        assert line.startswith(
            "> a, timestamp='1970-01-01T00:01:01.500000Z', "
            "window(start=1970-01-01T00:01:00Z, end=1970-01-01T00:02:00Z), pane_info=PaneInfo("
        )

    def test_epoch_seconds(self, caplog):
        assert self.lines(caplog, with_timestamp=True, with_window=True, use_epoch_time=True) == [
            "a, timestamp=61, window(start=60, end=120)"
        ]

    def test_no_window_is_looked_at_where_none_is_written(self):
        def build(p):
            windowed = p | beam.Create([1]) | beam.WindowInto(window.SlidingWindows(10, 5))
            return windowed | beam.LogElements(level=logging.DEBUG) | beam.Map(lambda x, w=beam.DoFn.WindowParam: x)

        assert values(build) == [1, 1]


def test_tee_refuses_what_is_no_consumer():
    with pytest.raises(TypeError, match="Tee takes transforms and functions of a collection, got 3"):
        beam.Tee(3)


class TestWaitOn:
    def test_elements_wait_for_the_end_of_the_others_window(self):
        stream = Stream().add_elements([window.TimestampedValue("a", 1)]).advance_watermark_to(5)
        stream = stream.advance_watermark_to(12).add_elements([window.TimestampedValue("b", 13)])
        order: list[object] = []
        with beam.Pipeline("LocalRunner") as pipeline:
            came = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(window.FixedWindows(10))
            waited = came | beam.WaitOn(came | beam.Map(str.upper)) | "waited" >> beam.Map(lambda value: (value, True))
            direct = came | "direct" >> beam.Map(lambda value: (value, False))
            sink = CallSink(lambda epoch, rows: order.extend((epoch, *value) for value, _ in rows))
            (waited, direct) | beam.Flatten() | beam.io.Write(sink)
        epochs = {(value, waits): epoch for epoch, value, waits in order}
        assert len(order) == 4
        assert epochs["a", True] > epochs["a", False]
        assert epochs["b", True] > epochs["b", False]
        assert epochs["a", True] <= epochs["b", False]

    def test_takes_collections(self):
        with pytest.raises(TypeError, match="WaitOn takes collections, got 3"):
            beam.WaitOn(3)


def test_with_keys_takes_values_beside_side_inputs():
    def build(p):
        side = beam.pvalue.AsSingleton(p | "Side" >> beam.Create([100]))
        return p | beam.Create([1, 2]) | beam.WithKeys(lambda n, base, plus: n + base + plus, side, plus=5)

    assert sorted(values(build)) == [(106, 1), (107, 2)]
