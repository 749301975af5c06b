"""Triggers as pure functions: progress in, progress out."""

from __future__ import annotations

import math
import pickle
import re
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

import headrace as beam
from headrace.lowlevel.code_pickling import ShippingError
from headrace.lowlevel.errors import StepError
from headrace.lowlevel.time import SECOND, Duration
from headrace.sdk.operators.grouping.grouping import Grouping
from headrace.sdk.triggers import (
    FINISHED,
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterElement,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    AtPeriod,
    DefaultTrigger,
    Moment,
    Never,
    OrFinally,
    Progress,
    Repeatedly,
    Trigger,
)
from headrace.sdk.windows import FixedWindows
from headrace.sdk.windows.windowing import Windowing
from tests.harness import Harness
from tests.names import legible

BEFORE = Moment(end=100, watermark=99, wall_time=0, merging=True)
AFTER = Moment(end=100, watermark=100, wall_time=0, merging=True)


def fed(trigger: Trigger, *counts: int, progress: Progress = None, moment: Moment = BEFORE) -> Progress:
    for count in counts:
        progress = trigger.on_elements(progress, count, (), moment)
    return progress


def fires(trigger: Trigger, progress: Progress, moment: Moment = BEFORE) -> bool:
    return trigger.should_fire(progress, moment)


def is_flush(value: object) -> bool:
    return value == "flush"


ALL = [
    DefaultTrigger(),
    AfterCount(2),
    AfterProcessingTime(5),
    AfterWatermark(),
    AfterWatermark(early=AfterCount(2), late=AfterProcessingTime(1)),
    Repeatedly(AfterCount(2)),
    AfterAny(AfterCount(2), AfterProcessingTime(5)),
    AfterAll(AfterCount(2), AfterWatermark()),
    AfterEach(AfterCount(2), AfterCount(3)),
    OrFinally(Repeatedly(AfterCount(2)), AfterWatermark()),
    Always(),
    Never(),
]
OURS = [AtPeriod(60, 5), AfterElement(is_flush), AfterAll(AfterWatermark(), AfterElement(is_flush))]
"""Those that Beam's Python SDK does not have."""


@pytest.mark.parametrize("trigger", [*ALL, *OURS], ids=legible)
def test_triggers_are_values(trigger: Trigger) -> None:
    copy = pickle.loads(pickle.dumps(trigger))
    assert copy == trigger and hash(copy) == hash(trigger)
    assert sum(trigger == other for other in [*ALL, *OURS]) == 1


@pytest.mark.parametrize("trigger", [*ALL, *OURS], ids=legible)
def test_progress_is_small_and_can_be_stored(trigger: Trigger) -> None:
    progress = fed(trigger, 1, 1)
    copy = pickle.loads(pickle.dumps(progress))
    assert copy == progress and fires(trigger, copy, AFTER) == fires(trigger, progress, AFTER)
    assert len(pickle.dumps(progress)) < 40


@pytest.mark.parametrize("trigger", ALL, ids=legible)
def test_what_is_said_of_a_trigger_is_so(trigger: Trigger) -> None:
    progress = fed(trigger, 7)
    assert not trigger.needs_values
    if trigger.quiet_until_end:
        assert progress is None and not fires(trigger, progress, moved(BEFORE, wall_time=10**12))
    if not trigger.uses_wall_time:
        assert trigger.wake_at(progress, 0) is None
    ended = moved(AFTER, wall_time=10**12)
    if fires(trigger, progress, ended) and not trigger.may_finish(1):
        assert trigger.on_fire(progress, ended) is not FINISHED


def moved(moment: Moment, **changes: int) -> Moment:
    return moment._replace(**changes)


def test_counting() -> None:
    trigger = AfterCount(3)
    assert not fires(trigger, fed(trigger, 2))
    assert fires(trigger, fed(trigger, 2, 1)) and fires(trigger, fed(trigger, 7))
    assert trigger.on_fire(3, BEFORE) is FINISHED
    assert fed(trigger, 5, progress=FINISHED) is FINISHED and not fires(trigger, FINISHED)


def test_counts_add_up_when_windows_merge_and_stay_finished() -> None:
    trigger = AfterCount(3)
    assert fires(trigger, trigger.on_merge([1, None, 2], BEFORE))
    assert trigger.on_merge([1, FINISHED], BEFORE) is FINISHED


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_wrong_counts_are_refused(count: object) -> None:
    with pytest.raises(ValueError, match="AfterCount: count is"):
        AfterCount(count)


