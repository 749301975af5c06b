"""Context managers of bundles and processes as arguments, and callbacks for after the commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import headrace as beam
from headrace.coders import VarIntCoder
from headrace.lowlevel.errors import StepError
from headrace.metrics import Metrics
from headrace.options.pipeline_options import PipelineOptions
from headrace.testing.util import assert_that, equal_to
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from tests.unit.sdk.operators.splittable.test_splittable_par_do import Numbers

NOTES: list[str] = []


@pytest.fixture(autouse=True)
def no_notes() -> None:
    NOTES.clear()


def note(text: str) -> None:
    NOTES.append(text)


@contextmanager
def noted(name: str, ending: str = "left") -> Iterator[str]:
    note(f"entered {name}")
    yield name.upper()
    note(f"{ending} {name}")


class Both(beam.DoFn):
    """Uses a context of each kind, and its own life cycle."""

    OF_PROCESS = beam.DoFn.SetupContextParam(noted, args=("process",))

    def setup(self):
        note("setup")

    def start_bundle(self):
        note("start")

    def process(
        self, value, of_bundle=beam.DoFn.BundleContextParam(noted, ("bundle",), {"ending": "closed"}), other=OF_PROCESS
    ):
        yield value, of_bundle, other

    def finish_bundle(self):
        note("finish")

    def teardown(self):
        note("teardown")


def test_contexts_are_around_the_bundle_and_the_process() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        values = pipeline | beam.Create([1, 2]) | beam.ParDo(Both())
        assert_that(values, equal_to([(1, "BUNDLE", "PROCESS"), (2, "BUNDLE", "PROCESS")]))
    assert NOTES[:2] == ["entered process", "setup"]
    assert NOTES[-2:] == ["teardown", "left process"]
    assert NOTES[2:-2] == ["entered bundle", "start", "finish", "closed bundle"] * ((len(NOTES) - 4) // 4)


@pytest.mark.parametrize("step", [beam.Map, beam.FlatMap, beam.Filter])
def test_functions_take_contexts(step) -> None:  # type: ignore[no-untyped-def]  # as users write it
    def even(number, factor, name=beam.DoFn.BundleContextParam(noted, ("bundle",))):
        return [number * factor, name] if number % 2 == 0 else []

    with beam.Pipeline("LocalRunner") as pipeline:
        made = step(even, 3)
        assert made.label == f"{step.__name__}(even)"
        found = pipeline | beam.Create([1, 2]) | made
        expected = {"Map": [[], [6, "BUNDLE"]], "FlatMap": [6, "BUNDLE"], "Filter": [2]}[step.__name__]
        assert_that(found, equal_to(expected))
    assert NOTES.count("left bundle") == NOTES.count("entered bundle") > 0


def test_tuples_are_spread() -> None:
    def join(left, right, name=beam.DoFn.SetupContextParam(noted, ("process",))):
        return left + right + name

    with beam.Pipeline("LocalRunner") as pipeline:
        assert_that(pipeline | beam.Create([("a", "b")]) | beam.MapTuple(join), equal_to(["abPROCESS"]))


def test_a_failed_bundle_leaves_its_context() -> None:
    def fail(value, of_bundle=beam.DoFn.BundleContextParam(noted_finally, ("bundle",))):
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"), beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(fail)
    assert NOTES == ["entered bundle", "left bundle"]


@contextmanager
def noted_finally(name: str) -> Iterator[None]:
    try:
        with noted(name):
            yield
    finally:
        pass


def test_a_setup_that_fails_leaves_the_context() -> None:
    class Failing(Both):
        def setup(self):
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"), beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create([1]) | beam.ParDo(Failing())
    assert NOTES == ["entered process", "left process"]


def test_wrong_contexts_are_refused(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder, TemporaryDirectory() as other:
        for made in (folder, noted("once"), 7):
            with pytest.raises(TypeError, match="without calling it"):
                beam.DoFn.BundleContextParam(made)  # type: ignore[arg-type]  # what is refused
        assert folder != other
    with pytest.raises(TypeError, match="SetupContextParam takes"):
        beam.DoFn.SetupContextParam(noted("once"))  # type: ignore[arg-type]  # what is refused


# Finalizers


class Tells(beam.DoFn):
    """Has each element noted when it is committed; the outputs are counted."""

    def process(self, number, finalizer=beam.DoFn.BundleFinalizerParam, window=beam.DoFn.WindowParam):
        finalizer.register(partial(note, f"{number} of {window}"))
        Metrics.counter("tests", "seen").inc()
        yield number
        finalizer.register(lambda: note(f"{number} done"))


def test_callbacks_are_called_after_the_commit() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        numbers = pipeline | beam.Create([1, 2]) | "Tell" >> beam.ParDo(Tells())
        large = numbers | "Again" >> beam.ParDo(Tells()).with_outputs("large", main="all")
        assert_that(large["all"], equal_to([1, 2]))
        _ = numbers | "Note" >> beam.Map(lambda number: note("processed"))
        plain = pipeline | "Three" >> beam.Create([3])
        _ = plain | beam.Map(lambda number, finalizer=beam.DoFn.BundleFinalizerParam: finalizer.register(both))
    ends = ["1 done", "1 of GlobalWindow", "2 done", "2 of GlobalWindow"]
    assert sorted(NOTES) == sorted([*ends, *ends, "processed", "processed", "both"])
    assert NOTES.index("processed") < NOTES.index("1 done")


def both() -> None:
    note("both")


class Keeps(beam.DoFn):
    """With state, and a timer that registers, too."""

    LAST = ReadModifyWriteStateSpec("last", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair,
        last=beam.DoFn.StateParam(LAST),
        end=beam.DoFn.TimerParam(END),
        finalizer=beam.DoFn.BundleFinalizerParam,
        of_bundle=beam.DoFn.BundleContextParam(noted, ("bundle",)),
    ):
        last.write(pair[1])
        end.set(10)
        finalizer.register(partial(note, f"{pair[1]} in {of_bundle}"))

    @on_timer(END)
    def tell(self, last=beam.DoFn.StateParam(LAST), finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(partial(note, f"end with {last.read()}"))
        yield last.read()


def test_with_state_and_timers() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        kept = pipeline | beam.Create([("a", 1), ("b", 2)]) | beam.ParDo(Keeps())
        assert_that(kept, equal_to([1, 2]))
    told = sorted(text for text in NOTES if " bundle" not in text)
    assert told == ["1 in BUNDLE", "2 in BUNDLE", "end with 1", "end with 2"]


class Counts(beam.DoFn):
    """A splittable DoFn."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(Numbers()), finalizer=beam.DoFn.BundleFinalizerParam):
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            finalizer.register(partial(note, f"{position}"))
            yield position
            position += 1


