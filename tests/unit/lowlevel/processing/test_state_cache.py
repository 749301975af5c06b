"""Decoded state kept from bundle to bundle: when it stands for committed bytes, and what gives way to what."""

from __future__ import annotations

import pytest

from headrace.lowlevel import Computation, PickleCoder
from headrace.lowlevel.coders.coder import encode_key, key_hash_of
from headrace.lowlevel.processing.bundle import Bundle
from headrace.lowlevel.processing.state_cache import SMALLEST, KeyStates, StateCache
from headrace.lowlevel.processing.worker import Worker
from headrace.lowlevel.records.record import KeyRecords
from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.time import MIN_TIMESTAMP
from headrace.lowlevel.topology.nodes import Keyed
from headrace.options.pipeline_options import PipelineOptions
from headrace.runners.engine.options import RunOptions
from headrace.sdk.pipeline.runner_choice import run_options

ENOUGH = 10_000_000
SIZE = 10 * 500 + 500
"""What a state of 500 bytes counts as."""


class Private(Computation):
    private_state = True


def states_of(cache: StateCache, name: str = "step", passed: int = 0) -> KeyStates:
    states = cache.of(name, Private(), passed)
    assert states is not None
    return states


def data(number: int) -> bytes:
    """An encoded state of 500 bytes."""
    encoded = PickleCoder().encode(str(number).rjust(500 - len(PickleCoder().encode("x" * 300)) + 300))
    assert len(encoded) == 500
    return encoded


def keep(states: KeyStates, *rows: int, due: int) -> None:
    for row in rows:
        states.keep(b"%d" % row, data(row), object(), due)


def kept(states: KeyStates) -> list[int]:
    return sorted(int(row) for row in states.entries)


def test_only_computations_that_promise_take_part() -> None:
    assert StateCache(ENOUGH).of("step", Computation(), 0) is None
    assert StateCache(0).of("step", Private(), 0) is None


def test_an_object_stands_for_the_bytes_that_it_was_encoded_to_and_no_others() -> None:
    cache = StateCache(ENOUGH)
    states, value = states_of(cache), [1]
    states.keep(b"row", PickleCoder().encode([1]), value)
    assert states.take(b"row", PickleCoder().encode([2])) == [2], "another process went on from it"
    states.keep(b"row", PickleCoder().encode([1]), value)
    assert states_of(cache, "other step").take(b"row", PickleCoder().encode([1])) is not value
    assert states.take(b"row", PickleCoder().encode([1])) is value
    assert (cache.hits, cache.asked, len(cache), cache.used) == (1, 3, 0, 0)


def test_what_a_failed_bundle_had_taken_is_gone() -> None:
    states, value = states_of(StateCache(ENOUGH)), [1]
    states.keep(b"row", PickleCoder().encode([1]), value, due=5)
    states.take(b"row", PickleCoder().encode([1]))
    value.append(2)
    states.begin(0)
    assert states.due_of(b"row") is None
    assert states.take(b"row", PickleCoder().encode([1])) == [1]


def test_what_is_needed_last_gives_way_even_if_it_was_just_written() -> None:
    states = states_of(StateCache(3 * SIZE))
    keep(states, 1, due=60)
    keep(states, 2, due=1000)
    keep(states, 3, due=61)
    keep(states, 4, due=30)
    assert kept(states) == [1, 3, 4]
    keep(states, 5, due=900)
    assert kept(states) == [1, 3, 4]


def test_among_equals_those_stay_that_were_there() -> None:
    """A round of keys that does not fit would push every key out just before its turn, by recency alone."""
    cache = StateCache(3 * SIZE)
    states = states_of(cache)
    for _ in range(4):
        for row in range(4):
            states.take(b"%d" % row, data(row))
            keep(states, row, due=60)
    assert (cache.hits, cache.asked) == (9, 16)


def test_a_key_keeps_its_place_and_may_get_another_by_its_timers() -> None:
    states = states_of(StateCache(2 * SIZE))
    keep(states, 1, 2, due=60)
    states.take(b"1", data(1))
    assert states.due_of(b"1") == 60
    keep(states, 1, due=200)
    keep(states, 3, due=100)
    assert kept(states) == [2, 3]