def test_delays() -> None:
    trigger = AfterProcessingTime(1.5)
    progress = fed(trigger, 1, 1, moment=moved(BEFORE, wall_time=7 * SECOND))
    assert progress == trigger.wake_at(progress, 7 * SECOND) == 8_500_000
    assert fed(trigger, 1, progress=progress, moment=moved(BEFORE, wall_time=8 * SECOND)) == progress
    assert not fires(trigger, progress, moved(BEFORE, wall_time=8_499_999))
    assert fires(trigger, progress, moved(BEFORE, wall_time=8_500_000))
    assert not fires(trigger, None, moved(BEFORE, wall_time=10**15))
    assert trigger.wake_at(FINISHED, 0) is None and trigger.wake_at(None, 0) is None
    assert trigger.wake_at(progress, 8_499_999) == progress and trigger.wake_at(progress, 8_500_000) is None
    both = AfterAll(AfterProcessingTime(2), AfterProcessingTime(6))
    assert [both.wake_at(fed(both, 1), now * SECOND) for now in (0, 2, 6)] == [2 * SECOND, 6 * SECOND, None]
    with pytest.raises(ValueError, match="delay is -1 s"):
        AfterProcessingTime(-1)


def test_the_earliest_delay_counts_when_windows_merge() -> None:
    trigger = AfterProcessingTime(5)
    assert trigger.on_merge([7, None, 5, FINISHED], BEFORE) == 5
    assert trigger.on_merge([None, FINISHED], BEFORE) is None
    assert trigger.on_merge([FINISHED, FINISHED], BEFORE) is FINISHED


def test_watermark_phases() -> None:
    trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(3))
    progress = fed(trigger, 2)
    assert fires(trigger, progress)
    progress = trigger.on_fire(progress, BEFORE)
    assert not fires(trigger, progress) and fires(trigger, progress, AFTER)
    progress = trigger.on_fire(progress, AFTER)
    assert not fires(trigger, progress, AFTER)
    progress = fed(trigger, 2, progress=progress, moment=AFTER)
    assert not fires(trigger, progress, AFTER)
    progress = fed(trigger, 1, progress=progress, moment=AFTER)
    assert fires(trigger, progress, AFTER)
    progress = trigger.on_fire(progress, AFTER)
    assert not fires(trigger, progress, AFTER) and progress is not FINISHED


def test_the_watermark_alone_finishes() -> None:
    trigger = AfterWatermark(early=AfterCount(2))
    progress = trigger.on_fire(fed(trigger, 1), AFTER)
    assert progress is FINISHED and not fires(trigger, progress, AFTER)
    assert fed(trigger, 5, progress=progress, moment=AFTER) is FINISHED


def test_a_merged_window_that_has_not_ended_is_early_again_with_what_was_not_fired() -> None:
    trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(3))
    late = fed(trigger, 1, progress=trigger.on_fire(None, AFTER), moment=AFTER)
    merged = trigger.on_merge([late], BEFORE)
    assert not fires(trigger, merged)
    assert fires(trigger, fed(trigger, 1, progress=merged))


def test_what_was_fired_late_does_not_count_for_an_early_pane() -> None:
    trigger = AfterWatermark(early=AfterCount(2), late=AfterCount(1))
    late = fed(trigger, 1, progress=trigger.on_fire(None, AFTER), moment=AFTER)
    merged = trigger.on_merge([trigger.on_fire(late, AFTER)], BEFORE)
    assert not fires(trigger, fed(trigger, 1, progress=merged))


def test_a_merged_window_is_late_only_if_all_parts_were() -> None:
    trigger = AfterWatermark(late=AfterCount(3))
    late = fed(trigger, 1, progress=trigger.on_fire(None, AFTER), moment=AFTER)
    assert not fires(trigger, trigger.on_merge([late, late], AFTER), AFTER)
    assert fires(trigger, trigger.on_merge([late, late, late], AFTER), AFTER)
    assert fires(trigger, trigger.on_merge([late, None], AFTER), AFTER), "the other part waits for its pane on time"


def test_finished_parts_of_a_watermark_trigger() -> None:
    trigger = AfterWatermark()
    assert trigger.on_merge([FINISHED, FINISHED], AFTER) is FINISHED
    assert trigger.on_merge([FINISHED], BEFORE) is None
    assert trigger.on_merge([FINISHED, None], AFTER) is None


