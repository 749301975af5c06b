"""Records of a bundle by window: many of a key go the same ways as few."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.operators.grouping.window_assignment import Arrivals, sorter
from headrace.sdk.windows import FixedWindows, slices
from headrace.sdk.windows.window_namespace import WindowNamespaces
from headrace.sdk.windows.windowing import Windowing

NEAR = st.integers(-30, 30).map(lambda seconds: seconds * SECOND)
STRETCHES = st.lists(st.tuples(NEAR | st.sampled_from([MIN_TIMESTAMP, MAX_TIMESTAMP]), st.integers(1, 20)), max_size=8)


@given(STRETCHES)
@example([(0, 9), (12 * SECOND, 9), (1 * SECOND, 9)])
def test_many_records_are_sorted_as_few_are(stretches: list[tuple[int, int]]) -> None:
    times = [time for time, count in stretches for _ in range(count)]
    assert _sorted(times, most=1) == _sorted(times, most=len(times) + 1)


def _sorted(times: list[int], most: int) -> Arrivals:
    """Records with their places as values; from `most` on they count as many."""
    windowing = Windowing.of(FixedWindows(10, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_MANY", most)
        sort = sorter(windowing, GroupingInputForm.PLAIN, WindowNamespaces(windowing))
        return sort([("key", place) for place in range(len(times))], times, MIN_TIMESTAMP)
