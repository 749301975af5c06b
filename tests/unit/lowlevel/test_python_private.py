"""What rests on undocumented parts of Python does what it is for."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest

from headrace.lowlevel.python_private import call_with_room

CALLS = 20_000
DEPTHS = 120


def faults_at(depth: int) -> int:
    """Page faults of a loop of calls that stands so deep."""
    if depth:
        return faults_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        nothing()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def nothing() -> None:
    """A call whose frame may begin another chunk."""
    called = [None]
    called.sort(key=lambda value: 0)


def most(call: Callable[[Callable[[], int]], int]) -> int:
    """The most faults of a loop, at any of many depths."""
    return max(call(lambda depth=depth: faults_at(depth)) for depth in range(0, DEPTHS))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others count page faults in other ways")
def test_no_loop_stands_at_the_end_of_a_chunk_of_frames():
    assert most(lambda function: function()) > CALLS / 2, "there is such a depth without room"
    assert most(call_with_room) < CALLS / 10