def test_splittable() -> None:
    with beam.Pipeline("LocalRunner") as pipeline:
        assert_that(pipeline | beam.Create([3]) | beam.ParDo(Counts()), equal_to([0, 1, 2]))
    assert sorted(NOTES) == ["0", "1", "2"]


def test_caught_exceptions() -> None:
    def half(number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(partial(note, f"{number}"))
        return 1 // number

    with beam.Pipeline("LocalRunner") as pipeline:
        good, bad = pipeline | beam.Create([0, 1]) | beam.Map(half).with_exception_handling()
        assert_that(good, equal_to([1]))
        assert_that(bad | beam.Keys(), equal_to([0]), label="bad")
    # The bad element is committed, too.
    assert sorted(NOTES) == ["0", "1"]


def test_nothing_is_called_for_what_is_not_committed(tmp_path: Path) -> None:
    def run(last):  # type: ignore[no-untyped-def]  # as users write it
        options = PipelineOptions([f"--checkpoint={tmp_path / 'checkpoint'}"])
        with beam.Pipeline("LocalRunner", options=options) as pipeline:
            told = pipeline | beam.Create([1, 2]) | beam.ParDo(Tells())
            _ = told | beam.Reshuffle() | "Last" >> beam.Map(last)

    with pytest.raises(ZeroDivisionError):
        run(lambda number: number // 0)
    assert NOTES == []
    run(str)
    assert sorted(NOTES) == ["1 done", "1 of GlobalWindow", "2 done", "2 of GlobalWindow"]


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def register(number, finalizer=beam.DoFn.BundleFinalizerParam):
        finalizer.register(lambda: 1 // 0)
        finalizer.register(both)

    with caplog.at_level(logging.WARNING), beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(register)
    assert NOTES == ["both"]
    assert "a bundle finalizer of epoch" in caplog.text


def test_what_is_no_function_is_refused() -> None:
    refused = pytest.raises(StepError, match="takes a function without parameters, got 7")
    with refused, beam.Pipeline("LocalRunner") as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(_register_seven)


def _register_seven(number, finalizer=beam.DoFn.BundleFinalizerParam):
    finalizer.register(7)
