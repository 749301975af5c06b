"""An injector of several processes: whom the watermark waits for, who may hand over, what is handed over."""

from __future__ import annotations

import json

import pytest

from headrace.lowlevel import (
    CallSink,
    Computation,
    HandoverError,
    HeadraceError,
    InjectorProcess,
    ManualInjector,
    ProcessInjector,
    StepError,
    Topology,
)
from headrace.lowlevel.coders.coder import PickleCoder
from headrace.lowlevel.injectors.handover_log import Handover, HandoverEntry
from headrace.lowlevel.storage.envelope import wrap
from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from headrace.runners.engine.options import RunOptions
from headrace.runners.local import LocalRunner
from tests.stores import DictStore

HOSTS = {"host-a", "host-b"}


def delivered(delivery):
    return [row for split in delivery.splits for batch in split.read() for row in batch.rows()]


def test_a_silent_process_holds_the_watermark_and_is_named():
    place = DictStore()
    injector = ProcessInjector(place, HOSTS)
    a = InjectorProcess.open(place, "host-a").write([("x", 5)], watermark=5)
    delivery = injector.plan(injector.start(), 100, 1)
    assert delivered(delivery) == [("x", 5)]
    assert (delivery.watermark, delivery.done, delivery.idle) == (MIN_TIMESTAMP, False, False)
    assert injector.holder(delivery.position) == "process 'host-b', which has never reported"
    b = InjectorProcess.open(place, "host-b")
    delivery = injector.plan(delivery.position, 100, 1)
    assert injector.holder(delivery.position) == "process 'host-b', which has not stated a watermark yet"
    b.advance(3)
    a.close()
    delivery = injector.plan(delivery.position, 100, 1)
    assert (delivery.watermark, delivery.done) == (3, False)
    assert injector.holder(delivery.position) == "process 'host-b', whose last watermark is 3"
    assert injector.plan(delivery.position, 100, 1).idle
    b.advance(9).close()
    delivery = injector.plan(delivery.position, 100, 1)
    assert (delivery.watermark, delivery.done) == (MAX_TIMESTAMP, True)
    assert injector.holder(delivery.position) is None


def test_the_watermark_never_goes_back():
    place = DictStore()
    process = InjectorProcess.open(place, "host-a").advance(50)
    with pytest.raises(HandoverError, match="is 50 and cannot go back to 49; records behind it may be written"):
        process.advance(49)
    with pytest.raises(HandoverError, match="cannot go back"):
        InjectorProcess.open(place, "host-a").write([("x", 1)], watermark=10)
    injector = ProcessInjector(place, {"host-a"})
    delivery = injector.plan(injector.start(), 100, 1)
    assert (delivered(delivery), delivery.watermark) == ([], 50)
    # A process that does not keep to that moves nothing either.
    assert Handover(place, PickleCoder()).enter("host-a", 4, HandoverEntry(10))
    assert injector.plan(delivery.position, 100, 1).watermark == 50


def test_a_process_that_is_not_expected_is_refused():
    place = DictStore()
    ProcessInjector(place, HOSTS).plan({}, 1, 1)
    with pytest.raises(HandoverError, match=r"no process 'host-c' is expected at dict:// \(expected: host-a, host-b\)"):
        InjectorProcess.open(place, "host-c")
    assert not place.list("entries")


def test_a_process_that_nobody_expected_stops_the_injector_instead_of_being_lost():
    place = DictStore()
    InjectorProcess.open(place, "host-c").write([("x", 1)])
    with pytest.raises(HandoverError, match="process 'host-c' hands records over to dict:// but is not expected"):
        ProcessInjector(place, HOSTS).plan({}, 1, 1)


def test_the_expected_set_can_change_with_a_restart_once_a_process_has_closed():
    place = DictStore()
    for name in ("host-a", "host-b"):
        InjectorProcess.open(place, name).write([(name, 1)], watermark=1)
    first = ProcessInjector(place, HOSTS).plan({}, 100, 1)
    with pytest.raises(HandoverError, match="'host-b' hands records over"):
        ProcessInjector(place, {"host-a", "host-c"}).plan(first.position, 100, 1)
    InjectorProcess.open(place, "host-b").close()
    second = ProcessInjector(place, HOSTS).plan(first.position, 100, 1)
    third = ProcessInjector(place, {"host-a", "host-c"}).plan(second.position, 100, 1)
    assert third.watermark == MIN_TIMESTAMP
    InjectorProcess.open(place, "host-c").write([("host-c", 7)], watermark=7)
    fourth = ProcessInjector(place, {"host-a", "host-c"}).plan(third.position, 100, 1)
    assert (delivered(fourth), fourth.watermark) == ([("host-c", 7)], 1)


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x", "a" * 101, "ü"])
def test_names_that_cannot_stand_in_a_path_are_refused(name):
    for make in (lambda: InjectorProcess.open(DictStore(), name), lambda: ProcessInjector(DictStore(), [name])):
        with pytest.raises(HandoverError, match="cannot name an injector process"):
            make()


