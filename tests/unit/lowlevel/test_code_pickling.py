"""What of a main program goes to other processes, and to other steps of this one."""

from __future__ import annotations

import functools
import logging
import pickle
import queue
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import NewType

import cloudpickle
import pytest

import headrace as beam
from headrace.lowlevel.code_pickling import CodePickler, dumps, shipped
from tests.unit.collected import values


def locked(make: Callable[[], object]) -> object:
    held = make()
    return shipped(lambda: held, "Held")()


@pytest.mark.parametrize(
    "make",
    [
        threading.Lock,
        threading.RLock,
        threading.Condition,
        threading.Event,
        threading.Semaphore,
        threading.BoundedSemaphore,
        queue.Queue,
        logging.NullHandler,
    ],
)
def test_what_holds_a_lock_is_made_anew(make):
    made = locked(make)
    assert type(made) is type(make())
    if hasattr(made, "acquire"):
        made.acquire()
        made.release()


def test_a_lock_that_is_held_is_free_in_a_copy():
    lock = threading.Lock()
    with lock:
        copy, same = shipped((lock, lock), "Held")
    assert copy is same
    assert copy.acquire(blocking=False)


class Locked(beam.DoFn):
    SHARED = threading.Lock()

    def __init__(self) -> None:
        self.lock = threading.RLock()

    @functools.cached_property
    def factor(self) -> int:
        return 2

    def process(self, number):
        with self.lock, self.SHARED:
            yield self.factor * number


def test_a_do_fn_may_have_locks():
    assert values(lambda pipeline: pipeline | beam.Create([1]) | beam.ParDo(Locked())) == [2]


def test_a_cached_function_of_the_program_is_one_function_in_its_process():
    @functools.lru_cache(maxsize=5)
    def double(number):
        return 2 * number

    assert shipped(lambda: double, "Double")() is double
    assert values(lambda pipeline: pipeline | beam.Create([1, 1, 1]) | beam.Map(lambda n: double(n))) == [2, 2, 2]
    assert double.cache_info().misses == 1


def test_a_function_that_another_process_finds_by_name_is_not_sent():
    assert pickle.loads(dumps(cached_here)) is cached_here
    assert b"cached_here" in dumps(cached_here)
    assert len(dumps(cached_here)) < 200


@functools.cache
def cached_here(number: int) -> int:
    return number


OTHER = """
import pickle, sys
double, identity, recursive = pickle.loads(open(sys.argv[1], "rb").read())
print(double(4), double.cache_parameters()["maxsize"], identity(3), identity.__name__, recursive(10))
"""


def test_another_process_gets_the_cache_and_the_type(tmp_path: Path):
    UserId = NewType("UserId", int)

    @functools.lru_cache(maxsize=5)
    def double(number):
        return 2 * number

    @functools.cache
    def fibonacci(number):
        return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

    (tmp_path / "code").write_bytes(dumps((double, UserId, fibonacci)))
    ran = subprocess.run(
        [sys.executable, "-c", OTHER, str(tmp_path / "code")], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["8", "5", "3", "UserId", "55"]


def test_what_cannot_be_made_anew_is_refused_as_before():
    with pytest.raises(TypeError, match="generator"):
        cloudpickle.loads(dumps(number for number in range(3)))


def test_functions_keep_their_files_whatever_cloudpickle_keeps(monkeypatch):
    """As of 3.1.3 it puts another name in their place."""
    reduce = cloudpickle.CloudPickler.dispatch_table[types.CodeType]

    def without_file(code):
        make, parts = reduce(code)
        return make, tuple("<dynamic-code>" if part == code.co_filename else part for part in parts)

    monkeypatch.setitem(CodePickler.dispatch_table, types.CodeType, without_file)
    sent = shipped(lambda number: [number + each for each in (1, 2)], "Add")
    assert sent(1) == [2, 3]
    assert sent.__code__.co_filename == __file__
