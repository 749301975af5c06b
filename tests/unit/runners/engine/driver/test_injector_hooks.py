"""The hooks of injectors and sinks at the end of a run: each is called, and an error of one stops no other."""

from __future__ import annotations

import logging
import pickle

import pytest

from headrace.lowlevel import (
    BoundedInjector,
    CallSink,
    CommittedInjector,
    Computation,
    EndingInjector,
    HeldInjector,
    StepError,
    Topology,
)
from headrace.lowlevel.injectors.injector import EndedInjector
from headrace.lowlevel.user_errors import as_raised
from headrace.runners import RunOptions
from headrace.runners.engine.driver.delivery import finish
from headrace.runners.local import LocalRunner


class Failing(BoundedInjector):
    """An injector whose thread cannot be ended."""

    def run_ended(self) -> None:
        raise ValueError("the connection is gone")


class Told(BoundedInjector):
    def __init__(self, rows, calls, error=None):
        super().__init__(rows)
        self.calls, self.error = calls, error

    def committed(self, position: object) -> None:
        self.calls.append(("committed", position))
        if self.error is not None:
            raise self.error

    def run_ended(self) -> None:
        self.calls.append("ended")

    def holder(self, position: object) -> str | None:
        return f"line {position}"


class Closing(Computation):
    def __init__(self, calls):
        self.calls = calls

    def process_record(self, record, context):
        if record.value == "bad":
            raise ValueError("a bad record")
        context.produce("out", record.value)

    def teardown(self):
        self.calls.append("teardown")


def topology(calls, value="good", error=None):
    made = Topology()
    made.injector("first", Failing([("good", 1)]))
    made.injector("second", Told([(value, 1)], calls, error))
    made.computation("close", Closing(calls), dict.fromkeys(("first", "second"), lambda value: value), ["out"])
    made.sink("sink", "out", CallSink(lambda epoch, rows: calls.extend(value for value, _ in rows)))
    return made


def test_an_injector_that_fails_at_the_end_fails_no_run_that_has_delivered(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []
    LocalRunner().run_topology(topology(calls))
    assert sorted(map(str, calls)) == ["('committed', 1)", "ended", "good", "good", "teardown"]
    [record] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert record.message == "source 'first' failed in run_ended, after its last delivery"
    assert "the connection is gone" in caplog.text


def test_after_a_failed_run_each_injector_is_told_and_the_error_is_that_of_the_run() -> None:
    calls: list[object] = []
    with pytest.raises(StepError, match="a bad record"):
        LocalRunner().run_topology(topology(calls, "bad"))
    assert "ended" in calls and "teardown" in calls


def test_an_error_after_a_commit_names_the_injector() -> None:
    calls: list[object] = []
    with pytest.raises(OSError, match="no right to delete") as caught:
        LocalRunner().run_topology(topology(calls, error=OSError("no right to delete")))
    assert caught.value.__notes__ == ["in `committed` of source 'second'; epoch 1 is committed, start again"]
    assert "ended" in calls and "teardown" in calls


def test_an_ended_injector_has_the_hooks_of_the_one_that_it_ends() -> None:
    calls: list[object] = []
    ended = EndedInjector(Told([], calls))
    for kind in (CommittedInjector, EndingInjector, HeldInjector):
        assert isinstance(ended, kind) and isinstance(BoundedInjector([]), kind)
    ended.committed(7)
    ended.run_ended()
    assert calls == [("committed", 7), "ended"] and ended.holder(3) == "line 3"
    plain = EndedInjector(BoundedInjector([]))
    plain.committed(7)
    plain.run_ended()
    assert plain.holder(3) is None


class Finishing:
    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def stage(self, epoch, rows):
        raise NotImplementedError

    def deliver(self, epoch, receipts):
        raise NotImplementedError

    def begin(self, resumed):
        return None

    def finish(self, epoch, ended):
        self.calls.append(self.name)
        if self.name != "c":
            raise OSError(f"disk {self.name} is full")


def test_each_sink_is_finished_even_if_one_fails() -> None:
    calls: list[str] = []
    sinks = {name: ("out", Finishing(calls, name)) for name in "abc"}
    with pytest.raises(StepError, match="disk a is full") as caught:
        finish(sinks, 7, True)
    assert calls == ["a", "b", "c"]
    [note] = caught.value.__notes__
    assert note.startswith("another sink failed, too: ") and "disk b is full" in note


class LastWords(CallSink):
    """A sink that cannot be finished the first time."""

    failures = 1

    def begin(self, anew: bool) -> bytes | None:
        return None

    def finish(self, epoch: int, ended: bool) -> None:
        if ended and self.failures:
            self.failures -= 1
            raise OSError("the disk is full")


def test_an_error_at_the_end_says_that_all_is_committed_and_the_same_program_finishes(tmp_path) -> None:
    rows: list[object] = []
    made = Topology()
    made.injector("in", BoundedInjector([("a", 1)]))
    sink = LastWords(lambda epoch, delivered: rows.extend(value for value, _ in delivered))
    made.sink("sink", "in", sink)
    options = RunOptions(checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(StepError, match=r"'sink' raised; epoch 1 is committed and delivered; start the same") as caught:
        LocalRunner().run_topology(made, options)
    for error in (pickle.loads(pickle.dumps(caught.value)), as_raised(caught.value)):
        assert str(error) == str(caught.value) and "nothing" not in str(error)
    LocalRunner().run_topology(made, options)
    assert sink.failures == 0 and set(rows) == {"a"}
