"""What the docstring of `WindowState` says is true of every state that is written, whatever is retracted."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lowlevel.time import MAX_TIMESTAMP
from headrace.sdk.combinefns.combine_fn import AnyCombineFn, CallableCombineFn
from headrace.sdk.combinefns.numeric import CountCombineFn
from headrace.sdk.model.element_form import GroupingInputForm
from headrace.sdk.model.panes import PaneInfoTiming, pane_info
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.operators.grouping.key_windows import KeyWindows
from headrace.sdk.operators.grouping.window_state import EMPTY, WindowState
from headrace.sdk.windows.windowing import Windowing
from tests.depth import examples
from tests.harness import Element, Harness
from tests.properties.scripts import TREES, Script, scripts, windowings

RETRACTION = pane_info(True, False, PaneInfoTiming.EARLY, 0, -1, True)


def check(state: WindowState, watermark: int, is_signed: bool) -> None:
    namespace, ended = state.namespace, watermark >= state.namespace.end
    assert state.due == (namespace.closes if ended or state.finished else namespace.end)
    assert state.due > watermark, "the window is closed, but not freed"
    if state.finished:
        assert state.content is EMPTY and not state.live and not state.fresh
        return
    assert not (state.timely and state.nonspeculative), "a second ON_TIME pane"
    assert not (state.timely and ended and not state.fresh), "a later element would hold the output watermark back"
    assert (state.live >= 0 or is_signed) and state.fresh >= 0 and 0 <= state.nonspeculative <= state.index
    assert not (state.content is EMPTY and state.live)


def changes(windowing: Windowing, script: Script, chance: random.Random) -> Iterator[tuple[list[Element], int, int]]:
    """The bundles of a script, with retractions of some of its elements, and of some that never came."""
    came: list[Element] = []
    for elements, watermark, clock in script.bundles:
        bundle: list[Element] = []
        for key, value, time in elements:
            windows = tuple(windowing.window_fn.assign_all([time], [value])[0])
            came.append((key, (value, windows, RETRACTION), time))
            bundle.append((key, (value, windows, None), time))
        for _ in range(chance.choice([0, 1, 1, 2, 4])):
            if came and chance.random() < 0.8:
                bundle.append(came.pop(chance.randrange(len(came))))
            elif came:
                key, (_, windows, _), time = chance.choice(came)
                bundle.append((key, (-1, windows, RETRACTION), time))
        yield bundle, watermark, clock


@pytest.mark.parametrize("combine", [None, CallableCombineFn(sum), CountCombineFn()])
def test_states_that_are_written_are_as_the_docstring_says(
    combine: AnyCombineFn | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, is_signed = KeyWindows.store, combine is not None and combine.is_signed()

    def checked(windows: KeyWindows, state: WindowState) -> None:
        check(state, windows._context.watermark, is_signed)
        store(windows, state)

    monkeypatch.setattr(KeyWindows, "store", checked)

    @settings(max_examples=examples(150, 5_000))
    @given(windowings(triggers=TREES), scripts(), st.integers(0, 99))
    def whatever_comes(windowing: Windowing, script: Script, seed: int) -> None:
        if windowing.trigger.needs_values:
            return
        harness = Harness(Grouping(windowing, combine, GroupingInputForm.WINDOWED, takes_back=True))
        for elements, watermark, clock in changes(windowing, script, random.Random(seed)):
            harness.feed(elements)
            harness.clock(clock)
            harness.advance(watermark)
        harness.advance(MAX_TIMESTAMP)
        assert not any(harness.stored().values())

    whatever_comes()
