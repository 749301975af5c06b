"""When: triggers that are made of other triggers (Streaming 102, listing 4 and "composite triggers")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.lowlevel.stored_names import named
from headrace.sdk.triggers.trigger import FINISHED, Moment, Progress, Trigger, require_trigger


@dataclass(frozen=True, slots=True, init=False)
class Composite(Trigger):
    """A trigger made of other triggers; its progress is None, `FINISHED`, or a tuple with the progress of each trigger.

    Without triggers, `AfterAll` fires at once and finishes, `AfterAny` and `AfterEach` never fire, as in Beam.

    Raises:
        TypeError: An argument is not a trigger.
    """

    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        for trigger in triggers:
            require_trigger(type(self).__name__, trigger)
        object.__setattr__(self, "triggers", triggers)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.triggers

    @property
    def _subtriggers(self) -> tuple[Trigger, ...]:
        return self.triggers

    def each(self, progress: Progress) -> Iterator[tuple[Trigger, Progress]]:
        """Pairs of each trigger and its progress."""
        return zip(self.triggers, self.parts(progress), strict=True)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """The progress of each trigger, in the order of `triggers`."""
        if isinstance(progress, tuple):
            return progress
        return (progress if progress is FINISHED else None,) * len(self.triggers)

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The earliest wall time at which one of the triggers must be evaluated; None if there is none."""
        times = (trigger.wake_at(part, wall_time) for trigger, part in self.each(progress))
        return min((time for time in times if time is not None), default=None)

    def has_ontime_pane(self) -> bool:
        """Whether one of the triggers has an on-time pane."""
        return any(trigger.has_ontime_pane() for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """The same composite of the triggers' continuations."""
        return type(self)(*(trigger.continuation() for trigger in self.triggers))


def joined(parts: Iterable[Progress], *, finished: bool) -> Progress:
    """The progress of a composite trigger from that of its triggers, in the smallest form.

    The result is `FINISHED` if `finished` is True, None if all `parts` are None, and else a tuple of the parts.
    """
    if finished:
        return FINISHED
    progress = tuple(parts)
    return progress if any(part is not None for part in progress) else None


@dataclass(frozen=True, slots=True, init=False)
class Parallel(Composite):
    """Base class of composite triggers whose triggers all receive every element."""

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after new elements, for each trigger that has not finished."""
        if progress is FINISHED:
            return progress
        return joined(
            (
                part if part is FINISHED else trigger.on_elements(part, count, values, moment)
                for trigger, part in self.each(progress)
            ),
            finished=False,
        )

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Merge the progress of each trigger separately."""
        columns = zip(*(self.parts(part) for part in parts), strict=True)
        return self._joined(
            [trigger.on_merge(column, moment) for trigger, column in zip(self.triggers, columns, strict=True)]
        )

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether enough triggers are ready to fire or have finished."""
        return progress is not FINISHED and self._enough(
            part is FINISHED or trigger.should_fire(part, moment) for trigger, part in self.each(progress)
        )

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after the firing of the triggers that are ready; the other triggers keep their progress."""
        return self._joined(
            [
                trigger.on_fire(part, moment) if trigger.should_fire(part, moment) else part
                for trigger, part in self.each(progress)
            ]
        )

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether enough triggers may finish."""
        return self._enough(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def _enough(self, flags: Iterable[bool]) -> bool:
        """Whether this trigger is ready, or has finished, from whether each of its triggers is or has."""
        raise TypeError(f"{type(self).__name__} does not say how many of its triggers must be ready")

    def _joined(self, parts: Sequence[Progress]) -> Progress:
        return joined(parts, finished=self._enough(part is FINISHED for part in parts))


@named("AfterAny")
@dataclass(frozen=True, slots=True, init=False)
class AfterAny(Parallel):
    """Fires when one of its triggers fires; finishes with the first trigger that finishes (Beam's `AfterAny`).

    >>> from headrace.transforms.trigger import AfterCount, AfterWatermark
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger = AfterAny(AfterCount(2), AfterWatermark())
    >>> trigger.should_fire(trigger.on_elements(None, 2, [], now), now)
    True
    """

    def _enough(self, flags: Iterable[bool]) -> bool:
        return any(flags)


@named("AfterAll")
@dataclass(frozen=True, slots=True, init=False)
class AfterAll(Parallel):
    """Fires when each of its triggers is ready to fire or has finished; finishes when all have (Beam's `AfterAll`).

    >>> from headrace.transforms.trigger import AfterCount, AfterWatermark
    >>> trigger = AfterAll(AfterCount(2), AfterWatermark())
    >>> now, at_end = (Moment(end=60, watermark=watermark, wall_time=0) for watermark in (0, 60))
    >>> two = trigger.on_elements(None, 2, [], now)
    >>> trigger.should_fire(two, now), trigger.should_fire(two, at_end)
    (False, True)
    """

    def _enough(self, flags: Iterable[bool]) -> bool:
        return all(flags)


@named("Repeatedly")
@dataclass(frozen=True, slots=True)
class Repeatedly(Trigger):
    """Starts its trigger again whenever that trigger has finished; never finishes.

    Raises TypeError if `underlying` is not a trigger.

    >>> from headrace.transforms.trigger import AfterCount
    >>> now, fires = Moment(end=60, watermark=0, wall_time=0), []
    >>> trigger, progress = Repeatedly(AfterCount(2)), None
    >>> for _ in range(4):
    ...     progress = trigger.on_elements(progress, 1, [], now)
    ...     fires.append(trigger.should_fire(progress, now))
    ...     progress = trigger.on_fire(progress, now) if fires[-1] else progress
    >>> fires
    [False, True, False, True]
    """

    underlying: Trigger

    def __post_init__(self) -> None:
        require_trigger("Repeatedly", self.underlying)

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress of the repeated trigger after new elements."""
        return self.underlying.on_elements(progress, count, values, moment)

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """The merged progress of the repeated trigger; None if that trigger has finished."""
        return _anew(self.underlying.on_merge(parts, moment))

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the repeated trigger is ready to fire."""
        return self.underlying.should_fire(progress, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress of the repeated trigger after the firing; None if that trigger has finished."""
        return _anew(self.underlying.on_fire(progress, moment))

    def wake_at(self, progress: Progress, wall_time: int) -> int | None:
        """The next wall time at which the repeated trigger must be evaluated."""
        return self.underlying.wake_at(progress, wall_time)

    def has_ontime_pane(self) -> bool:
        """Whether the repeated trigger has an on-time pane."""
        return self.underlying.has_ontime_pane()

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Return False: this trigger never finishes."""
        return False

    def continuation(self) -> Trigger:
        """`Repeatedly` of the continuation of the repeated trigger."""
        return Repeatedly(self.underlying.continuation())

    @property
    def quiet_until_end(self) -> bool:
        """Whether the repeated trigger is quiet until the end of the window."""
        return self.underlying.quiet_until_end

    @property
    def _subtriggers(self) -> tuple[Trigger, ...]:
        return (self.underlying,)


def _anew(progress: Progress) -> Progress:
    return None if progress is FINISHED else progress


@named("OrFinally")
@dataclass(frozen=True, slots=True, init=False)
class OrFinally(AfterAny):
    """Fires when one of its two triggers fires; finishes when one of them finishes (Beam's `OrFinally`).

    A second trigger that fires once (`AfterWatermark()`, `AfterCount`) fires the last pane. One that goes on after its
    first pane (`AfterWatermark(late=...)`) ends nothing, and late elements are emitted.

    >>> from headrace.sdk.triggers import FINISHED, AfterCount, AfterWatermark, Moment, Repeatedly
    >>> until_end = OrFinally(Repeatedly(AfterCount(2)), AfterWatermark())
    >>> progress = until_end.on_elements(None, 2, (), Moment(end=10, watermark=0, wall_time=0))
    >>> until_end.should_fire(progress, Moment(end=10, watermark=0, wall_time=0))
    True
    >>> until_end.on_fire(progress, Moment(end=10, watermark=10, wall_time=0)) is FINISHED
    True
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        super(OrFinally, self).__init__(main, until)

    def continuation(self) -> Trigger:
        """`Repeatedly` of the two continuations, so that the next grouping emits all panes, the last one included."""
        return Repeatedly(OrFinally(*(trigger.continuation() for trigger in self.triggers)))


@named("AfterEach")
@dataclass(frozen=True, slots=True, init=False)
class AfterEach(Composite):
    """Runs its triggers in turn, each until it has finished; finishes with the last trigger (Beam's `AfterEach`).

    The progress is a tuple: the index of the current trigger, and the progress of that trigger.

    >>> from headrace.transforms.trigger import AfterCount
    >>> now = Moment(end=60, watermark=0, wall_time=0)
    >>> trigger = AfterEach(AfterCount(1), Repeatedly(AfterCount(3)))
    >>> fired = trigger.on_fire(trigger.on_elements(None, 1, [], now), now)
    >>> [trigger.should_fire(trigger.on_elements(fired, count, [], now), now) for count in (1, 3)]
    [False, True]
    """

    def on_elements(self, progress: Progress, count: int, values: Sequence[object], moment: Moment) -> Progress:
        """The progress after new elements, for the current trigger."""
        if progress is FINISHED or not self.triggers:
            return progress
        turn, part = _turn(progress)
        return _at(turn, self.triggers[turn].on_elements(part, count, values, moment))

    def on_merge(self, parts: Sequence[Progress], moment: Moment) -> Progress:
        """Continue with the first trigger that has not finished after the merge; the triggers after it start again."""
        for turn, trigger in enumerate(self.triggers):
            merged = trigger.on_merge([self.parts(part)[turn] for part in parts], moment)
            if merged is not FINISHED:
                return _at(turn, merged)
        return FINISHED if self.triggers else None

    def should_fire(self, progress: Progress, moment: Moment) -> bool:
        """Whether the current trigger is ready to fire."""
        if progress is FINISHED or not self.triggers:
            return False
        turn, part = _turn(progress)
        return self.triggers[turn].should_fire(part, moment)

    def on_fire(self, progress: Progress, moment: Moment) -> Progress:
        """The progress after the firing; the next trigger starts if the current one has finished."""
        turn, part = _turn(progress)
        fired = self.triggers[turn].on_fire(part, moment)
        if fired is not FINISHED:
            return _at(turn, fired)
        return FINISHED if turn + 1 == len(self.triggers) else (turn + 1, None)

    def parts(self, progress: Progress) -> Sequence[Progress]:
        """The progress of each trigger: `FINISHED` before the current trigger, None after it."""
        if progress is FINISHED:
            return (FINISHED,) * len(self.triggers)
        turn, part = _turn(progress)
        return (*(FINISHED,) * turn, part, *(None,) * (len(self.triggers) - turn - 1))

    def may_finish(self, allowed_lateness_us: int) -> bool:
        """Whether all triggers may finish."""
        return bool(self.triggers) and all(trigger.may_finish(allowed_lateness_us) for trigger in self.triggers)

    def continuation(self) -> Trigger:
        """`Repeatedly` of `AfterAny` of the continuations: the next grouping emits each pane."""
        return Repeatedly(AfterAny(*(trigger.continuation() for trigger in self.triggers)))


def _turn(progress: Progress) -> tuple[int, Progress]:
    return progress if isinstance(progress, tuple) else (0, None)


def _at(turn: int, part: Progress) -> Progress:
    return (turn, part) if turn or part is not None else None
