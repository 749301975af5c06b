"""Weak productions: which attempts may replace each other, and releases again, at their time, until acknowledged."""

import threading
from array import array
from types import SimpleNamespace

import pytest

from headrace.lowlevel import Batch, BoundedInjector, Computation, SendSink, StepError, Topology
from headrace.lowlevel.records.block import Block
from headrace.runners.engine.background_calls import PlainCall, ThreadCall
from headrace.runners.engine.clock import ManualClock
from headrace.runners.engine.messages import Sender, TaskReport
from headrace.runners.engine.options import RunOptions
from headrace.runners.engine.productions import Stragglers, WeakProductions, straggler
from headrace.runners.local import LocalRunner


class Service:
    """Acknowledges when it is told to."""

    def __init__(self):
        self.tries = []
        self.awake = False

    def __call__(self, epoch, rows):
        self.tries.append((epoch, rows))
        return self.awake


def digest(*streams, epoch=1, holds=None, keys=b""):
    weak = {"streams": {"a", "b"}, "releasing": {}}
    productions = WeakProductions(Topology(), None, SimpleNamespace(epoch=epoch), TaskReport(Sender(0, 0, "t")), **weak)
    for stream in streams:
        productions.note_sent(0, Block("count", stream, key_hashes=[keys.ljust(16)], counts=array("q", [2])))
    return productions.digest({}, holds or {})


def test_attempts_may_replace_each_other_if_all_that_they_sent_is_weak_and_as_much():
    assert digest("a", "b") == digest("a", "b") != ""
    others = [digest(), digest("a"), digest("b", "a"), digest("a", "b", epoch=2), digest("a", "b", holds={"c": 1})]
    assert digest("a", "b") not in [*others, digest("a", "b", keys=b"k")]
    assert digest("a", "strong") == digest("strong", "a") == ""


def stragglers_of(service):
    made = Topology()
    made.injector("in", BoundedInjector([]))
    made.sink("service", "in", SendSink(service))
    return Stragglers(made, lambda release: PlainCall(release, ManualClock()), delay=10)


ITEM = straggler("service", Batch(["a", "b"], [7, 5]), epoch=3, interval=1, token="t")


def test_a_straggler_is_released_at_its_time_and_again_after_the_delay():
    service = Service()
    some = stragglers_of(service)
    some.take([ITEM], due=100)
    assert some.next_due() == 100
    for now in (99, 100, 105, 110):
        some.release_due(now)
    assert service.tries == [(3, [("a", 7), ("b", 5)])] * 2
    assert (some.next_due(), some.unacknowledged(), some.done) == (120, [ITEM], False)


def test_one_that_is_acknowledged_is_forgotten_by_the_next_commit():
    service = Service()
    some = stragglers_of(service)
    service.awake = True
    some.take([ITEM], due=0)
    some.release_due(0)
    assert (some.unacknowledged(), some.done, some.next_due()) == ([], True, None)
    some.take([], due=0)
    assert not some.done


def test_what_a_release_of_the_driver_raises_names_the_sink():
    def broken(epoch, rows):
        raise ConnectionError("refused")

    some = stragglers_of(broken)
    some.take([ITEM], due=0)
    with pytest.raises(StepError, match=r"(?s)service.*ConnectionError: refused"):
        some.release_due(0)


def test_a_sink_that_takes_nothing_stops_the_reading_not_the_memory():
    class Weak(Computation):
        strong_productions = False

        def process_record(self, record, context):
            context.produce("out", "x" * (30 << 20))

    held, asleep = [], 40

    def send(epoch, rows):
        held.append(epoch)
        return len(held) > asleep

    made = Topology()
    made.injector("in", BoundedInjector([(number, number) for number in range(5)]))
    made.computation("weak", Weak(), {"in": lambda number: number}, ["out"])
    made.sink("service", "out", SendSink(send))
    result = LocalRunner().run_topology(made, RunOptions(max_records_per_epoch=1))
    assert max(held[:asleep]) == 3, "90 MiB wait: no fourth epoch"
    assert max(held) == 5 and result.counters["service"]["rows"] == 5


def test_a_call_is_timed_from_its_beginning():
    go, began = threading.Event(), threading.Event()

    def slow():
        began.set()
        return go.wait()

    call = ThreadCall(slow)
    began.wait()
    assert call.wait(0) is None and call.is_running
    go.set()
    assert call.wait(60_000_000) is True and not call.is_running
