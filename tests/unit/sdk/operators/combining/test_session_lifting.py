"""Which stretches of a key overlap, beside going through them one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sdk.operators.combining.session_lifting import runs_of_stretches

KEYS = [bytes([number]) * 16 for number in range(3)]


@pytest.mark.parametrize("scale", [1, 1 << 40, 1 << 56], ids=["small", "large", "beyond 64 bits for several keys"])
@given(rows=st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-30, 30), st.integers(1, 20)), min_size=1))
def test_runs(scale: int, rows: list[tuple[bytes, int, int]]) -> None:
    keys, starts, lengths = zip(*rows, strict=True)
    starts, ends = np.array(starts) * scale, (np.array(starts) + np.array(lengths)) * scale
    runs = runs_of_stretches(pa.array(keys, pa.binary(16)), starts, ends)
    found: dict[int, set[tuple[bytes, int, int]]] = {}
    for index, group in zip(runs.order.tolist(), runs.groups.tolist(), strict=True):
        found.setdefault(group, set()).add((keys[index], int(starts[index]), int(ends[index])))
    wanted: list[set[tuple[bytes, int, int]]] = []
    reached = 0
    for key, start, end in sorted({row for group in found.values() for row in group}):
        if wanted and key in {other for other, _, _ in wanted[-1]} and start < reached:
            wanted[-1].add((key, start, end))
            reached = max(reached, end)
        else:
            wanted.append({(key, start, end)})
            reached = end
    assert runs.number == len(wanted)
    assert sorted(map(sorted, found.values())) == sorted(map(sorted, wanted))
