"""What a drain fires before its time says so: panes of all ways of grouping, timers, and what comes of them."""

from __future__ import annotations

import pickle

import pytest

import headrace as beam
from headrace.lowlevel.class_lookup import dumps, loads
from headrace.runners.local import LocalRunner
from headrace.sdk.model.panes import PANE_INFO_UNKNOWN, drained, pane_info
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from headrace.transforms.userstate import TimerSpec, on_timer
from headrace.transforms.window import FixedWindows, GlobalWindows, Sessions
from tests.collecting import collected
from tests.unit.sdk.pipeline.test_running_pipeline import when

CENTURY = 3_155_760_000
SHORT = 0.5
"""Length of windows of which some end before the drain; seconds."""


class Ends(beam.DoFn):
    """A timer at the end of the window, which says whether a drain has fired it."""

    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(self, pair, window=beam.DoFn.WindowParam, end=beam.DoFn.TimerParam(END)):
        end.set(window.end)

    @on_timer(END)
    def close(self, by_drain=beam.DoFn.CausedByDrainParam, window=beam.DoFn.WindowParam):
        yield by_drain


def told(element, pane=beam.DoFn.PaneInfoParam, by_drain=beam.DoFn.CausedByDrainParam):
    assert pane.caused_by_drain is by_drain
    return element, by_drain


STEPS = {
    "sums": lambda: beam.CombinePerKey(sum),
    "function": lambda: beam.CombinePerKey(lambda values: max(values)),
    "lists": lambda: beam.GroupByKey(),
    "timers": lambda: beam.ParDo(Ends()),
}


def ticking(checkpoint, runner, drain=False):
    """Marks of the outputs of each step, in short windows, in long ones, and in those of another step behind."""
    flags = [f"--checkpoint={checkpoint}", *(["--drain"] if drain else [])]
    pipeline = beam.Pipeline(runner, argv=flags)
    every = {"start": 1, "rate": 100}
    pairs = pipeline | beam.io.GenerateSequence(**every) | beam.WithKeys("all")
    found = {}
    for length in (SHORT, CENTURY):
        windows = pairs | f"{length}" >> beam.WindowInto(FixedWindows(length))
        for name, step in STEPS.items():
            results = windows | f"{name} {length}" >> step()
            found[name, length] = collected(results | f"Told {name} {length}" >> beam.Map(told))
    sessions = pairs | "Sessions" >> beam.WindowInto(Sessions(60)) | "By session" >> beam.CombinePerKey(sum)
    found["sessions", CENTURY] = collected(sessions | "Told of sessions" >> beam.Map(told))
    again = sessions | "Again" >> beam.CombinePerKey(sum) | "Lengthen" >> beam.Map(lambda pair: pair)
    found["again", CENTURY] = collected(again | "Told of sums again" >> beam.Map(told))
    early = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    often = beam.WindowInto(
        FixedWindows(CENTURY), trigger=early, accumulation_mode=AccumulationMode.ACCUMULATING, allowed_lateness=1
    )
    found["early", CENTURY] = collected(pairs | often | "Early" >> beam.CombinePerKey(sum) | beam.Map(told))
    return pipeline, found


def check(found):
    for (name, length), outputs in found.items():
        marks = [mark for _, mark in outputs()]
        if length == SHORT or name == "early":
            # The last window, or pane, is fired by the drain, those before it are not.
            assert marks[-1] is True, name
            assert True not in marks[:-1] and len(marks) > 1, name
        else:
            assert marks == [True], name
    for length in (SHORT, CENTURY):
        timers = found["timers", length]()
        assert [by_drain for by_drain, _ in timers] == [mark for _, mark in timers], (
            "a timer and what it puts out agree"
        )


def runs_marks(tmp_path, runner):
    pipeline, found = ticking(tmp_path, runner)
    running = pipeline.start()
    when(lambda: len(found["sums", SHORT]()) >= 2 and len(found["timers", SHORT]()) >= 2)
    running.drain()
    running.wait()
    check(found)


def test_what_a_drain_of_a_run_fires(tmp_path):
    runs_marks(tmp_path, LocalRunner(intervals=2))


def test_what_a_start_that_drains_fires(tmp_path):
    pipeline, found = ticking(tmp_path, LocalRunner())
    running = pipeline.start()
    when(lambda: len(found["sums", SHORT]()) >= 2)
    running.stop()
    running.wait()
    assert all(mark is False for outputs in found.values() for _, mark in outputs())
    pipeline, rest = ticking(tmp_path, LocalRunner(), drain=True)
    pipeline.run()
    # What was committed last is delivered again, before the rest.
    last = {name: outputs()[-1][1] for (name, length), outputs in rest.items() if length == CENTURY}
    assert last == {name: True for name, length in found if length == CENTURY}


@pytest.mark.parametrize("drain", [False, True])
def test_the_end_of_bounded_input_is_no_drain(drain):
    pipeline = beam.Pipeline(LocalRunner(), argv=["--drain"] if drain else [])
    windows = pipeline | beam.Create([("a", 1)]) | beam.WindowInto(GlobalWindows())
    sums = collected(windows | beam.CombinePerKey(sum) | "Told of sums" >> beam.Map(told))
    timers = collected(windows | beam.ParDo(Ends()) | "Told of timers" >> beam.Map(told))
    pipeline.run()
    assert (sums(), timers()) == ([(("a", 1), False)], [(False, False)])


def test_a_pane_without_the_mark_is_stored_as_before():
    pane = pane_info(True, False, 0, 0, -1)
    assert len(pickle.dumps(drained(pane))) > 0
    assert loads(dumps(drained(pane))) is drained(pane)
    assert loads(dumps(pane)) is pane
    assert len(dumps(pane)) < len(dumps(drained(pane)))
    assert PANE_INFO_UNKNOWN.caused_by_drain is False
