"""Values of metrics: they add up the same in any grouping, and are read as they were stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lowlevel.metric import TypedMetricName, decode_metrics, encode_metrics
from headrace.lowlevel.metric_cells import KINDS, BoundedTrieCell, Bucket, HistogramCell

BUCKETS = st.builds(Bucket, st.just(0.5), st.sampled_from([1, 2]), st.just(4), st.integers(-1, 4))
PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
VALUES = {"bounded_trie": PATHS, "histogram": BUCKETS}


def cell_of(kind, values):
    cell = KINDS[kind]()
    for value in values:
        cell.update(value, 0)
    return cell


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_cells_add_up(kind: str, data: st.DataObject) -> None:
    first, second = (data.draw(st.lists(VALUES[kind])) for _ in range(2))
    one, other = cell_of(kind, first), cell_of(kind, second)
    assert one.plus(other) == cell_of(kind, [*first, *second])
    assert (one, other) == (cell_of(kind, first), cell_of(kind, second))


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_cells_are_read_as_they_were_stored(kind: str, data: st.DataObject) -> None:
    cells = {"Step": {TypedMetricName(kind, "own", "name"): cell_of(kind, data.draw(st.lists(VALUES[kind])))}}
    assert decode_metrics(encode_metrics(cells)) == cells


def test_a_trie_stays_small() -> None:
    cell = cell_of("bounded_trie", [("a", str(number)) for number in range(1000)])
    assert cell.plus(cell) == BoundedTrieCell({"a": None})


def test_values_are_counted_by_bucket() -> None:
    one, other = Bucket(0, 5, 2, 0), Bucket(0, 5, 2, -1)
    assert cell_of("histogram", [one, other, one]) == HistogramCell({one: 2, other: 1})