def test_at_least_one_process_is_expected():
    with pytest.raises(HandoverError, match="name at least one"):
        ProcessInjector(DictStore(), [])


def test_whoever_had_the_name_before_can_hand_over_nothing_more():
    place = DictStore()
    old = InjectorProcess.open(place, "host-a").write([("kept", 1)])
    new = InjectorProcess.open(place, "host-a")
    for attempt in (lambda: old.write([("lost", 3)], watermark=99), lambda: old.advance(99), old.close):
        with pytest.raises(HandoverError, match="was started again elsewhere"):
            attempt()
    new.write([("new", 2)]).close()
    delivery = ProcessInjector(place, {"host-a"}).plan({}, 100, 1)
    assert (delivered(delivery), delivery.done) == ([("kept", 1), ("new", 2)], True)


def test_nothing_follows_a_close():
    place = DictStore()
    process = InjectorProcess.open(place, "host-a")
    process.close()
    for attempt in (lambda: process.write([("x", 1)]), lambda: InjectorProcess.open(place, "host-a")):
        with pytest.raises(HandoverError, match="has closed its input"):
            attempt()


def test_bundles_of_about_the_size_asked_for_those_behind_first():
    place = DictStore()
    for name, step in (("host-a", 1), ("host-b", 10)):
        process = InjectorProcess.open(place, name)
        for turn in range(6):
            process.write([(f"{name} {turn}", turn * step)] * 2, watermark=turn * step)
    injector, position, seen = ProcessInjector(place, HOSTS), {}, []
    while not (delivery := injector.plan(position, 5, 2)).idle:
        assert len(delivered(delivery)) <= 6 and len(delivery.splits) <= 2
        assert delivered(delivery) == delivered(ProcessInjector(place, HOSTS).plan(position, 5, 2))
        seen, position = seen + delivered(delivery), delivery.position
        assert all(timestamp >= delivery.watermark for _, timestamp in delivered(injector.plan(position, 5, 2)))
    assert sorted(seen) == sorted(
        (f"{name} {turn}", turn * step)
        for name, step in (("host-a", 1), ("host-b", 10))
        for turn in range(6)
        for _ in range(2)
    )
    assert [value for value, _ in seen if value.startswith("host-a")] == [f"host-a {turn // 2}" for turn in range(12)]


def test_ids_notes_and_other_coders():
    class Text:
        def encode(self, value):
            return "|".join(value).encode()

        def decode(self, data):
            return data.decode().split("|")

    place = DictStore()
    process = InjectorProcess.open(place, "host-a", Text()).write([("a", 1), ("b", 2)], [b"1", b"two"], progress="at 2")
    process.advance(2)
    assert (InjectorProcess.open(place, "host-a").progress, InjectorProcess.open(place, "host-a").watermark) == (
        "at 2",
        2,
    )
    with pytest.raises(HandoverError, match="gives 1 ids for 2 records"):
        process.write([("a", 1), ("b", 2)], [b"1"])
    (split,) = ProcessInjector(place, {"host-a"}, Text()).plan({}, 100, 1).splits
    (batch,) = split.read()
    assert (batch.values, batch.timestamps, batch.ids) == (["a", "b"], [1, 2], [b"1", b"two"])


