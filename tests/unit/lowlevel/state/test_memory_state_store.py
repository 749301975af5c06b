"""A copy in memory takes many marks at once as it takes them one by one."""

from __future__ import annotations

from random import Random

import pytest

from headrace.lowlevel.state.memory_store import MemoryStateStore
from headrace.lowlevel.state.state_store import Delta


def marks(random: Random, count: int) -> dict[tuple[bytes, int, str], int | None]:
    names = ((random.randbytes(1), random.randrange(3), f"t{random.randrange(9)}") for _ in range(count))
    return {name: random.choice([None, random.randrange(50)]) for name in names}


@pytest.mark.parametrize("seed", range(5))
def test_many_marks_at_once(seed: int) -> None:
    random, at_once, one_by_one = Random(seed), MemoryStateStore(), MemoryStateStore()
    most = 0
    for size in (3000, 5, 4000, 2500):
        delta = Delta(keys={bytes([row]): b"key" for row in range(256)}, marks=marks(random, size))
        most = max(most, len(delta.marks))
        at_once.apply(delta)
        for mark, timestamp in delta.marks.items():
            one_by_one.apply(Delta(keys={mark[0]: b"key"}, marks={mark: timestamp}))
        for domain in range(3):
            for limit in (0, 20, 49):
                assert list(at_once.until(domain, limit)) == list(one_by_one.until(domain, limit))
        assert at_once.count()["marks"] == one_by_one.count()["marks"]
    assert most > 1000, "they never came at once"
