"""A run in the background whose topology is changed, and a changed program on the same checkpoint: local runner."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event

import pytest

import headrace as beam
from headrace.lowlevel import (
    BaseInjector,
    Batch,
    BoundedInjector,
    CallSink,
    Computation,
    Delivery,
    ManualInjector,
    MemorySplit,
    Topology,
    TopologyChangeError,
    TopologyError,
)
from headrace.lowlevel.checkpoint import Checkpoint, Consent
from headrace.lowlevel.storage.object_store import ObjectStore
from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.lowlevel.topology.topology import joined_topology
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.clock import SystemClock
from headrace.runners.engine.driver.topology_change import RunOverError
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import Crash, LocalRunner, Scheduler
from headrace.sdk.pipeline.runner_choice import run_options


class Endless(BaseInjector):
    """Counts up until it is told to end; waits until it is told to begin."""

    max_delay = 0

    def __init__(self):
        self.end = Event()

    def plan(self, position, limit, splits):
        rows = range(position, position + 3)
        ended = self.end.is_set()
        return Delivery([MemorySplit(Batch(list(rows), list(rows)))], position + 3, done=ended)


class Count(Computation):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce("counts", (context.key, context.state))


class Other(Count):
    pass


class Alarm(Computation):
    """Fires long after the input."""

    def process_record(self, record, context):
        context.set_timer("late", 10**6, hold=record.timestamp)

    def process_timer(self, timer, context):
        context.produce("alarms", context.key)


class Echo(Computation):
    """What it sends to itself is on its way between epochs, for ever."""

    def process_record(self, record, context):
        context.produce("echoes", record.value)


def parity(value):
    return value % 2


def first(value):
    return value[0]


def itself(value):
    return value


class Rows(list):
    """A sink's rows."""

    def sink(self):
        return CallSink(lambda epoch, rows: self.extend(value for value, _ in rows))


def counting(injector=None, computation=None, name="count"):
    made = Topology()
    made.injector("in", injector or BoundedInjector([(n, n) for n in range(12)]))
    made.computation(name, computation or Count(), {"in": parity}, ["counts"])
    return made


def more(rows):
    made = Topology()
    made.computation("again", Total(), {"counts": first}, ["totals"])
    made.sink("totals", "totals", rows.sink())
    return made


class Total(Computation):
    def process_record(self, record, context):
        context.state = (context.state or 0) + 1
        context.produce("totals", (context.key, context.state))


@pytest.fixture
def running():
    endless = Endless()
    run = LocalRunner(SystemClock(), intervals=2).start(counting(endless), RunOptions(max_records_per_epoch=3))
    yield run, endless
    endless.end.set()


class TestLive:
    def test_add_and_remove(self, running):
        run, endless = running
        rows = Rows()
        began = run.add(more(rows))
        ended = run.remove("again", "totals")
        again = run.add(more(rows))
        assert 0 < began < ended < again
        endless.end.set()
        result = run.wait(60)
        assert result.epochs > again
        for key in (0, 1):
            # Without a gap: its state was kept while it was away.
            assert [count for of, count in rows if of == key] == list(
                range(1, sum(1 for of, _ in rows if of == key) + 1)
            )
        assert rows

    def test_what_is_refused_leaves_the_run_as_it_is(self, running):
        run, endless = running
        before = run.changes.topology
        with pytest.raises(TopologyChangeError, match=r"the running pipeline cannot go on .*'count' has class Other"):
            run.update(counting(endless, Other()))
        with pytest.raises(TopologyChangeError, match="computation 'count' is gone"):
            run.update(counting(endless, name="cuont"))
        with pytest.raises(TopologyError, match="nothing is named 'nothing'"):
            run.remove("nothing")
        with pytest.raises(TopologyError, match="which no injector or computation produces"):
            run.remove("in")
        with pytest.raises(TopologyError, match="there already is an injector of stream 'in'"):
            run.add(counting())
        assert run.changes.topology is before and not run.is_over
        assert run.update(counting(endless, name="new"), Consent(removed=["count"])) > 0
        endless.end.set()
        assert set(run.wait(60).watermarks) == {"new"}

    def test_stop_and_go_on(self, tmp_path):
        options = RunOptions(checkpoint=str(tmp_path), max_records_per_epoch=3)
        endless = Endless()
        run = LocalRunner(SystemClock()).start(counting(endless), options)
        rows = Rows()
        run.add(more(rows))
        run.stop()
        stopped = run.wait(60)
        assert run.is_over and stopped.watermarks["count"] < MAX_TIMESTAMP
        endless.end.set()
        whole = counting(endless)
        for name, place in more(rows).keyed.items():
            whole.keyed[name] = place
        again = LocalRunner().run_topology(whole, RunOptions(checkpoint=str(tmp_path), allow_removed=["totals"]))
        assert again.counters["in"]["records"] >= stopped.counters["in"]["records"] + 3

    def test_a_run_that_is_over(self):
        run = LocalRunner().start(counting())
        run.wait(60)
        with pytest.raises(RunOverError, match="start the changed pipeline on its checkpoint"):
            run.add(more(Rows()))

    def test_what_stops_the_run_stops_the_change(self):
        scheduler, failed = Scheduler(), []

        def crash(name, epoch):
            if name == "change":
                raise Crash
            if name == "plan" and not failed:
                failed.append(run_of[0].changes.request(lambda now: joined_topology(now, more(Rows())), Consent()))

        run_of, begin = [], Event()
        scheduler.step = lambda name, epoch: begin.wait(60) and crash(name, epoch)
        run_of.append(LocalRunner(scheduler=scheduler).start(counting()))
        begin.set()
        with pytest.raises(Crash):
            run_of[0].wait(60)
        with pytest.raises(Crash):
            failed[0].result(60)


