"""State and timers of a DoFn against a model made of dictionaries, over bundles, crashes and restarts."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import headrace as beam
from headrace.lowlevel import CallSink
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.compiler.compiler import compile_pipeline
from headrace.testing.test_stream import TestStream
from headrace.transforms.timeutil import TimeDomain
from headrace.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from headrace.transforms.window import FixedWindows, TimestampedValue

SIZE, LATENESS = 10, 5
StateParam, TimerParam = beam.DoFn.StateParam, beam.DoFn.TimerParam


class Commanded(beam.DoFn):
    """Does what values say: (what, method, arguments, named arguments). Puts out what it reads and what fires."""

    VALUE = ReadModifyWriteStateSpec("value")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    SUM = CombiningValueStateSpec("sum", sum)
    LIST = OrderedListStateSpec("list")
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)
    REAL = TimerSpec("real", TimeDomain.REAL_TIME)

    def process(
        self,
        pair,
        window=beam.DoFn.WindowParam,
        value=StateParam(VALUE),
        bag=StateParam(BAG),
        its=StateParam(SET),
        total=StateParam(SUM),
        ordered=StateParam(LIST),
        event=TimerParam(EVENT),
        real=TimerParam(REAL),
    ):
        cells = {"value": value, "bag": bag, "set": its, "sum": total, "list": ordered, "event": event, "real": real}
        key, (what, method, arguments, named) = pair
        result = getattr(cells[what], method)(*arguments, **named)
        if method.startswith("read"):
            if what == "set":
                result = sorted(result)
            yield key, float(window.start), what, result

    @on_timer(EVENT)
    def on_event(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        window=beam.DoFn.WindowParam,
        bag=StateParam(BAG),
        event=TimerParam(EVENT),
    ):
        bag.add(float(time))
        if tag == "chain":
            event.set(min(time + 3, window.end + LATENESS), "linked")
        yield key, float(window.start), "event", tag, float(time), bag.read()

    @on_timer(REAL)
    def on_real(
        self,
        key=beam.DoFn.KeyParam,
        time=beam.DoFn.TimestampParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        window=beam.DoFn.WindowParam,
        bag=StateParam(BAG),
    ):
        bag.add(-float(time))
        yield key, float(window.start), "real", tag, float(time), bag.read()


@dataclass
class Window:
    """The model of one key and window."""

    value: object = None
    bag: list = field(default_factory=list)
    set: set = field(default_factory=set)
    sum: int = 0
    list: list = field(default_factory=list)
    timers: dict = field(default_factory=dict)
    """(domain, tag) -> instant, output timestamp."""


class Model:
    """What the step should put out, epoch by epoch: (row, timestamp)."""

    def __init__(self):
        self.windows: dict[tuple[str, float], Window] = {}
        self.watermark, self.clock = -math.inf, 0.0
        self.epochs: list[list[tuple[tuple, float]]] = []

    def bundle(self, elements):
        """An epoch of ((key, command), time)."""
        self.epochs.append([])
        for (key, command), time in elements:
            start = time // SIZE * SIZE
            if start + SIZE + LATENESS > self.watermark:
                self._do(key, start, time, *command)
        self._fire()

    def advance(self, watermark=None, clock=0.0):
        """An epoch in which a clock moves."""
        self.epochs.append([])
        self.watermark = self.watermark if watermark is None else watermark
        self.clock += clock
        self._fire()

    def _do(self, key, start, time, what, method, arguments, named):
        window = self.windows.setdefault((key, start), Window())
        if what in ("event", "real"):
            return self._timer(window, what, time, method, arguments, named)
        if method == "read":
            result = sorted(getattr(window, what)) if what in ("set", "list") else getattr(window, what)
            self._put((key, start, what, result[:] if isinstance(result, list) else result), time)
        elif method == "read_range":
            low, high = arguments
            self._put((key, start, what, sorted(pair for pair in window.list if low <= pair[0] < high)), time)
        elif method == "clear_range":
            low, high = arguments
            window.list = [pair for pair in window.list if not low <= pair[0] < high]
        elif method == "clear":
            setattr(window, what, getattr(Window(), what))
        elif method == "write":
            (window.value,) = arguments
        elif what == "sum":
            window.sum += arguments[0]
        else:
            getattr(window, what).add(*arguments) if what == "set" else getattr(window, what).append(*arguments)
        return None

    def _timer(self, window, domain, time, method, arguments, named):
        *instant, tag = arguments
        if method == "clear":
            window.timers.pop((domain, tag), None)
        else:
            output = time if domain == "real" else named.get("output_timestamp", instant[0])
            window.timers[domain, tag] = (instant[0], output)

    def _fire(self):
        for (key, start), window in list(self.windows.items()):
            while due := self._due(window):
                _, instant, tag, domain = min(due)
                _, output = window.timers.pop((domain, tag))
                window.bag.append(-instant if domain == "real" else instant)
                if tag == "chain" and domain == "event":
                    linked = min(instant + 3, start + SIZE + LATENESS)
                    window.timers["event", "linked"] = (linked, linked)
                self._put((key, start, domain, tag, instant, window.bag[:]), output)
            if start + SIZE + LATENESS <= self.watermark:
                del self.windows[key, start]

    def _due(self, window):
        limits = {"event": self.watermark, "real": self.clock}
        timers = [(domain == "event", instant, tag, domain) for (domain, tag), (instant, _) in window.timers.items()]
        return [timer for timer in timers if timer[1] <= limits[timer[3]]]

    def _put(self, row, time):
        self.epochs[-1].append((row, time))


class Crashes(Scheduler):
    """Stops the driver after some of its commits, once each."""

    def __init__(self, epochs):
        self.epochs = set(epochs)

    def step(self, name, epoch):
        if name == "committed" and epoch in self.epochs:
            self.epochs.discard(epoch)
            raise Crash(f"after epoch {epoch}")


KEYS, TAGS = st.sampled_from("ab"), st.sampled_from(["", "x", "chain"])
SMALL = st.integers(0, 9)
TIMES = st.integers(0, 35)
STATES = st.one_of(
    st.tuples(st.just("value"), st.just("write"), st.tuples(SMALL)),
    st.tuples(st.sampled_from(["bag", "set", "sum"]), st.just("add"), st.tuples(SMALL)),
    st.tuples(st.just("list"), st.just("add"), st.tuples(st.tuples(TIMES, st.just("x")))),
    st.tuples(st.just("list"), st.sampled_from(["read_range", "clear_range"]), st.tuples(TIMES, TIMES)),
    st.tuples(st.sampled_from(["value", "bag", "set", "sum", "list"]), st.sampled_from(["read", "clear"]), st.just(())),
)


class StateMachine(RuleBasedStateMachine):
    """Tells a story to the model, and in the end to the local runner."""

    def __init__(self):
        super().__init__()
        self.model, self.story, self.open, self.crashes = Model(), TestStream(), [], []

    @rule(key=KEYS, command=STATES, time=TIMES)
    def use_state(self, key, command, time):
        self.open.append(((key, (*command, {})), time))

    @rule(key=KEYS, time=TIMES, instant=TIMES, tag=TAGS, output=st.none() | st.integers(0, 15))
    def set_event_timer(self, key, time, instant, tag, output):
        closes = time // SIZE * SIZE + SIZE + LATENESS
        named = {} if output is None else {"output_timestamp": min(time + output, closes)}
        self.open.append(((key, ("event", "set", (min(instant, closes), tag), named)), time))

    @rule(key=KEYS, time=TIMES, instant=TIMES, tag=TAGS)
    def set_real_timer(self, key, time, instant, tag):
        self.open.append(((key, ("real", "set", (instant, tag), {})), time))

    @rule(key=KEYS, time=TIMES, domain=st.sampled_from(["event", "real"]), tag=TAGS)
    def clear_timer(self, key, time, domain, tag):
        self.open.append(((key, (domain, "clear", (tag,), {})), time))

    @rule()
    def end_bundle(self):
        if self.open:
            self.model.bundle(self.open)
            self.story.add_elements([TimestampedValue(pair, time) for pair, time in self.open])
            self.open = []

    @rule(by=st.integers(1, 15))
    def move_watermark(self, by):
        self.end_bundle()
        watermark = max(self.model.watermark, 0) + by
        self.model.advance(watermark=watermark)
        self.story.advance_watermark_to(watermark)

    @rule(by=st.integers(1, 15))
    def move_clock(self, by):
        self.end_bundle()
        self.model.advance(clock=by)
        self.story.advance_processing_time(by)

    @rule()
    def crash(self):
        self.end_bundle()
        self.crashes.append(len(self.model.epochs))

    def teardown(self):
        self.end_bundle()
        self.model.advance(watermark=math.inf)
        self.story.advance_watermark_to_infinity()
        assert by_window(self.told()) == by_window(self.model.epochs)

    def told(self):
        """What the runner puts out, by epoch."""
        rows = defaultdict(list)

        def deliver(epoch, its):
            rows[epoch] = [(row, time / 1e6) for row, time in its]

        pipeline = beam.Pipeline("LocalRunner")
        windowed = pipeline | self.story | beam.WindowInto(FixedWindows(SIZE), allowed_lateness=LATENESS)
        windowed | "step" >> beam.ParDo(Commanded()) | beam.io.Write(CallSink(deliver))
        scheduler = Crashes(self.crashes)
        with tempfile.TemporaryDirectory() as place:
            while True:
                runner = LocalRunner(scheduler=scheduler, intervals=2)
                try:
                    runner.run_topology(compile_pipeline(pipeline), RunOptions(checkpoint=place))
                    break
                except Crash:
                    continue
        assert not scheduler.epochs - {0}, "a crash that did not happen"
        for copy in runner.stores.values():
            assert copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}
        return [rows[epoch] for epoch in range(1, len(self.model.epochs) + 1)]


def by_window(epochs):
    """(epoch, key, window) -> its outputs in order: between keys and windows there is none."""
    found = defaultdict(list)
    for epoch, rows in enumerate(epochs):
        for (key, start, *rest), time in rows:
            found[epoch, key, start].append((_plain(rest), time))
    return found


def _plain(value):
    """With tuples for lists, and numbers for timestamps."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return float(value) if not isinstance(value, str) and value is not None else value


TestStateAndTimers = StateMachine.TestCase
TestStateAndTimers.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