def test_what_is_committed_is_discarded_and_processes_still_go_on():
    place = DictStore()
    process = InjectorProcess.open(place, "host-a")
    injector = ProcessInjector(place, {"host-a"}, discard=True)
    for number in range(5):
        process.write([(number, number)], watermark=number, progress=str(number))
    delivery = injector.plan({}, 3, 1)
    taken = delivered(delivery)
    injector.committed(delivery.position)
    assert len(place.list("records")) == 2
    rest = injector.plan(delivery.position, 100, 1)
    assert taken + delivered(rest) == [(number, number) for number in range(5)]
    injector.committed(rest.position)
    assert (len(place.list("records")), len(place.list("entries"))) == (0, 1)
    process = InjectorProcess.open(place, "host-a")
    assert (process.progress, process.watermark) == ("4", 4)
    process.write([(5, 5)]).close()
    last = injector.plan(rest.position, 100, 1)
    assert (delivered(last), last.done) == ([(5, 5)], True)


def test_records_that_are_gone_or_damaged_are_named():
    place = DictStore()
    InjectorProcess.open(place, "host-a").write([("x", 1)])
    (path,) = place.list("records")
    delivery = ProcessInjector(place, {"host-a"}).plan({}, 100, 1)
    place.objects[path] = place.objects[path][:-1]
    with pytest.raises(HeadraceError, match=r"records/host-a/.* in dict:// is damaged"):
        delivered(delivery)
    place.delete(path)
    with pytest.raises(HandoverError, match=r"records/host-a/.* in dict:// was handed over and is gone"):
        delivered(delivery)


@pytest.mark.parametrize(
    "fields",
    [
        [1, 1, "../elsewhere", False, ""],
        [1, 1, "records/host-a/00000000000000000002-" + "0" * 32, False, ""],
        [1, 1, "records/host-b/00000000000000000001-" + "0" * 32, False, ""],
        [1, 1, 7, False, ""],
        [1, 2, 3, 4, 5, 6],
        7,
    ],
)
def test_a_hand_over_that_no_process_wrote_is_refused_by_name(fields):
    place = DictStore()
    data = wrap("hand-over of an injector's process", 1, [json.dumps(fields).encode()])
    place.put_if_absent("entries/host-a/00000000000000000001", data)
    with pytest.raises(HeadraceError, match="entries/host-a/00000000000000000001 in dict:// is whole but says"):
        ProcessInjector(place, {"host-a"}).plan({}, 1, 1)


class Late(Computation):
    """Puts out every record, and whether it was late."""

    def process_record(self, record, context):
        context.produce("seen", (record.value, context.is_late(record)))


def test_a_record_behind_its_own_process_is_late_not_lost(tmp_path):
    topology, rows = Topology(), []
    topology.injector("in", ProcessInjector(tmp_path, {"host-a"}))
    topology.computation("late", Late(), {"in": lambda value: value}, ["seen"])
    topology.sink("rows", "seen", CallSink(lambda epoch, more: rows.extend(more)))
    InjectorProcess.open(tmp_path, "host-a").write([("early", 9)], watermark=10).write([("late", 9)]).close()
    result = LocalRunner().run_topology(topology, RunOptions(max_records_per_epoch=1))
    assert sorted(value for value, _ in rows) == [("early", False), ("late", True)]
    assert result.total("late") == 1


class _Pass(Computation):
    def process_record(self, record, context):
        context.produce("out", record.value)


def _counting(injector):
    topology = Topology()
    topology.injector("in", injector)
    topology.computation("pass", _Pass(), {"in": lambda value: value}, ["out"])
    out = []
    topology.sink("out", "out", CallSink(lambda _, rows: out.extend(value for value, _ in rows)))
    return topology, out


def test_records_without_the_ids_that_the_injector_promises_stop_the_run():
    place = DictStore()
    InjectorProcess.open(place, "host-a").write([("x", 1)], ids=[b"1"]).write([("y", 2), ("x", 1)]).close()
    topology, out = _counting(ProcessInjector(place, ["host-a"], record_ids=True))
    said = r"(?s)step 'in' raised; nothing of this epoch is committed.*'host-a' handed 2 records over without ids"
    with pytest.raises(StepError, match=said):
        LocalRunner().run_topology(topology)
    assert out == []
    # The remedy that the message names: without the promise, all of them are taken.
    topology, out = _counting(ProcessInjector(place, ["host-a"]))
    LocalRunner().run_topology(topology)
    assert sorted(out) == ["x", "x", "y"]


def test_so_do_those_of_any_other_injector():
    topology, _ = _counting(ManualInjector(record_ids=True).records(("x", 1)))
    with pytest.raises(StepError, match=r"(?s)step 'in' raised.*record_ids=True, but 1 of its records come without"):
        LocalRunner().run_topology(topology)