def test_any_finishes_with_the_first_that_does() -> None:
    trigger = AfterAny(AfterCount(5), Repeatedly(AfterCount(2)))
    progress = fed(trigger, 2)
    assert fires(trigger, progress)
    progress = trigger.on_fire(progress, BEFORE)
    assert progress is not FINISHED and not fires(trigger, progress)
    progress = fed(trigger, 3, progress=progress)
    assert trigger.on_fire(progress, BEFORE) is FINISHED
    assert not fires(AfterAny(AfterWatermark(), DefaultTrigger()), FINISHED, AFTER)
    assert trigger.on_merge([fed(trigger, 1), FINISHED], BEFORE) is FINISHED


def test_all_waits_for_each() -> None:
    trigger = AfterAll(AfterCount(1), Repeatedly(AfterCount(3)))
    progress = fed(trigger, 2)
    assert not fires(trigger, progress)
    progress = fed(trigger, 1, progress=progress)
    assert fires(trigger, progress)
    progress = trigger.on_fire(progress, BEFORE)
    assert progress is not FINISHED, "the repeated one goes on"
    assert not fires(trigger, fed(trigger, 2, progress=progress))
    assert fires(trigger, fed(trigger, 3, progress=progress)), "one that has finished is ready"


def test_sequences_go_on_where_merging_leaves_them() -> None:
    trigger = AfterEach(AfterWatermark(), AfterCount(2), AfterCount(9))
    ended = trigger.on_fire(None, AFTER)
    counted = trigger.on_fire(fed(trigger, 2, progress=ended, moment=AFTER), AFTER)
    assert fires(trigger, trigger.on_merge([ended, None], AFTER), AFTER), "one part waits for the watermark"
    both = trigger.on_merge([fed(trigger, 1, progress=ended), fed(trigger, 1, progress=ended)], AFTER)
    assert fires(trigger, both, AFTER)
    further = trigger.on_merge([counted, ended], AFTER)
    assert not fires(trigger, fed(trigger, 8, progress=further), AFTER), "a count that was reached stays reached"
    assert fires(trigger, fed(trigger, 9, progress=further), AFTER)
    assert trigger.on_merge([FINISHED, FINISHED], AFTER) is FINISHED


def test_finally_ends_also_a_repeated_trigger() -> None:
    trigger = OrFinally(Repeatedly(AfterCount(2)), AfterCount(5))
    progress: Progress = None
    for _ in range(2):
        progress = fed(trigger, 2, progress=progress)
        assert fires(trigger, progress)
        progress = trigger.on_fire(progress, BEFORE)
        assert progress is not FINISHED
    assert trigger.on_fire(fed(trigger, 1, progress=progress), BEFORE) is FINISHED
    alone = OrFinally(AfterCount(1), AfterWatermark())
    assert alone.on_fire(fed(alone, 1), BEFORE) is FINISHED


def test_continuations() -> None:
    assert AfterCount(5).continuation() == AfterCount(1)
    assert AfterProcessingTime(5).continuation() == Always()
    assert AfterWatermark(early=AfterCount(3)).continuation() == AfterWatermark(early=AfterCount(1))
    assert Repeatedly(AfterCount(3)).continuation() == Repeatedly(AfterCount(1))
    assert AfterAny(AfterCount(3), AfterWatermark()).continuation() == AfterAny(AfterCount(1), AfterWatermark())
    each = AfterEach(AfterCount(3), AfterWatermark())
    assert each.continuation() == Repeatedly(AfterAny(AfterCount(1), AfterWatermark()))
    assert DefaultTrigger().continuation() == DefaultTrigger()
    finally_ = OrFinally(Repeatedly(AfterCount(3)), AfterWatermark())
    assert finally_.continuation() == Repeatedly(OrFinally(Repeatedly(AfterCount(1)), AfterWatermark()))
    assert Repeatedly(AtPeriod(60)).continuation() == Repeatedly(Always())
    assert AfterElement(is_flush).continuation() == AfterCount(1)
    assert AfterAll(AfterCount(2), AfterElement(is_flush)).continuation() == AfterAll(AfterCount(1), AfterCount(1))
    assert Never().continuation() == Never() and Always().continuation() == Always()