def test_keys_nobody_asks_for_make_room_in_the_end() -> None:
    """Timers that fired in another process, and keys that do not come any more."""
    cache = StateCache(4 * SIZE)
    states = states_of(cache)
    keep(states, 1, 2, due=60)
    keep(states, 3, 4, due=5000)
    states_of(cache, passed=60)
    for row in range(10, 100):
        keep(states, row, due=9000)
    assert not {1, 2, 3, 4} & set(kept(states))
    assert len(cache) == 4


def test_a_state_larger_than_everything_is_not_kept() -> None:
    cache = StateCache(SIZE - 1)
    keep(states_of(cache), 1, due=60)
    assert (len(cache), cache.used) == (0, 0)


def test_what_is_noted_of_the_order_stays_in_proportion() -> None:
    cache = StateCache(ENOUGH)
    states = states_of(cache)
    for step in range(5000):
        states.take(b"%d" % (step % 7), data(step % 7))
        keep(states, step % 7, due=step)
    assert len(cache) == 7
    assert len(cache._order) <= 2 * 7 + 64


class Windowed(Private):
    """A buffer that is read again when its window ends."""

    decoded = 0

    class Coder(PickleCoder):
        def decode(self, data: bytes) -> object:
            Windowed.decoded += 1
            return super().decode(data)

    state_coder = Coder()

    def initial_state(self):
        return ["x" * SMALLEST]

    def process_record(self, record, context):
        context.state.append(record.value)
        context.set_timer("end", 100)

    def process_timer(self, timer, context):
        context.produce("out", len(context.state))
        context.state = None


def bundle(worker: Worker, copy: MemoryStateStore, keys: str, before: int, watermark: int, commit: bool = True) -> None:
    encoded = {key: encode_key(key) for key in keys}
    parts = {key_hash_of(code): (code, [KeyRecords("in", [key], [before])]) for key, code in encoded.items()}
    result = worker.run(Bundle(parts, before, watermark))
    if commit:
        copy.apply(result.delta)


def test_the_worker_decodes_once_what_it_keeps() -> None:
    copy, cache, out = MemoryStateStore(), StateCache(ENOUGH), []
    place = Keyed("step", Windowed(), {"in": None}, frozenset({"out"}))
    worker = Worker(place, copy, lambda stream, batch: out.extend(batch.values), states=cache)
    Windowed.decoded = 0
    bundle(worker, copy, "abc", MIN_TIMESTAMP, 10)
    bundle(worker, copy, "ab", 10, 20)
    assert (Windowed.decoded, cache.hits, len(cache)) == (0, 2, 3)
    bundle(worker, copy, "a", 20, 30, commit=False)
    bundle(worker, copy, "a", 20, 30)
    assert (Windowed.decoded, cache.hits) == (1, 3), "the attempt given up had changed what was kept"
    bundle(worker, copy, "", 30, 100)
    assert sorted(out) == [2, 3, 4]
    assert (Windowed.decoded, cache.hits, len(cache)) == (1, 6, 0)
    assert copy.count()["keys"] == 0


def test_the_timer_that_is_due_first_counts() -> None:
    cache, copy = StateCache(ENOUGH), MemoryStateStore()

    class Timers(Private):
        def process_record(self, record, context):
            context.state = ["x" * SMALLEST]
            context.set_timer("later", 500)
            context.set_timer("sooner", 300)
            context.hold(5)
            context.set_timer("clock", 40, domain=1)

        def process_timer(self, timer, context):
            assert context.state

    place = Keyed("step", Timers(), {"in": None}, frozenset())
    worker = Worker(place, copy, lambda stream, batch: None, states=cache)
    bundle(worker, copy, "a", MIN_TIMESTAMP, 100)
    [entry] = states_of(cache).entries.values()
    assert entry.due == 140, "the clock says 0 while the watermark is at 100"
    bundle(worker, copy, "", 100, 300)
    [entry] = states_of(cache).entries.values()
    assert entry.due == 340, "the clock stands still"


def test_the_size_is_an_option() -> None:
    assert run_options(PipelineOptions(["--cache_mb=3"])) == RunOptions(cache_bytes=3 << 20)
    assert run_options(PipelineOptions(["--cache_mb=0"])) == RunOptions(cache_bytes=0)
    assert run_options(PipelineOptions([])) == RunOptions()
    with pytest.raises(ValueError, match=r"cache_bytes \(--cache_mb\) is -1048576; give a number of bytes"):
        run_options(PipelineOptions(["--cache_mb=-1"]))
