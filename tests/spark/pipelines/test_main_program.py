"""What tasks look up in the main program: it is not a module of their own `__main__`, but they find it there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
import threading
from functools import cache, cached_property, lru_cache
from typing import NewType

import headrace as beam

UserId = NewType("UserId", int)
LOCK, EVENT = threading.Lock(), threading.Event()
FACTOR = 3


@lru_cache(maxsize=7)
def cached(number):
    return number * FACTOR


@cache
def twice_cached(number):
    return cached(number) + 1


class Thing:
    LOCK = threading.RLock()

    def __init__(self, number):
        self.number = number

    @cached_property
    def twice(self):
        return 2 * self.number

    @staticmethod
    @lru_cache
    def static(number):
        return number + 10

    @lru_cache
    def method(self, number):
        return number + self.number


class Locked(beam.DoFn):
    def __init__(self):
        self.lock = threading.Lock()

    @lru_cache
    def helper(self, number):
        return number + 100

    def process(self, number):
        with self.lock, LOCK, Thing.LOCK:
            thing = Thing(number)
            numbers = self.helper(number), twice_cached(number), Thing.static(number), thing.method(number), thing.twice
            yield (UserId(number), *numbers, cached.cache_parameters()["maxsize"], EVENT.is_set())


def looks_up(row):
    import __main__

    return (*row, __main__.FACTOR, sys.modules["__main__"].cached(2))


def hinted(number: UserId) -> UserId:
    return number


if __name__ == "__main__":
    rows = []
    with beam.Pipeline(sys.argv[1]) as pipeline:
        numbers = pipeline | beam.Create([1, 2]) | beam.Map(hinted)
        out = numbers | beam.ParDo(Locked()) | beam.Map(looks_up) | beam.Reshuffle()
        out | beam.io.ForeachEpoch(lambda epoch, its: rows.extend(its))
    print(sorted(rows))
"""


def test_tasks_find_what_the_main_program_has(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    ran = [
        subprocess.run(
            [sys.executable, "program.py", runner], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        for runner in ("LocalRunner", "SparkRunner")
    ]
    assert [result.stdout for result in ran] == 2 * [
        "[(1, 101, 4, 11, 2, 2, 7, False, 3, 6), (2, 102, 7, 12, 4, 4, 7, False, 3, 6)]\n"
    ], ran[1].stderr[-3000:]


def test_a_module_of_the_current_folder_is_not_taken_for_one_of_the_program(tmp_path: Path) -> None:
    """The program is in another folder than the one in which it is started; both have a module of the same name."""
    program = "import headrace as beam\nfrom shapes import Shape, area\n"
    program += "with beam.Pipeline('SparkRunner') as p:\n"
    program += "    _ = p | beam.Create([Shape(2)]) | beam.Map(area) | beam.Map(print)\n"
    shapes = "from dataclasses import dataclass\n@dataclass\nclass Shape:\n    side: int\ndef area(shape):\n    return "
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "program.py").write_text(program)
    (tmp_path / "project" / "shapes.py").write_text(f"{shapes}'area', shape.side**2")
    (tmp_path / "shapes.py").write_text(f"{shapes}'another module'")
    command = [sys.executable, "project/program.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout == "('area', 4)\n", ran.stdout + ran.stderr
