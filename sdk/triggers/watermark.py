"""When: triggers on the progress of the watermark (Streaming 102, listings 3 to 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.composite import Repeatedly
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Stateless, Trigger, require_trigger


@named("DefaultTrigger")
@dataclass(frozen=True, slots=True)
class DefaultTrigger(Stateless):
    """Fires when the watermark reaches the end of the window, and after that for each bundle with late elements.

    >>> [DefaultTrigger().should_fire(None, Moment(end=60, watermark=watermark, wall_time=0)) for watermark in (59, 60)]
    [False, True]
    """

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the watermark has reached the end of the window."""
        return moment.past_end

    def has_ontime_pane(self) -> bool:
        """Return True."""
        return True

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: this trigger never finishes."""
        return False

    @property
    def quiet_until_end(self) -> bool:
        """True."""
        return True


@named("AfterWatermark")
@dataclass(frozen=True, slots=True, init=False)
class AfterWatermark(Trigger):
    """Fires once when the watermark reaches the end of the window.

    Args:
        early: Trigger of speculative panes before the end of the window; it is repeated.
        late: Trigger of panes with late elements after the end of the window; it is repeated. If it is None, late
            elements are dropped.

    Raises:
        TypeError: `early` or `late` is true and not a trigger.

    >>> from headrace.transforms.trigger import AfterCount
    >>> trigger = AfterWatermark(early=AfterCount(2))
    >>> now, at_end = (Moment(end=60, watermark=watermark, wall_time=0) for watermark in (0, 60))
    >>> one = trigger.on_elements(None, 1, [], now)
    >>> two = trigger.on_elements(one, 1, [], now)
    >>> trigger.should_fire(one, now), trigger.should_fire(two, now), trigger.should_fire(one, at_end)
    (False, True, True)
    """

    early: Trigger | None
    late: Trigger | None

    def __init__(self, early: Trigger | None = None, late: Trigger | None = None) -> None:
        object.__setattr__(self, "early", _repeated(early))
        object.__setattr__(self, "late", _repeated(late))

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after new elements, for the trigger of the current phase.

        If windows may merge, the early trigger is updated in the late phase too, because a merged window may be in its
        early phase again.
        """
        if progress is FINISHED:
            return progress
        is_late, early, late = _phase(progress)
        if self.early and (moment.merging or not is_late):
            early = self.early.on_elements(early, count, values, moment)
        if self.late and is_late:
            late = self.late.on_elements(late, count, values, moment)
        return _progress(is_late, early, late)

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The progress of the merged window: in the late phase only if all windows were and the merged one has ended.

        Otherwise the merged window is in its early phase.
        """
        going = [_phase(part) for part in parts if part is not FINISHED]
        if moment.past_end and all(is_late for is_late, _, _ in going):
            if self.late is None or not going:
                return FINISHED
            return _progress(True, None, self.late.on_merge([late for _, _, late in going], moment))
        early = self.early.on_merge([early for _, early, _ in going], moment) if self.early and going else None
        return _progress(False, early, None)

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the window has just ended, or the trigger of the current phase is ready to fire."""
        if progress is FINISHED:
            return False
        is_late, early, late = _phase(progress)
        if is_late:
            return self.late is not None and self.late.should_fire(late, moment)
        return moment.past_end or (self.early is not None and self.early.should_fire(early, moment))

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after a pane; the pane at the end of the window starts the late phase."""
        is_late, early, late = _phase(progress)
        if is_late and self.late:
            return _progress(True, None, self.late.on_fire(late, moment))
        if moment.past_end:
            return FINISHED if self.late is None else _progress(True, None, None)
        return _progress(False, self.early.on_fire(early, moment) if self.early else None, None)

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The next wall time at which the trigger of the current phase must be evaluated."""
        if progress is FINISHED:
            return None
        is_late, early, late = _phase(progress)
        trigger, part = (self.late, late) if is_late else (self.early, early)
        return trigger.wake_at(part, wall_time) if trigger else None

    def has_ontime_pane(self) -> bool:
        """Return True."""
        return True

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether elements may be late and no late trigger, or one that may finish, fires for them."""
        if allowed_lateness_us == 0:
            return False
        return self.late is None or self.late.may_finish(allowed_lateness_us)

    def continuation(self) -> AfterWatermark:
        """`AfterWatermark` with the continuations of its early and late triggers."""
        return AfterWatermark(
            early=self.early.continuation() if self.early else None,
            late=self.late.continuation() if self.late else None,
        )

    @property
    def quiet_until_end(self) -> bool:
        """Whether there is no early trigger."""
        return self.early is None

    @property
    def _subtriggers(self) -> tuple[Trigger, ...]:
        return tuple(part for part in (self.early, self.late) if part)


def _repeated(trigger: Trigger | None) -> Trigger | None:
    if not trigger:
        # Beam takes False, which is what `has_ontime_pane()` of a trigger gives, and anything else that is false.
        return None
    require_trigger("AfterWatermark", trigger)
    return trigger if isinstance(trigger, Repeatedly) else Repeatedly(trigger)


def _phase(progress: Progress) -> tuple[bool, Progress, Progress]:
    """Whether the window is in its late phase, and the progress of the early and of the late trigger."""
    return progress if isinstance(progress, tuple) else (False, None, None)


def _progress(is_late: bool, early: Progress, late: Progress) -> Progress:
    return (is_late, early, late) if is_late or early is not None else None
