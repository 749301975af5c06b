"""Dead letters: what parity programs cannot see, as Beam refuses it, or takes time for it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

import headrace as beam
from headrace.lowlevel import StepError, TopologyError
from headrace.metrics import Metrics, MetricsFilter
from headrace.testing.test_stream import TestStream as Stream
from headrace.transforms.error_handling import CollectingErrorHandler, ErrorHandler
from headrace.transforms.userstate import BagStateSpec
from tests.unit.collected import collect, values


def both(step, elements=(2, 0)):
    """Good and bad elements of a step, the latter with class and repr of the error."""

    def build(p):
        good, bad = p | beam.Create(elements) | step
        short = bad | beam.Map(lambda pair: ("bad", pair[0], pair[1][0].__name__, pair[1][1]))
        return (good | beam.Map(lambda value: ("good", value)), short) | beam.Flatten()

    return sorted(values(build), key=repr)


def test_arguments_and_parameters_together():
    def scaled(number, factor, when=beam.DoFn.TimestampParam, plus=0):
        return factor / number + plus + when.micros * 0

    assert both(beam.Map(scaled, 12, plus=1).with_exception_handling()) == [
        ("bad", 0, "ZeroDivisionError", "ZeroDivisionError('division by zero')"),
        ("good", 7.0),
    ]


def test_the_element_need_not_be_the_first_parameter():
    class ByName(beam.DoFn):
        def process(self, key=beam.DoFn.KeyParam, element=beam.DoFn.ElementParam):
            yield 12 / element[1]

    bad, good = both(beam.ParDo(ByName()).with_exception_handling(), [("k", 2), ("k", 0)])
    assert (bad[1], good[1]) == (("k", 0), 6.0)


def test_a_class_that_cannot_be_sent_on_is_told_by_its_base():
    class Odd(ValueError):
        pass

    def refuse(number):
        raise Odd(number)

    assert both(beam.Map(refuse).with_exception_handling(), [1]) == [("bad", 1, "ValueError", "Odd(1)")]


def test_an_element_that_takes_too_long():
    def slow(number):
        time.sleep(number)
        return number

    step = beam.Map(slow).with_exception_handling(timeout=0.2)
    assert both(step, [0, 30, 0]) == [
        ("bad", 30, "TimeoutError", "TimeoutError('no result within 0.2 s')"),
        ("good", 0),
        ("good", 0),
    ]


LATE = threading.Event()


def counted(number):
    counter = Metrics.counter("test", "called")
    counter.inc()
    if number == 0:
        raise ValueError
    if number == 30:
        LATE.wait(30)
        counter.inc(100)
        LATE.clear()
    return number


def let_the_abandoned_call_report(number):
    LATE.set()
    while LATE.is_set():
        time.sleep(0.01)


def test_metrics_of_calls_with_a_time_limit_count_until_a_call_is_abandoned():
    with beam.Pipeline("LocalRunner") as pipeline:
        step = "step" >> beam.Map(counted).with_exception_handling(timeout=0.5)
        good, _ = pipeline | beam.Create([0, 30, 1]) | step
        _ = good | beam.Map(let_the_abandoned_call_report)
    [called] = pipeline.result.metrics().query(MetricsFilter().with_name("called"))["counters"]
    assert (called.key.step, called.committed) == ("step/Try", 3)


def test_errors_within_the_time_limit():
    assert [row[0] for row in both(beam.Map(lambda n: 1 / n).with_exception_handling(timeout=20))] == ["bad", "good"]
    with pytest.raises(ValueError, match="a time limit of 0 s lets nothing through"):
        both(beam.Map(lambda n: 1 / n).with_exception_handling(timeout=0))


def test_a_callback_sees_error_and_element_and_may_fail(caplog):
    def callback(error, element):
        logging.getLogger("seen").warning("%r %r", error, element)
        raise KeyError(element)

    step = beam.Map(lambda number: 1 / number).with_exception_handling(on_failure_callback=callback)
    assert len(both(step)) == 2
    messages = [record.message for record in caplog.records]
    assert "ZeroDivisionError('division by zero') 0" in messages
    assert "on_failure_callback failed for 0" in messages


def test_a_result_that_is_no_iterable_of_outputs_still_stops_the_run():
    class Text(beam.DoFn):
        def process(self, element):
            return "text"

    with pytest.raises(StepError, match="no iterable of outputs"):
        both(beam.ParDo(Text()).with_exception_handling())


def test_life_cycle_errors_still_stop_the_run():
    class Broken(beam.DoFn):
        def process(self, element):
            yield element

        def finish_bundle(self):
            raise KeyError("end of bundle")

    with pytest.raises(StepError, match="end of bundle"):
        both(beam.ParDo(Broken()).with_exception_handling())


def test_threshold_message():
    def build(p):
        good, _ = p | beam.Create([1, 0, 0]) | beam.Map(lambda n: 1 / n).with_exception_handling(threshold=0.5)
        return good

    with pytest.raises(StepError, match=r"2 of 3 elements in window .* failed, more than the threshold of 0\.5"):
        collect(build)
    with pytest.raises(ValueError, match="threshold is -1; give a share of the elements"):
        beam.Map(len).with_exception_handling(threshold=-1)


def test_no_subprocess():
    with pytest.raises(ValueError, match=r"Map\(len\): use_subprocess is not supported"):
        beam.Map(len).with_exception_handling(use_subprocess=True)


class Kept(beam.DoFn):
    """Keeps values, then fails for 0."""

    KEPT = BagStateSpec("kept")

    def process(self, pair, kept=beam.DoFn.StateParam(KEPT)):
        kept.add(pair[1])
        yield 12 / pair[1], sorted(kept.read())


def test_what_an_element_wrote_to_state_before_it_failed_stays():
    stream = Stream().add_elements([("k", 2)]).add_elements([("k", 0)]).add_elements([("k", 3)])

    def build(p):
        good, bad = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.ParDo(Kept()).with_exception_handling(allow_unsafe_userstate_in_process=True)
        )
        return (good, bad | beam.Map(lambda pair: pair[0])) | beam.Flatten()

    assert sorted(values(build), key=repr) == [("k", 0), (4.0, [0, 2, 3]), (6.0, [2])]


def test_no_time_limit_where_there_is_state():
    with pytest.raises(ValueError, match=r"ParDo\(Kept\): a step with state takes no timeout"):
        beam.ParDo(Kept()).with_exception_handling(timeout=1)


class TestErrorHandler:
    def test_must_be_closed(self):
        pipeline = beam.Pipeline("LocalRunner")
        handler = ErrorHandler(beam.Map(print))
        _ = pipeline | beam.Create([1]) | beam.Map(len).with_exception_handling(error_handler=handler)
        with pytest.raises(RuntimeError, match="ErrorHandler was not closed"):
            pipeline.run()
        with pytest.raises(RuntimeError, match="has no output before it is closed"):
            handler.output()

    def test_a_collecting_one_must_be_read(self):
        pipeline = beam.Pipeline("LocalRunner")
        with CollectingErrorHandler() as handler:
            _ = pipeline | beam.Create([1]) | beam.Map(len).with_exception_handling(error_handler=handler)
        with pytest.raises(RuntimeError, match="nothing reads the output"):
            pipeline.run()

    def test_of_no_step(self):
        with pytest.raises(TopologyError, match="no step that names it"), ErrorHandler(beam.Map(print)):
            pass

    def test_none_leaves_the_step_as_it_is(self):
        step = beam.Map(len)
        assert step.with_error_handler(None) is step