class StopBefore(Scheduler):
    def __init__(self, epoch):
        self._epoch = epoch

    def step(self, name, epoch):
        if (name, epoch) == ("plan", self._epoch):
            raise Crash


def begun(place, topology, before=3, **options):
    """A run that stops in the middle."""
    with pytest.raises(Crash):
        LocalRunner(scheduler=StopBefore(before)).run_topology(
            topology, RunOptions(checkpoint=str(place), max_records_per_epoch=3, **options)
        )


def again(place, topology, **options):
    return LocalRunner().run_topology(topology, RunOptions(checkpoint=str(place), max_records_per_epoch=3, **options))


def view(place: Path):
    return Checkpoint.read(ObjectStore(str(place)))


def with_sink(topology, sink):
    topology.sink("out", "counts", sink)
    return topology


def with_echo(topology):
    topology.computation("echo", Echo(), {"in": parity, "echoes": parity}, ["echoes"])
    return topology


class OtherSink(CallSink):
    pass


REFUSED = {
    "a computation that is gone": (counting, lambda: counting(name="other"), "computation 'count' is gone; give it"),
    "another class": (counting, lambda: counting(computation=Other()), "computation 'count' has class Other instead"),
    "another kind of position": (counting, lambda: counting(ManualInjector()), "source 'in' has position Manual"),
    "rows that may not be delivered": (
        lambda: with_sink(counting(), CallSink(lambda epoch, rows: None)),
        counting,
        "sink 'out' is gone, but committed rows may not have been delivered",
    ),
    "rows for another sink": (
        lambda: with_sink(counting(), CallSink(lambda epoch, rows: None)),
        lambda: with_sink(counting(), OtherSink(lambda epoch, rows: None)),
        "sink 'out' is a OtherSink, but committed rows may not have been delivered",
    ),
    "productions under way": (
        lambda: with_echo(counting()),
        counting,
        "productions of stream 'echoes' are on their way",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_restart_that_is_refused_names_the_difference_and_changes_nothing(case, tmp_path):
    before, after, message = REFUSED[case]
    begun(tmp_path, before())
    committed = view(tmp_path).manifest
    with pytest.raises(TopologyChangeError, match=message) as error:
        again(tmp_path, after())
    assert str(error.value).startswith(f"the checkpoint {tmp_path} cannot go on with the changed pipeline: ")
    assert view(tmp_path).manifest == committed


class TestRestart:
    def test_what_is_new_begins_where_its_senders_are(self, tmp_path, caplog):
        begun(tmp_path, counting(BoundedInjector([(n, 100 + n) for n in range(12)], max_delay=0)))
        rows = Rows()
        made = counting(BoundedInjector([(n, 100 + n) for n in range(12)], max_delay=0))
        made.computation("again", Total(), {"counts": first}, ["totals"])
        made.sink("totals", "totals", rows.sink())
        with caplog.at_level(logging.INFO):
            begun(tmp_path, made, before=4)
        assert "the pipeline has changed: computation 'again' is new; sink 'totals' is new" in caplog.text
        assert view(tmp_path).manifest.input_watermarks == {"count": 105, "again": 105}
        again(tmp_path, made)
        assert sorted(rows) == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]

    def test_an_archive_is_listed_read_restored_and_discarded(self, tmp_path):
        def made(rows):
            topology = counting()
            topology.computation("again", Total(), {"counts": first}, ["totals"])
            topology.sink("totals", "totals", rows.sink())
            return topology

        begun(tmp_path, made(Rows()))
        begun(tmp_path, counting(), before=4, allow_removed=["again", "totals"])
        [archived] = view(tmp_path).archive
        assert (archived.name, archived.epoch) == (("computation", "again"), 2)
        assert view(tmp_path).load("again").count() == {"keys": 2, "cells": 2, "marks": 0, "ids": 0, "segments": 0}
        rows = Rows()
        begun(tmp_path, made(rows), before=6)
        assert view(tmp_path).archive == () and max(rows) == (1, 4)
        begun(tmp_path, counting(), before=7, allow_removed=["again", "totals"])
        rows = Rows()
        again(tmp_path, made(rows), discard_stored=["again"])
        assert view(tmp_path).archive == () and sorted(rows) == [(0, 1), (1, 1), (1, 2)]

    def test_what_begins_anew_does_not_see_what_its_level_still_has(self, tmp_path):
        def made(rows=None):
            topology = counting()
            if rows is not None:
                topology.computation("again", Total(), {"in": parity}, ["totals"])
                topology.sink("totals", "totals", rows.sink())
            return topology

        begun(tmp_path, made(Rows()))
        begun(tmp_path, made(), before=5, allow_removed=["again", "totals"])
        assert view(tmp_path).manifest.left == {1: {"again"}}
        rows = Rows()
        again(tmp_path, made(rows), discard_stored=["again"])
        assert sorted(rows) == [(0, 1), (1, 1), (1, 2)]
        assert view(tmp_path).load("count").count()["cells"] == 2
        assert view(tmp_path).manifest.left == {}

    def test_what_comes_back_behind_ended_input_fires_its_timers_once(self, tmp_path):
        def made(rows):
            topology = counting()
            topology.computation("alarm", Alarm(), {"in": parity}, ["alarms"])
            topology.sink("alarms", "alarms", rows.sink())
            return topology

        begun(tmp_path, made(Rows()), before=3)
        again(tmp_path, counting(), allow_removed=["alarm", "alarms"])
        [archived] = view(tmp_path).archive
        assert archived.hold is not None and archived.hold[:2] == (4, b"i0")
        rows = Rows()
        assert again(tmp_path, made(rows)).counters["alarm"]["timers"] == 2
        assert sorted(rows) == [0, 1]
        assert again(tmp_path, made(rows)).counters["alarm"]["timers"] == 2

    def test_productions_are_dropped_if_that_is_said(self, tmp_path):
        begun(tmp_path, with_echo(counting()))
        result = again(tmp_path, counting(), allow_removed=["echo"], drop_pending=["echo"])
        assert result.counters["count"]["records"] == 12
        assert view(tmp_path).manifest.pending == ()

    def test_an_injector_that_comes_back_goes_on_where_it_was(self, tmp_path):
        def made():
            topology = counting()
            topology.injector("other", BoundedInjector([(n, n) for n in range(8)]))
            topology.computation("others", Total(), {"other": parity}, ["totals"])
            return topology

        begun(tmp_path, made())
        begun(tmp_path, counting(), before=4, allow_removed=["other", "others"])
        assert {one.member.name for one in view(tmp_path).archive} == {"other", "others"}
        assert again(tmp_path, made()).counters["others"]["records"] == 8

    def test_the_archive_outlives_garbage_collection(self, tmp_path):
        def made(rows, count):
            topology = counting(BoundedInjector([(n, n) for n in range(count)]))
            topology.computation("again", Total(), {"counts": first}, ["totals"])
            topology.sink("totals", "totals", rows.sink())
            return topology

        begun(tmp_path, made(Rows(), 300))
        begun(
            tmp_path,
            counting(BoundedInjector([(n, n) for n in range(300)])),
            before=90,
            allow_removed=["again", "totals"],
        )
        rows = Rows()
        again(tmp_path, made(rows, 300))
        assert sorted(rows)[0] == (0, 4)

    def test_by_options_of_a_pipeline(self):
        options = run_options(PipelineOptions(["--allow_removed=Sum", "--allow_removed=Write", "--drop_pending=Sum"]))
        assert options.consent == Consent(["Sum", "Write"], (), ["Sum"])


def test_a_pipeline_goes_on_with_another_label_if_that_is_said(tmp_path):
    def run(label, **options):
        given = PipelineOptions([], checkpoint=str(tmp_path), **options)
        with beam.Pipeline("LocalRunner", given) as pipeline:
            pipeline | beam.Create([("a", 1)]) | label >> beam.CombinePerKey(sum)

    run("Sum")
    with pytest.raises(TopologyChangeError, match="computation 'Sum' is gone"):
        run("Total")
    run("Total", allow_removed=["Sum"])
    assert [one.member.name for one in view(tmp_path).archive] == ["Sum"]