@pytest.mark.parametrize("trigger", [*ALL, *OURS], ids=legible)
def test_a_continuation_goes_on_as_it_is(trigger: Trigger) -> None:
    once = trigger.continuation()
    assert not once.needs_values and not once.uses_wall_time
    progress = fed(once, 1)
    if not isinstance(trigger, Never):
        assert fires(once, progress, AFTER), "a pane of the grouping before is passed on"


@pytest.mark.parametrize(
    ("came", "fires_at"), [(0, 60), (59.999999, 60), (60, 120), (-1, 0), (-60, 0), (61.5, 120), (1e9, 1_000_000_020)]
)
def test_periods_end_at_multiples_after_the_element(came: float, fires_at: float) -> None:
    progress = fed(AtPeriod(60), 1, 1, moment=moved(BEFORE, wall_time=round(came * SECOND)))
    assert progress == AtPeriod(60).wake_at(progress, round(came * SECOND)) == fires_at * SECOND
    shifted = fed(AtPeriod(60, -50), 1, moment=moved(BEFORE, wall_time=round((came + 10) * SECOND)))
    assert shifted == (fires_at + 10) * SECOND


def test_periods_fire_once_their_time_has_come() -> None:
    trigger = AtPeriod(60)
    assert not fires(trigger, None, moved(BEFORE, wall_time=10**12))
    assert not fires(trigger, 60 * SECOND, moved(BEFORE, wall_time=60 * SECOND - 1))
    assert fires(trigger, 60 * SECOND, moved(BEFORE, wall_time=60 * SECOND))
    assert trigger.on_fire(60 * SECOND, BEFORE) is FINISHED
    assert trigger.on_merge([None, 120, 60, FINISHED], BEFORE) == 60
    with pytest.raises(ValueError, match="AtPeriod: every is 0 s; give a microsecond or more"):
        AtPeriod(0)


def test_an_element_that_fires() -> None:
    trigger = AfterElement(is_flush)
    assert trigger.needs_values and Repeatedly(AfterAny(AfterCount(9), trigger)).needs_values
    nothing = trigger.on_elements(None, 2, ["a", "b"], BEFORE)
    assert nothing is None and not fires(trigger, nothing)
    ready = trigger.on_elements(nothing, 2, ["flush", "c"], BEFORE)
    assert fires(trigger, ready) and fires(trigger, trigger.on_elements(ready, 1, ["d"], BEFORE))
    assert trigger.on_fire(ready, BEFORE) is FINISHED
    assert trigger.on_elements(FINISHED, 1, ["flush"], BEFORE) is FINISHED
    assert trigger.on_merge([nothing, ready], BEFORE) is True and trigger.on_merge([nothing], BEFORE) is None
    assert trigger.on_merge([ready, FINISHED], BEFORE) is FINISHED
    with pytest.raises(TypeError, match="AfterElement: predicate is 'flush'; give a function"):
        AfterElement("flush")


class Half(Trigger):
    """A trigger of the user's own that is not complete."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        return None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        return False


def test_an_incomplete_trigger_is_refused() -> None:
    with pytest.raises(TypeError, match="trigger Half does not define on_fire, on_merge; a subclass of Trigger"):
        Half()


class Forgetful(Trigger):
    """A trigger of the user's own that remembers what cannot be stored."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        return lambda: values

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        return parts[0]

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        return False

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        return None


def test_progress_that_cannot_be_stored_is_named() -> None:
    windowing = Windowing.of(FixedWindows(10), Forgetful(), AccumulationMode.DISCARDING)
    harness = Harness(Grouping(windowing))
    with pytest.raises(StepError, match=r"step 'group' raised for key 'a'.*") as caught:
        harness.feed([("a", 3, 5)])
    assert re.search(
        r"Forgetful object.* remembers <function .* of window \[0.0, 10.0\), which cannot be stored", str(caught.value)
    )


def test_triggers_are_checked_when_the_pipeline_is_built() -> None:
    lock = threading.local()
    numbers = beam.Pipeline("LocalRunner") | beam.Create([("a", 1)])
    with pytest.raises(ShippingError, match=r"step 'Flush'.* the variable 'lock' of .*<lambda>.*'predicate'"):
        _ = numbers | "Flush" >> beam.WindowInto(
            FixedWindows(10), Repeatedly(AfterElement(lambda value: lock)), AccumulationMode.DISCARDING
        )
    with pytest.raises(TypeError, match=r"WindowInto takes a trigger, got <class .*AfterWatermark'>"):
        beam.WindowInto(FixedWindows(10), AfterWatermark)


