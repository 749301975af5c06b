"""What the text of Streaming 102 says comes out of its examples, figure by figure; for tests on each runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from examples import streaming102
from examples.streaming102.panes import Case, Outcome, Pane, play
from examples.streaming102.scores import FIRST, HEURISTIC, PERFECT, SECOND, WITH_SIX, Input, at, bounded

SCORES_OF_THE_ARTICLE = [5, 9, 7, 3, 4, 8, 3, 8, 3, 1]
WINDOW_1, WINDOW_2 = "[12:00, 12:02)", "[12:02, 12:04)"
FINAL = {WINDOW_1: 14, WINDOW_2: 22, "[12:04, 12:06)": 3, "[12:06, 12:08)": 12}
"""Figure 13: "the final results for the four windows remain the same: 14, 22, 3, and 12"."""
FIRST_VALUE_OF_WINDOW_2 = "12:02:30"
PANES_ADD_UP = {"accumulating_and_retracting", "discarding", "processing_time_by_triggers", "sessions"}
"""The examples in which the final value of a window is the sum of its panes, not the last one."""


@cache
def modules() -> dict[str, ModuleType]:
    """The examples by name: those modules of the folder that have a pipeline."""
    names = sorted(found.name for found in iter_modules(streaming102.__path__))
    found = {name: import_module(f"{streaming102.__name__}.{name}") for name in names}
    return {name: module for name, module in found.items() if hasattr(module, "build")}


class Outcomes(NamedTuple):
    """What came of every example, on each of its inputs and on the same scores as bounded input."""

    by_label: Mapping[str, Outcome]

    @classmethod
    def of(cls, runner: Any) -> Outcomes:
        """All in one pipeline."""
        cases = [
            Case(f"{name}: {variant.name}", module.build, variant)
            for name, module in modules().items()
            for given in module.INPUTS
            for variant in (given, bounded(given))
        ]
        return cls(play(cases, runner))

    def get(self, name: str, given: Input) -> Outcome:
        """Of an example on an input."""
        return self.by_label[f"{name}: {given.name}"]

    def panes(self, name: str, given: Input | None = None, window: str | None = None) -> list[Pane]:
        """Of an example on an input (by default its first), for one window or all."""
        found = self.get(name, given or modules()[name].INPUTS[0]).panes
        return [pane for pane in found if window in (None, pane.window)]


def last(panes: list[Pane]) -> dict[str, int]:
    """The last pane of each window, which is its final value where panes accumulate."""
    return {pane.window: pane.points for pane in panes}


def total(panes: list[Pane]) -> dict[str, int]:
    """The sum of the panes of each window, which is its final value where they are discarding or retracting."""
    sums: Counter[str] = Counter()
    for pane in panes:
        sums[pane.window] += pane.points
    return {window: points for window, points in sums.items() if points}


def minutes(since: str, until: str) -> float:
    return (at(until) - at(since)) / 60


class Article:
    """Its numbers. A test module makes a test class of this and defines the fixture `outcomes`."""

    def test_the_values_are_those_of_the_article(self) -> None:
        for name, module in modules().items():
            for given in module.INPUTS:
                late_one = [6] if name == "allowed_lateness" else []
                assert sorted(score.points for score in given.scores) == sorted(SCORES_OF_THE_ARTICLE + late_one)

    def test_figure_2_classic_batch(self, outcomes: Outcomes) -> None:
        assert outcomes.panes("classic_batch") == [Pane("", "all of time", 51, "ON_TIME")]

    def test_figure_4_fixed_windows_in_batch(self, outcomes: Outcomes) -> None:
        expected = [Pane("", window, points, "ON_TIME") for window, points in FINAL.items()]
        assert outcomes.panes("fixed_windows_batch") == expected

    def test_figure_6_a_perfect_watermark_is_too_slow(self, outcomes: Outcomes) -> None:
        outcome = outcomes.get("fixed_windows_streaming", PERFECT)
        assert [pane[1:] for pane in outcome.panes] == [(*final, "ON_TIME") for final in FINAL.items()]
        assert outcome.dropped == 0
        # "It takes nearly seven minutes from the time the first value in the window occurs until we see any results."
        (pane,) = outcomes.panes("fixed_windows_streaming", PERFECT, WINDOW_2)
        assert 6.5 < minutes(FIRST_VALUE_OF_WINDOW_2, pane.time) < 7

    def test_figure_6_a_heuristic_watermark_is_too_fast(self, outcomes: Outcomes) -> None:
        outcome = outcomes.get("fixed_windows_streaming", HEURISTIC)
        # "An incorrect output value of 5 instead of 14."
        assert [pane[1:] for pane in outcome.panes] == [(*final, "ON_TIME") for final in {**FINAL, WINDOW_1: 5}.items()]
        assert outcome.dropped == 1
        # "Five minutes until output."
        (pane,) = outcomes.panes("fixed_windows_streaming", HEURISTIC, WINDOW_2)
        assert minutes(FIRST_VALUE_OF_WINDOW_2, pane.time) == 5

    @pytest.mark.parametrize("given", [PERFECT, HEURISTIC], ids=lambda given: given.name)
    @pytest.mark.parametrize("name", ["early_and_late", "early_and_late_by_hand"])
    def test_figure_7_early_panes(self, outcomes: Outcomes, name: str, given: Input) -> None:
        panes = outcomes.panes(name, given, WINDOW_2)
        # "Panes with values 7, 14, then 22", the first after "three and a half" minutes.
        assert list(dict.fromkeys(pane.points for pane in panes)) == [7, 14, 22]
        assert [pane.timing for pane in panes[:2]] == ["EARLY", "EARLY"]
        assert minutes(FIRST_VALUE_OF_WINDOW_2, panes[0].time) == 3.5
        assert last(outcomes.panes(name, given)) == FINAL

    def test_figure_7_the_late_pane(self, outcomes: Outcomes) -> None:
        # "When the value of 9 shows up late, we immediately incorporate it into a new, corrected pane with value of
        # 14."
        panes = outcomes.panes("early_and_late", HEURISTIC, WINDOW_1)
        assert [(pane.points, pane.timing) for pane in panes] == [(5, "ON_TIME"), (14, "LATE")]
        assert at(panes[1].time) == next(score.arrives for score in HEURISTIC.scores if score.points == 9)
        # "In the perfect watermark case, we know we'll never see any more data for a window."
        assert "LATE" not in [pane.timing for pane in outcomes.panes("early_and_late", PERFECT)]

    @pytest.mark.parametrize("given", [PERFECT, HEURISTIC], ids=lambda given: given.name)
    def test_listing_4_is_listing_5(self, outcomes: Outcomes, given: Input) -> None:
        assert outcomes.panes("early_and_late_by_hand", given) == outcomes.panes("early_and_late", given)

    def test_figure_8_allowed_lateness(self, outcomes: Outcomes) -> None:
        outcome = outcomes.get("allowed_lateness", WITH_SIX)
        # "The 6 ... gets incorporated into an updated result with value 11. The 9 ... is simply dropped."
        panes = outcomes.panes("allowed_lateness", WITH_SIX, WINDOW_1)
        assert [(pane.points, pane.timing) for pane in panes] == [(5, "ON_TIME"), (11, "LATE")]
        assert outcome.dropped == 1
        assert last(outcome.panes) == {**FINAL, WINDOW_1: 11}

    @pytest.mark.parametrize(
        ("name", "panes", "last_value", "total_sum"),
        [
            ("discarding", [7, 7, 8], 8, 22),
            # The article's sum is 51, but its panes of 7, 14 and 22 make 43.
            ("early_and_late", [7, 14, 22], 22, 43),
            ("accumulating_and_retracting", [7, -7, 14, -14, 22], 22, 22),
        ],
    )
    def test_table_1(self, outcomes: Outcomes, name: str, panes: list[int], last_value: int, total_sum: int) -> None:
        points = [pane.points for pane in outcomes.panes(name, HEURISTIC, WINDOW_2)]
        assert points == panes
        assert points[-1] == last_value
        assert sum(points) == total_sum

    @pytest.mark.parametrize("name", ["discarding", "accumulating_and_retracting"])
    def test_figures_9_and_10_panes_that_add_up(self, outcomes: Outcomes, name: str) -> None:
        assert total(outcomes.panes(name, HEURISTIC)) == FINAL

    def test_figure_10_each_pane_takes_the_one_before_back(self, outcomes: Outcomes) -> None:
        panes = outcomes.panes("accumulating_and_retracting", HEURISTIC)
        assert [pane for pane in panes if pane.points > 0] == outcomes.panes("early_and_late", HEURISTIC)
        for window in FINAL:
            for_it = outcomes.panes("accumulating_and_retracting", HEURISTIC, window)
            new, taken_back = for_it[::2], for_it[1::2]
            assert [-pane.points for pane in taken_back] == [pane.points for pane in new[:-1]]
            assert [pane.time for pane in taken_back] == [pane.time for pane in new[1:]]

    def test_figure_11_the_modes_differ_in_values_only(self, outcomes: Outcomes) -> None:
        firings = [
            [(pane.time, pane.window, pane.timing) for pane in outcomes.panes(name, HEURISTIC) if pane.points >= 0]
            for name in ("discarding", "early_and_late", "accumulating_and_retracting")
        ]
        assert firings[0] == firings[1] == firings[2]

    def test_figure_13_event_time_whatever_the_order(self, outcomes: Outcomes) -> None:
        first, second = (outcomes.panes("early_and_late", given) for given in (HEURISTIC, SECOND))
        # "Even though the overall shape of the outputs differs ... the final results ... remain the same."
        assert [pane[1:] for pane in first] != [pane[1:] for pane in second]
        assert last(first) == last(second) == FINAL

    @pytest.mark.parametrize(
        ("given", "points"),
        [
            (FIRST, [12, 21, 18]),
            # The article has 7, 36, 4 here, which is less than the 51 that its values make.
            (SECOND, [7, 40, 4]),
        ],
        ids=["first", "second"],
    )
    def test_figures_14_and_15_processing_time(self, outcomes: Outcomes, given: Input, points: list[int]) -> None:
        by_triggers = outcomes.panes("processing_time_by_triggers", given)
        by_ingress = outcomes.panes("processing_time_by_ingress", given)
        # "Trigger firings still happen at exactly the same time", and "the output values produced are identical".
        expected = list(zip(["12:06:00", "12:08:00", "12:10:00"], points, strict=True))
        assert [(pane.time, pane.points) for pane in by_triggers] == expected
        assert [(pane.time, pane.points) for pane in by_ingress] == expected
        assert {pane.window for pane in by_triggers} == {"all of time"}
        assert [pane.window for pane in by_ingress] == ["[12:04, 12:06)", "[12:06, 12:08)", "[12:08, 12:10)"]
        assert sum(points) == sum(SCORES_OF_THE_ARTICLE)

    def test_figure_17_sessions(self, outcomes: Outcomes) -> None:
        of_5, of_7, of_10 = "[12:00:45, 12:01:45)", "[12:02:30, 12:03:30)", "[12:03:40, 12:05:40)"
        of_25, of_39 = "[12:02:30, 12:05:40)", "[12:00:45, 12:05:40)"
        panes = outcomes.panes("sessions", HEURISTIC)
        of_12 = [pane for pane in panes if pane.window > "[12:06"]
        assert [pane for pane in panes if pane not in of_12] == [
            # "The value of 5 is materialized as an on-time result just before 12:06."
            Pane("12:05:45", of_5, 5, "ON_TIME"),
            # "A speculative result with value 7, right as processing time hits 12:06."
            Pane("12:06:00", of_7, 7, "EARLY"),
            # "By the time the early trigger for 12:07 fires, a single window with value 10 is emitted."
            Pane("12:07:00", of_10, 10, "EARLY"),
            # "The new session with value 25 as well as retractions for the two windows ...: the 7 and the 10."
            Pane("12:07:30", of_7, -7, "EARLY, taken back"),
            Pane("12:07:30", of_10, -10, "EARLY, taken back"),
            Pane("12:07:30", of_25, 25, "ON_TIME"),
            # "The 39 and the retractions for the 5 and 25 windows are all emitted immediately."
            Pane("12:09:20", of_5, -5, "ON_TIME, taken back"),
            Pane("12:09:20", of_25, -25, "ON_TIME, taken back"),
            Pane("12:09:20", of_39, 39, "LATE"),
        ]
        assert [pane.points for pane in of_12 if pane.points > 0][-1] == 12
        assert sorted(total(panes).values()) == [12, 39]

    def test_figure_18_the_nine_variations(self, outcomes: Outcomes) -> None:
        variations = {
            "classic_batch": [51],
            "fixed_windows_batch": [14, 22, 3, 12],
            "fixed_windows_streaming": [14, 22, 3, 12],
            "discarding": [14, 22, 3, 12],
            "early_and_late": [14, 22, 3, 12],
            "accumulating_and_retracting": [14, 22, 3, 12],
            "processing_time_by_triggers": [51],
            "processing_time_by_ingress": [12, 21, 18],
            "sessions": [12, 39],
        }
        for name, values in variations.items():
            final = total if name in PANES_ADD_UP else last
            assert sorted(final(outcomes.panes(name)).values()) == sorted(values), name

    @pytest.mark.parametrize("name", sorted(modules()))
    def test_bounded_input_gives_the_same_final_values(self, outcomes: Outcomes, name: str) -> None:
        for given in modules()[name].INPUTS:
            streamed, at_once = outcomes.get(name, given), outcomes.get(name, bounded(given))
            final = total if name in PANES_ADD_UP else last
            # What was dropped from the stream is the 9, of the first window; nothing of bounded input is late.
            dropped = {WINDOW_1: 9} if streamed.dropped else {}
            assert Counter(final(at_once.panes)) == Counter(final(streamed.panes)) + Counter(dropped)
            assert at_once.dropped == 0
