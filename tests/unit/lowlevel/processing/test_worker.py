"""One bundle becomes one commit: order of records and timers, state, duplicates, holds, and what is left behind."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel import Computation, StepError, TimeDomain
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing import worker
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import Batch, KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import FEW_BYTES
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed


class Bench:
    """A computation on one interval; each call of `bundle` is one epoch, committed."""

    def __init__(self, computation, id_slack=0):
        self.copy = MemoryStateStore()
        self.out = []
        place = Keyed("step", computation, {"in": None}, frozenset({"out"}))
        self.worker = Worker(place, self.copy, self.emit, {"in": id_slack} if id_slack else None)
        self.watermark = MIN_TIMESTAMP

    def emit(self, stream, batch):
        self.out += list(batch.rows())

    def bundle(self, *records, watermark=None, wall_time=0, ids=None, commit=True):
        """Records are (key, value, timestamp); returns what was produced and the commit."""
        bundle = Bundle(watermark_before=self.watermark, wall_time=wall_time)
        bundle.watermark = self.watermark if watermark is None else watermark
        for i, (key, value, timestamp) in enumerate(records):
            encoded = encode_key(key)
            part = KeyRecords("in", [value], [timestamp], None if ids is None else [ids[i]])
            bundle.keys.setdefault(key_hash_of(encoded), (encoded, []))[1].append(part)
        self.out = []
        result = self.worker.run(bundle)
        if commit:
            self.copy.apply(result.delta)
            self.watermark = bundle.watermark
        return self.out, result


class Mixed(Computation):
    """Does what the value says: a computation of which some keys ask for their state and some do not."""

    def initial_state(self):
        return []

    def process_record(self, record, context):
        if record.value == "add":
            context.state = [*(context.state or ()), record.timestamp]
        elif record.value == "set":
            context.state = [record.timestamp]
        elif record.value == "drop":
            context.state = None
        elif record.value == "timer":
            context.set_timer("t", record.timestamp)
        elif record.value == "cell":
            context.write(b"c", (context.read(b"c") or b"") + b"%d" % record.timestamp)
        elif record.value == "large":
            context.write(b"l", (context.read(b"l") or b"") + bytes(FEW_BYTES // 3))
        elif record.value == "erase":
            context.write(b"c", None)
        elif record.value == "wipe":
            self.wipe(context, b"")
        elif record.value == "wipe l":
            self.wipe(context, b"l")
        elif record.value == "scan":
            context.produce("out", (context.key, list(context.scan()), list(context.scan(b"l"))))

    def wipe(self, context, prefix):
        context.erase(prefix)

    def process_timer(self, timer, context):
        context.produce("out", (context.key, timer, context.state))
        context.state = [*(context.state or ()), "fired"]


class OneByOne(Mixed):
    """Takes cells away as they are found."""

    def wipe(self, context, prefix):
        for name, _ in list(context.scan(prefix)):
            context.write(name, None)


_DEEDS = ["add", "set", "drop", "timer", "cell", "large", "erase", "wipe", "wipe l", "scan", "nothing"]
deeds = st.sampled_from(_DEEDS)
epochs = st.lists(st.lists(st.tuples(st.integers(0, 30), deeds, st.integers(0, 40)), max_size=60), max_size=4)


@given(epochs, st.sampled_from([(1, 1), (2, 7)]))
def test_what_is_looked_up_together_is_what_is_looked_up_one_by_one(epochs, sizes):
    usual, small = Bench(Mixed()), Bench(Mixed())
    for watermark, records in enumerate(epochs):
        out, commit = usual.bundle(*records, watermark=10 * watermark)
        with mock.patch.multiple(worker, _FIRST_PREFETCH_SIZE=sizes[0], _PREFETCH_SIZE=sizes[1]):
            same_out, same = small.bundle(*records, watermark=10 * watermark)
        assert (same_out, same.counters, same.delta.marks) == (out, commit.counters, commit.delta.marks)
        assert list(small.copy.dump()) == list(usual.copy.dump())


@given(epochs)
def test_erased_by_prefix_is_what_is_found_and_taken_away(epochs):
    at_once, single = Bench(Mixed()), Bench(OneByOne())
    for watermark, records in enumerate(epochs):
        with mock.patch.multiple(worker, _FIRST_PREFETCH_SIZE=2, _PREFETCH_SIZE=3):
            out, _ = at_once.bundle(*records, watermark=10 * watermark)
            own, _ = single.bundle(*records, watermark=10 * watermark)
        assert own == out
        assert list(single.copy.dump()) == list(at_once.copy.dump())


@pytest.mark.parametrize("asked", [True, False])
def test_cells_of_the_keys_ahead_are_read_together_where_those_before_were_asked_for(asked):
    bench = Bench(Mixed())
    keys = range(40)
    bench.bundle(*((key, "cell", 0) for key in keys))
    with mock.patch.object(bench.copy, "get", side_effect=bench.copy.get) as get:
        bench.bundle(*((key, "cell" if asked else "set", 1) for key in keys))
        assert [b"c" in call.args for call in get.call_args_list].count(True) == (16 if asked else 0)
    with mock.patch.object(bench.copy, "cells_of", side_effect=bench.copy.cells_of) as cells_of:
        bench.bundle(*((key, "cell" if asked else "set", 2) for key in keys))
        assert cells_of.call_count == asked
    for key in keys:
        assert bench.copy.get(key_hash_of(encode_key(key)), b"c") == (b"012" if asked else b"0")


def test_cells_that_were_read_together_are_scanned_and_erased_as_any():
    bench = Bench(Mixed())
    keys = range(40)
    bench.bundle(*((key, deed, 0) for key in keys for deed in ("cell", "large", "add")))
    out, _ = bench.bundle(*((key, deed, 1) for key in keys for deed in ("erase", "cell", "scan")))
    large = (b"l", bytes(FEW_BYTES // 3))
    assert [value for value, _ in out] == [(key, [(b"c", b"1"), large], [large]) for key in keys]
    _, commit = bench.bundle(*((key, deed, 2) for key in keys for deed in ("scan", "erase")))
    assert [commit.delta.cells.get((key_hash_of(encode_key(key)), b"c"), "kept") for key in keys] == [None] * 40
    _, commit = bench.bundle(*((key, deed, 3) for key in keys for deed in ("scan", "erase")))
    assert len(commit.delta.cells) == 16, "what is known not to be there need not be taken away"
    assert bench.copy.count()["cells"] == 80


@given(st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9)), max_size=20), st.integers(0, 10))
def test_late_records_are_counted_whether_or_not_the_oldest_is_known(records, watermark):
    told, untold = Bench(Total()), Bench(Total())
    told.watermark = untold.watermark = watermark
    counted = []
    for bench, oldest in ((told, True), (untold, False)):
        bundle = Bundle(watermark_before=watermark, watermark=watermark)
        for key in dict.fromkeys(key for key, _ in records):
            times = [time for its, time in records if its == key]
            encoded = encode_key(key)
            part = KeyRecords("in", [1] * len(times), times)
            bundle.keys[key_hash_of(encoded)] = (encoded, [part._replace(oldest=min(times)) if oldest else part])
        counted.append(bench.worker.run(bundle).counters)
    assert counted[0] == counted[1]
    assert counted[0].get("late", 0) == sum(time < watermark for _, time in records)


def test_a_state_that_is_replaced_without_a_look_is_stored_and_one_as_it_was_is_not():
    bench = Bench(Mixed())
    bench.bundle(("k", "add", 1))
    assert bench.bundle(("k", "set", 1), commit=False)[1].delta.cells == {}
    _, commit = bench.bundle(("k", "set", 2))
    assert list(commit.delta.cells) == [(key_hash_of(encode_key("k")), b"")]
    bench.bundle(("k", "drop", 3))
    assert bench.copy.count()["keys"] == 0


class Script(Computation):
    """Does what the value says, a function of the context, and logs what fires."""

    def process_record(self, record, context):
        record.value(context)

    def process_timer(self, timer, context):
        context.produce("out", (timer.tag, timer.timestamp, timer.domain.name, context.watermark), timer.timestamp)
        if timer.tag == "again":
            context.set_timer("third", timer.timestamp + 5)


def do(function):
    return ("k", function, 1)


def test_timers_fire_in_order_and_those_set_meanwhile_take_their_place():
    bench = Bench(Script())
    out, _ = bench.bundle(do(lambda c: c.set_timer("late", 50)), do(lambda c: c.set_timer("again", 10)), watermark=100)
    assert [(row[0][0], row[1]) for row in out] == [("again", 10), ("third", 15), ("late", 50)]
    assert bench.copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_a_timer_fires_when_the_watermark_reaches_it_and_not_before():
    bench = Bench(Script())
    bench.bundle(do(lambda c: c.set_timer("t", 50)))
    assert bench.bundle(watermark=49)[0] == []
    out, _ = bench.bundle(watermark=50)
    assert out == [(("t", 50, "LOW_WATERMARK", 50), 50)]
    assert bench.bundle(watermark=60)[0] == []


def test_wall_timers_fire_before_the_watermark_moves():
    bench = Bench(Script())
    bench.bundle(
        do(lambda c: c.set_timer("wall", 7, TimeDomain.WALL_TIME)), do(lambda c: c.set_timer("event", 5)), watermark=0
    )
    out, _ = bench.bundle(watermark=10, wall_time=7)
    assert [row[0] for row in out] == [("wall", 7, "WALL_TIME", 0), ("event", 5, "LOW_WATERMARK", 10)]


def test_replaced_and_deleted_timers_do_not_fire():
    bench = Bench(Script())
    bench.bundle(do(lambda c: (c.set_timer("moved", 5), c.set_timer("gone", 5))))
    bench.bundle(do(lambda c: (c.set_timer("moved", 50), c.delete_timer("gone"))))
    assert bench.bundle(watermark=10)[0] == []
    assert [row[0][0] for row in bench.bundle(watermark=50)[0]] == ["moved"]
    assert bench.copy.count()["marks"] == 0


def test_due_timer_moved_by_a_record_of_the_same_bundle():
    bench = Bench(Script())
    bench.bundle(do(lambda c: c.set_timer("t", 5)))
    assert bench.bundle(do(lambda c: c.set_timer("t", 500)), watermark=10)[0] == []


def test_tags_are_apart_by_domain():
    bench = Bench(Script())
    bench.bundle(do(lambda c: (c.set_timer("t", 5), c.set_timer("t", 6, TimeDomain.WALL_TIME))))
    out, _ = bench.bundle(watermark=9, wall_time=9)
    assert [row[0][2] for row in out] == ["WALL_TIME", "LOW_WATERMARK"]


class Total(Computation):
    def initial_state(self):
        return []

    def process_record(self, record, context):
        context.state.append(record.value)
        if context.is_late(record):
            context.produce("out", "late")

    def process_timer(self, timer, context):
        context.state = None


def test_state_is_changed_in_place_and_lasts():
    bench = Bench(Total())
    bench.bundle(("a", 1, 5), ("b", 9, 5), ("a", 2, 5))
    _, commit = bench.bundle(("a", 3, 5))
    assert len(commit.delta.cells) == 1
    stored = {bench.copy.key(row): data for row, data in ((r, bench.copy.get(r, b"")) for r in map(key_hash_of, KEYS))}
    assert {key: Total.state_coder.decode(data) for key, data in stored.items()} == {b"sa": [1, 2, 3], b"sb": [9]}


KEYS = (encode_key("a"), encode_key("b"))


def test_state_only_looked_at_is_not_written():
    class Look(Computation):
        def process_record(self, record, context):
            context.produce("out", context.state)

    bench = Bench(Look())
    _, commit = bench.bundle(("a", 1, 5))
    assert not commit.delta


def test_late_is_behind_the_watermark_by_the_microsecond():
    bench = Bench(Total())
    bench.bundle(watermark=100)
    out, commit = bench.bundle(("a", 1, 99), ("a", 1, 100), ("a", 1, 101))
    assert out == [("late", 99)]
    assert commit.counters["late"] == 1


def test_duplicates_are_dropped_within_and_across_bundles_and_forgotten_after_the_slack():
    bench = Bench(Total(), id_slack=50)
    _, commit = bench.bundle(("a", 1, 5), ("a", 1, 5), ("a", 2, 6), ids=[b"1", b"1", b"2"])
    assert commit.counters["duplicates"] == 1
    _, commit = bench.bundle(("a", 1, 5), ("a", 3, 7), ids=[b"1", b"3"])
    assert commit.counters == {"duplicates": 1, "ids_asked": 1, "records": 1}
    assert bench.copy.count()["ids"] == 3
    bench.bundle(watermark=56)
    assert bench.copy.count()["ids"] == 2
    bench.bundle(watermark=58)
    assert bench.copy.count()["ids"] == 0


def test_without_exactly_once_ids_are_not_looked_at():
    class AtLeastOnce(Total):
        exactly_once = False

    bench = Bench(AtLeastOnce(), id_slack=50)
    _, commit = bench.bundle(("a", 1, 5), ("a", 1, 5), ids=[b"1", b"1"])
    assert commit.counters == {"records": 2}
    assert bench.copy.count()["ids"] == 0


def test_ids_of_two_streams_have_nothing_to_do_with_each_other():
    copy = MemoryStateStore()
    place = Keyed("step", Total(), {"one": None, "two": None}, frozenset({"out"}))
    worker = Worker(place, copy, lambda stream, batch: None, {"one": 10, "two": 100})
    key = encode_key("a")
    parts = [KeyRecords(stream, [1], [5], [b"same"]) for stream in ("one", "two", "one")]
    commit = worker.run(Bundle({key_hash_of(key): (key, parts)}))
    assert commit.counters == {"duplicates": 1, "records": 2}
    assert sorted(commit.delta.ids.values()) == [15, 105]


def test_holds_are_reported_and_released():
    bench = Bench(Script())
    _, commit = bench.bundle(("a", lambda c: c.hold(40), 1), ("b", lambda c: c.hold(30, "x"), 1))
    assert commit.hold.timestamp == 30
    _, commit = bench.bundle(("b", lambda c: c.release("x"), 1))
    assert commit.hold.timestamp == 40
    _, commit = bench.bundle(("a", lambda c: c.hold(60), 1))
    assert commit.hold.timestamp == 60
    _, commit = bench.bundle(("a", lambda c: c.release(), 1))
    assert commit.hold is None
    assert bench.copy.count()["marks"] == 0


def test_the_hold_of_a_timer_ends_with_it():
    bench = Bench(Script())
    _, commit = bench.bundle(do(lambda c: c.set_timer("t", 50, hold=20)))
    assert commit.hold.timestamp == 20
    assert bench.bundle(watermark=50)[1].hold is None
    assert bench.copy.count()["marks"] == 0


def test_next_wall_timer_is_reported():
    bench = Bench(Script())
    _, commit = bench.bundle(
        do(lambda c: (c.set_timer("a", 9, TimeDomain.WALL_TIME), c.set_timer("b", 5, TimeDomain.WALL_TIME)))
    )
    assert commit.next_wall_timer == 5
    assert bench.bundle(wall_time=5)[1].next_wall_timer == 9


def test_nothing_changes_without_a_commit():
    bench = Bench(Total())
    bench.bundle(("a", 1, 5), commit=False)
    assert bench.copy.count() == {"keys": 0, "cells": 0, "marks": 0, "ids": 0, "segments": 0}


def test_what_user_code_raises_names_step_key_and_value():
    class Picky(Computation):
        def process_record(self, record, context):
            raise ValueError("negative")

    with pytest.raises(
        StepError, match=r"step 'step' raised for key 'a' at -1; nothing(.|\n)*ValueError: negative"
    ) as info:
        Bench(Picky()).bundle(("a", -1, 5))
    assert "in process_record" in str(info.value)
    assert "ValueError: negative" in str(info.value)
    assert "lowlevel/processing/worker.py" not in str(info.value)


def test_undeclared_stream():
    with pytest.raises(StepError, match="produces to stream 'other', which it does not declare"):
        Bench(Script()).bundle(do(lambda c: c.produce("other", 1)))


def test_cells_beside_the_state():
    bench = Bench(Script())
    bench.bundle(do(lambda c: (c.write(b"w/2", b"two"), c.write(b"w/1", b"one"), c.write(b"x", b"y"))))

    def look(c):
        c.write(b"w/1", None)
        c.write(b"w/3", b"three")
        assert list(c.scan(b"w/")) == [(b"w/2", b"two"), (b"w/3", b"three")]
        assert c.read(b"w/1") is None
        assert c.read(b"x") == b"y"
        c.produce("out", "looked")

    assert bench.bundle(do(look))[0] == [("looked", 1)]
    assert bench.copy.count()["cells"] == 3


def test_endless_timers_are_stopped(monkeypatch):
    class Endless(Computation):
        def process_record(self, record, context):
            context.set_timer("t", 5)

        def process_timer(self, timer, context):
            context.set_timer("t", timer.timestamp)

    monkeypatch.setattr("headrace.lowlevel.processing.worker.ENDLESS", 100)
    with pytest.raises(RuntimeError, match=r"for key 'a' at .*\n100 timers fired for this key in one bundle"):
        Bench(Endless()).bundle(("a", 1, 5), watermark=10)


def test_a_timer_says_where_it_held_the_watermark():
    seen = []

    class Held(Script):
        def process_timer(self, timer, context):
            seen.append((timer.tag, timer.hold))

    bench = Bench(Held())
    bench.bundle(do(lambda c: (c.set_timer("held", 50, hold=7), c.set_timer("free", 50))))
    bench.bundle(watermark=60)
    assert sorted(seen) == [("free", None), ("held", 7)]


def test_a_key_lists_its_timers_by_domain():
    listed = []

    def look(context):
        context.delete_timer("gone")
        context.set_timer("moved", 30)
        listed.append([sorted(context.timers()), sorted(context.timers(TimeDomain.WALL_TIME))])

    bench = Bench(Script())
    bench.bundle(do(lambda c: (c.set_timer("gone", 50), c.set_timer("moved", 20), c.set_timer("stays", 40))))
    bench.bundle(do(lambda c: c.set_timer("wall", 9, TimeDomain.WALL_TIME)))
    bench.bundle(do(look))
    assert listed == [[[("moved", 30), ("stays", 40)], [("wall", 9)]]]


def test_a_scan_sees_what_the_bundle_changed_and_reads_no_further_than_asked():
    seen = []

    def change(context):
        context.write(b"b2", None)
        context.write(b"b3", b"new")
        context.write(b"b5", b"added")
        seen.append(list(context.scan(b"b")))
        seen.append(next(context.scan(b"")))

    bench = Bench(Script())
    bench.bundle(do(lambda c: [c.write(name, name) for name in (b"a", b"b1", b"b2", b"b3", b"b4", b"c")]))
    bench.bundle(do(change))
    assert seen == [[(b"b1", b"b1"), (b"b3", b"new"), (b"b4", b"b4"), (b"b5", b"added")], (b"a", b"a")]


def test_bundles_begin_and_end_but_not_where_there_is_nothing_to_do():
    calls = []

    class Bracketed(Script):
        def start_bundle(self):
            calls.append("start")

        def process_record(self, record, context):
            calls.append(record.value)

        def finish_bundle(self, emit):
            calls.append("finish")
            emit("out", Batch(["last"], [5]))

    bench = Bench(Bracketed())
    bench.bundle(watermark=1)
    assert calls == []
    out, _ = bench.bundle(("a", 1, 1), ("b", 2, 1))
    assert sorted(map(str, calls[1:-1])) == ["1", "2"] and (calls[0], calls[-1]) == ("start", "finish")
    assert out == [("last", 5)]


def test_an_error_at_the_end_of_a_bundle_names_the_step():
    class Failing(Script):
        def process_record(self, record, context):
            pass

        def finish_bundle(self, emit):
            raise ValueError("cannot flush")

    with pytest.raises(StepError, match=r"step 'step' raised; nothing.*(?s:.)*cannot flush"):
        Bench(Failing()).bundle(("a", 1, 1))


def test_a_timer_set_again_to_the_same_time_without_its_hold_holds_no_longer():
    bench = Bench(Script())
    _, commit = bench.bundle(do(lambda c: (c.set_timer("t", 50, hold=7), c.set_timer("t", 50))))
    assert commit.hold is None