@pytest.mark.parametrize(
    ("trigger", "lateness", "may"),
    [
        (DefaultTrigger(), 1, False),
        (AfterCount(1), 0, True),
        (AfterProcessingTime(1), 0, True),
        (AfterWatermark(), 0, False),
        (AfterWatermark(), 1, True),
        (AfterWatermark(late=AfterCount(1)), 1, False),
        (Repeatedly(AfterCount(1)), 1, False),
        (AfterAny(Repeatedly(AfterCount(1)), AfterCount(2)), 0, True),
        (AfterAll(Repeatedly(AfterCount(1)), AfterCount(2)), 0, False),
        (AfterEach(AfterCount(1), Repeatedly(AfterCount(2))), 0, False),
        (OrFinally(Repeatedly(AfterCount(1)), AfterCount(2)), 0, True),
    ],
    ids=legible,
)
def test_which_may_lose_data(trigger: Trigger, lateness: int, may: bool) -> None:
    assert trigger.may_finish(lateness) is may


@pytest.mark.parity
def test_which_may_lose_data_is_beams() -> None:
    trigger_module = pytest.importorskip("apache_beam.transforms.trigger")
    from apache_beam.transforms import window as window_module
    from apache_beam.transforms.core import Windowing

    def theirs(trigger: Trigger | None) -> object:
        if trigger is None:
            return None
        make = getattr(trigger_module, type(trigger).__name__ if type(trigger) is not Never else "_Never")
        if isinstance(trigger, AfterWatermark):
            return make(early=theirs(trigger.early), late=theirs(trigger.late))
        if isinstance(trigger, Repeatedly):
            return make(theirs(trigger.underlying))
        parts: Sequence[Trigger] = getattr(trigger, "triggers", ())
        settings = [part for name in ("count", "delay") for part in [getattr(trigger, name, None)] if part is not None]
        return make(*(map(theirs, parts)), *(settings if not parts else ()))

    for trigger in ALL:
        for lateness in (0, 1):
            windowing: Any = Windowing(
                window_module.FixedWindows(1), cast(Any, theirs(trigger)), cast(Any, 1), allowed_lateness=lateness
            )
            may = bool(windowing.triggerfn.may_lose_data(windowing))
            assert trigger.may_finish(lateness) == may, f"{trigger} with lateness {lateness}"
        assert bool(windowing.triggerfn.has_ontime_pane()) == trigger.has_ontime_pane(), trigger


@pytest.mark.parametrize("delay", [math.inf, math.nan, -1, "5", None, 1e300, timedelta(seconds=-1)])
def test_a_delay_that_never_ends_is_refused_when_the_trigger_is_made(delay):
    with pytest.raises(ValueError, match=r"AfterProcessingTime: delay is .* s; give 0 or more seconds, at most"):
        AfterProcessingTime(delay)
    with pytest.raises(ValueError, match=r"AtPeriod: (every|offset) is "):
        AtPeriod(*((60, math.inf) if delay == math.inf else (delay,)))


def test_delays_are_lengths_of_time():
    assert AfterProcessingTime(timedelta(minutes=1)) == AfterProcessingTime(Duration(60)) == AfterProcessingTime(60)
    assert AtPeriod(timedelta(minutes=1), timedelta(seconds=5)) == AtPeriod(60, 5)
    for trigger in (AfterProcessingTime(timedelta(minutes=1)), AtPeriod(timedelta(hours=1))):
        assert pickle.loads(pickle.dumps(trigger)) == trigger


def test_composites_of_one_trigger_are_that_trigger_and_of_none_fire_once_or_never():
    for kind in (AfterAll, AfterAny, AfterEach):
        assert kind(AfterCount(2)).triggers == (AfterCount(2),)
        progress = fed(kind(), 3)
        assert fires(kind(), progress, AFTER) is (kind is AfterAll)
        assert kind().on_merge([progress, None], BEFORE) is (FINISHED if kind is AfterAll else None)
    assert AfterAll().on_fire(None, BEFORE) is FINISHED


def test_what_is_false_is_no_early_or_late_trigger():
    assert AfterWatermark(early=AfterCount(1).has_ontime_pane(), late=None) == AfterWatermark()
