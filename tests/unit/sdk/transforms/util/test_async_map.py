"""`AsyncMap`: several calls at once, attempts, limits, caches and failures, with results as those of `Map`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headrace as beam
from headrace.lowlevel import StepError
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.testing.util import assert_that, equal_to
from headrace.transforms.window import FixedWindows, SlidingWindows, TimestampedValue

CALLED: Counter[object] = Counter()
AT_ONCE: list[int] = []
SEEN: list[Any] = []
BEGUN: list[float] = []
DONE = threading.Event()
_lock = threading.Lock()
_under_way = 0


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()
    for noted in (AT_ONCE, SEEN, BEGUN):
        noted.clear()
    DONE.clear()


def _enter(argument: object) -> None:
    global _under_way
    with _lock:
        _under_way += 1
        CALLED[repr(argument)] += 1
        AT_ONCE.append(_under_way)


def _leave() -> None:
    global _under_way
    with _lock:
        _under_way -= 1


async def slowly(number: int) -> int:
    _enter(number)
    try:
        await asyncio.sleep(0.02 * (number % 3))
    finally:
        _leave()
    return number * 10


def in_a_thread(number: int) -> int:
    _enter(number)
    try:
        time.sleep(0.02 * (number % 3))
    finally:
        _leave()
    return number * 10


def see(value: object) -> None:
    SEEN.append(value)


def fails_twice(number: int) -> int:
    CALLED[repr(number)] += 1
    if CALLED[repr(number)] <= 2:
        raise ConnectionError(f"attempt {CALLED[repr(number)]}")
    return number


def fails_once(number: int) -> int:
    CALLED[repr(number)] += 1
    if CALLED[repr(number)] == 1:
        raise ConnectionError
    return number


def wrong(number: int) -> int:
    CALLED[repr(number)] += 1
    raise KeyError(number)


def note(number: int) -> int:
    BEGUN.append(time.monotonic())
    return number


def until_done(number: int) -> bool:
    return DONE.wait(60 * number)


async def never(number: int) -> None:
    await asyncio.sleep(60 * number)


def results(elements: list[Any], step: Any) -> list[Any]:
    """What a step makes of some elements."""
    SEEN.clear()
    with beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create(elements) | step | beam.Map(see)
    return list(SEEN)


class Callable:
    """A callable object whose call is a coroutine."""

    async def __call__(self, number: int) -> int:
        return await slowly(number)


@pytest.mark.parametrize("function", [slowly, in_a_thread, Callable()])
def test_results_are_in_order_and_calls_are_at_once(function: Any) -> None:
    assert results(list(range(40)), beam.AsyncMap(function, concurrency=4)) == [number * 10 for number in range(40)]
    assert 1 < max(AT_ONCE) <= 4
    assert set(CALLED.values()) == {1}


def test_more_elements_than_may_wait() -> None:
    assert results(list(range(100)), beam.AsyncMap(slowly, concurrency=2)) == [number * 10 for number in range(100)]


def test_results_that_are_ready_come_first() -> None:
    async def later(number: int) -> int:
        await asyncio.sleep(0.5 if number == 0 else 0)
        return number

    found = results([0, 1, 2], beam.AsyncMap(later, ordered=False))
    assert found[-1] == 0 and sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("retries", [1, 2])
def test_there_are_further_attempts(retries: int) -> None:
    step = "Ask" >> beam.AsyncMap(fails_twice, retries=retries, backoff=0)
    if retries == 2:
        assert results([7, 8], step) == [7, 8]
        return
    with pytest.raises(StepError, match="step 'Ask/Call' raised at 7") as raised:
        results([7], step)
    assert isinstance(raised.value, ConnectionError) and "attempt 2" in str(raised.value)


def test_other_errors_are_no_reason_for_another_attempt() -> None:
    with pytest.raises(StepError):
        results([7], beam.AsyncMap(wrong, retries=5, backoff=0, retry_on=ConnectionError))
    assert CALLED == {"7": 1}


@pytest.mark.parametrize("function", [never, until_done])
def test_an_attempt_has_a_time_limit(function: Any) -> None:
    try:
        with pytest.raises(StepError, match=r"the call took more than 0\.05 s") as raised:
            results([1], beam.AsyncMap(function, timeout=0.05))
    finally:
        DONE.set()
    assert isinstance(raised.value, TimeoutError) and raised.value.value == 1


def test_failures_are_an_output() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        numbers = pipeline | beam.Create([2, 0, 4])
        good, bad = numbers | beam.AsyncMap(lambda number: 4 // number, retries=1, backoff=0).with_exception_handling()
        assert_that(good, equal_to([2, 1]), "Good")
        letters = bad | beam.MapTuple(lambda element, info: (element, info[0].__name__, "4 // number" in info[2][-2]))
        assert_that(letters, equal_to([(0, "ZeroDivisionError", True)]), "Bad")
    assert pipeline.result is not None
    counted = pipeline.result.metrics().query(beam.metrics.MetricsFilter().with_namespace("headrace"))["counters"]
    assert [each.committed for each in counted if each.key.metric.name == "dead_letters"] == [1]


def test_batches() -> None:
    def lengths(batch: list[int]) -> list[tuple[int, int]]:
        return [(number, len(batch)) for number in batch]

    assert results(list(range(7)), beam.AsyncMap(lengths, batch_size=3)) == [
        *((number, 3) for number in range(6)),
        (6, 1),
    ]
    with pytest.raises(StepError, match="returned 1 results for 3 elements; return a list of one for each"):
        results(list(range(3)), beam.AsyncMap(lambda batch: batch[:1], batch_size=3))
    with pytest.raises(StepError, match="returned None for 2 elements"):
        results(list(range(2)), beam.AsyncMap(lambda batch: None, batch_size=3))


def test_a_batch_that_fails_takes_all_its_elements_along() -> None:
    def fails(batch: list[int]) -> list[int]:
        return [10 // number for number in batch]

    with beam.Pipeline("LocalRunner") as pipeline:
        numbers = pipeline | beam.Create([1, 2, 0, 5, 10])
        good, bad = numbers | beam.AsyncMap(fails, batch_size=2).with_exception_handling("fine", "failed")
        assert_that(good, equal_to([10, 5, 1]), "Good")
        assert_that(bad | beam.Keys(), equal_to([0, 5]), "Bad")


def test_equal_elements_are_called_once_while_the_cache_has_them() -> None:
    assert results([1, 2, 1, 2, 1], beam.AsyncMap(slowly, cache_seconds=60)) == [10, 20, 10, 20, 10]
    assert CALLED == {"1": 1, "2": 1}
    CALLED.clear()

    def after_a_while(number: int) -> int:
        time.sleep(0.06)
        return number

    with beam.Pipeline("LocalRunner", argv=["--max_records_per_epoch=1"]) as pipeline:
        waited = pipeline | beam.Create([1, 1]) | beam.Map(after_a_while)
        _ = waited | beam.AsyncMap(slowly, cache_seconds=0.01)
    assert CALLED == {"1": 2}


def test_failures_are_not_cached() -> None:
    step = beam.AsyncMap(fails_once, cache_seconds=60, concurrency=1)
    pipeline = beam.Pipeline(LocalRunner(), PipelineOptions(["--max_records_per_epoch=1"]))
    good, bad = pipeline | beam.Create([5, 5]) | step.with_exception_handling()
    assert_that(good, equal_to([5]), "Good")
    assert_that(bad | beam.Keys(), equal_to([5]), "Bad")
    pipeline.run()


def test_attempts_keep_the_rate() -> None:

    assert results(list(range(6)), beam.AsyncMap(note, rate=50)) == list(range(6))
    assert max(BEGUN) - min(BEGUN) >= 0.08


def shown(
    value: object,
    at: Any = beam.DoFn.TimestampParam,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> tuple[object, ...]:
    return value, at.micros // 1_000_000, repr(window), pane.is_retraction


def test_an_element_of_several_windows_is_called_once_and_stays_in_all() -> None:
    found = []
    for step in (beam.Map(lambda number: number * 10), beam.AsyncMap(slowly)):
        CALLED.clear()
        SEEN.clear()
        with beam.Pipeline("LocalRunner") as pipeline:
            numbers = pipeline | beam.Create([1, 2, 3]) | beam.Map(lambda number: TimestampedValue(number, number))
            windowed = numbers | beam.WindowInto(SlidingWindows(3, 1))
            _ = windowed | "Step" >> step | beam.Map(shown) | beam.Map(see)
        found.append(sorted(SEEN, key=repr))
    assert found[0] == found[1] and len(found[0]) == 9
    assert set(CALLED.values()) == {1}


def test_a_retraction_is_the_retraction_of_the_result() -> None:
    changes = [
        beam.RowChange(beam.RowOperation.INSERT, None, {"id": 1, "n": 1}),
        beam.RowChange(beam.RowOperation.UPDATE, None, {"id": 1, "n": 2}),
    ]
    with beam.Pipeline("LocalRunner") as pipeline:
        rows = pipeline | beam.Create(changes) | beam.FromRowChanges(key="id")
        _ = rows | beam.AsyncMap(lambda row: row["n"] * 10) | beam.ToChangelog() | beam.Map(see)
    assert [tuple(change) for change in SEEN] == [("+", 10), ("-", 10), ("+", 20)]


class Dies(Scheduler):
    """Ends the driver when an epoch is delivered."""

    def __init__(self, epoch: int | None) -> None:
        self._epoch = epoch

    def step(self, name: str, epoch: int) -> None:
        if (name, epoch) == ("delivered", self._epoch):
            raise Crash("as planned")


def test_results_are_there_once_whenever_a_run_dies(tmp_path: Path) -> None:
    for life in (2, 4, None):
        options = PipelineOptions([f"--checkpoint={tmp_path}/state", "--max_records_per_epoch=10"])
        pipeline = beam.Pipeline(LocalRunner(scheduler=Dies(life)), options)
        asked = pipeline | "Numbers" >> beam.Create(range(50)) | "Ask" >> beam.AsyncMap(in_a_thread)
        sums = (
            asked
            | "Hours" >> beam.WindowInto(FixedWindows(3600))
            | "Sum" >> beam.CombineGlobally(sum).without_defaults()
        )
        _ = sums | "Write" >> beam.io.WriteToText(f"{tmp_path}/sum")
        try:
            pipeline.run()
        except Crash:
            continue
    assert [path.read_text() for path in tmp_path.glob("sum*")] == [f"{sum(range(50)) * 10}\n"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fn": 5}, "AsyncMap takes a function or a coroutine function, got 5"),
        ({"concurrency": 0}, "concurrency of AsyncMap is 0; give a whole number of at least 1"),
        ({"batch_size": 1.5}, r"batch_size of AsyncMap is 1\.5; give a whole number of at least 1"),
        ({"retries": -1}, "retries of AsyncMap is -1; give a whole number of at least 0"),
        ({"timeout": 0}, "timeout of AsyncMap is 0; give a number greater than 0, or None"),
        ({"backoff": -1}, "backoff of AsyncMap is -1; give a number of at least 0"),
        ({"rate": "fast"}, "rate of AsyncMap is 'fast'; give a number greater than 0, or None"),
        ({"retry_on": "errors"}, "retry_on of AsyncMap is 'errors'; give a class of exceptions, or a tuple of some"),
        ({"cache_seconds": 1, "batch_size": 2}, "cache_seconds and batch_size, but a cache is of single elements"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        beam.AsyncMap(**{"fn": len, **arguments})


def test_an_element_that_cannot_be_in_a_cache_is_said() -> None:
    with pytest.raises(StepError, match=r"unhashable type: 'list'") as raised:
        results([[1]], beam.AsyncMap(len, cache_seconds=1))
    assert raised.value.value == [1]
