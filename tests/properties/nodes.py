"""Triggers once more, as objects that change: written apart from the engine's, to check those by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from headrace.lowlevel.time import SECOND
from headrace.sdk import triggers
from headrace.sdk.triggers import Trigger


@dataclass(frozen=True)
class Now:
    """What can be known at a moment; microseconds UTC."""

    wall: int
    ended: bool
    """Whether the watermark has reached the end of the window."""
    merging: bool


class Node:
    """A trigger of one window, where it stands."""

    on_time: ClassVar[bool] = False
    """Whether such a trigger fires at the end of a window by itself."""

    def __init__(self, trigger: Any) -> None:
        self.trigger = trigger
        self.done = False

    def elements(self, values: Sequence[object], now: Now) -> None:
        pass

    def ready(self, now: Now) -> bool:
        raise NotImplementedError

    def fire(self, now: Now) -> None:
        self.done = True

    def times(self) -> list[int]:
        """Wall times at which it may become ready."""
        return []

    def has_on_time(self) -> bool:
        return self.on_time

    def join(self, others: Sequence[Any], now: Now) -> Self:
        """A new one in place of these."""
        return type(self)(self.trigger)


class Default(Node):
    on_time = True

    def ready(self, now: Now) -> bool:
        return now.ended

    def fire(self, now: Now) -> None:
        pass


class Always(Default):
    on_time = False

    def ready(self, now: Now) -> bool:
        return True


class Never(Always):
    def ready(self, now: Now) -> bool:
        return False


class Seen(Node):
    """A count, or elements of a kind."""

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger)
        self.seen = 0
        self.wanted: int = getattr(trigger, "count", 1)
        self.counts: Callable[[object], object] = getattr(trigger, "predicate", lambda value: True)

    def elements(self, values: Sequence[object], now: Now) -> None:
        self.seen += sum(1 for value in values if self.counts(value))

    def ready(self, now: Now) -> bool:
        return self.seen >= self.wanted

    def join(self, others: Sequence[Seen], now: Now) -> Self:
        new = type(self)(self.trigger)
        new.done = any(one.done for one in others)
        new.seen = sum(one.seen for one in others)
        return new


class Timed(Node):
    """A delay or a period."""

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger)
        self.at: int | None = None

    def elements(self, values: Sequence[object], now: Now) -> None:
        if self.at is None:
            if isinstance(self.trigger, triggers.AtPeriod):
                period, offset = round(self.trigger.every * SECOND), round(self.trigger.offset * SECOND)
                self.at = ((now.wall - offset) // period + 1) * period + offset
            else:
                self.at = now.wall + round(self.trigger.delay * SECOND)

    def ready(self, now: Now) -> bool:
        return self.at is not None and self.at <= now.wall

    def times(self) -> list[int]:
        return [] if self.done or self.at is None else [self.at]

    def join(self, others: Sequence[Timed], now: Now) -> Self:
        new = type(self)(self.trigger)
        new.done = all(one.done for one in others)
        times = [time for one in others for time in one.times()]
        new.at = min(times) if times else None
        return new


class Group(Node):
    """Several that all see the elements."""

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger)
        self.parts = [node_of(part) for part in trigger.triggers]

    def elements(self, values: Sequence[object], now: Now) -> None:
        for part in self.going():
            part.elements(values, now)

    def going(self) -> list[Node]:
        return [part for part in self.parts if not part.done]

    def times(self) -> list[int]:
        return [time for part in self.going() for time in part.times()]

    def has_on_time(self) -> bool:
        return any(part.has_on_time() for part in self.parts)

    def join(self, others: Sequence[Group], now: Now) -> Self:
        new = type(self)(self.trigger)
        columns = zip(*(one.states() for one in others), strict=True)
        new.parts = [column[0].join(column, now) for column in columns]
        new.done = new.finished()
        return new

    def states(self) -> list[Node]:
        """The parts, done if the whole is."""
        if self.done:
            for part in self.parts:
                part.done = True
        return self.parts

    def finished(self) -> bool:
        raise NotImplementedError


class Any_(Group):
    def ready(self, now: Now) -> bool:
        return any(part.ready(now) for part in self.going())

    def fire(self, now: Now) -> None:
        for part in self.going():
            if part.ready(now):
                part.fire(now)
        self.done = self.finished()

    def finished(self) -> bool:
        return any(part.done for part in self.parts)


class All(Group):
    def ready(self, now: Now) -> bool:
        return all(part.ready(now) for part in self.going())

    def fire(self, now: Now) -> None:
        for part in self.going():
            part.fire(now)
        self.done = self.finished()

    def finished(self) -> bool:
        return all(part.done for part in self.parts)


class Each(All):
    def going(self) -> list[Node]:
        return [part for part in self.parts if not part.done][:1]

    def join(self, others: Sequence[Group], now: Now) -> Self:
        new = type(self)(self.trigger)
        for turn, column in enumerate(zip(*(one.states() for one in others), strict=True)):
            new.parts[turn] = column[0].join(column, now)
            if not new.parts[turn].done:
                return new
        new.done = True
        return new


class Again(Node):
    """Repeats its trigger."""

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger)
        self.inner = node_of(trigger.underlying)

    def elements(self, values: Sequence[object], now: Now) -> None:
        self.inner.elements(values, now)

    def ready(self, now: Now) -> bool:
        return self.inner.ready(now)

    def fire(self, now: Now) -> None:
        self.inner.fire(now)
        self._renew()

    def times(self) -> list[int]:
        return self.inner.times()

    def has_on_time(self) -> bool:
        return self.inner.has_on_time()

    def join(self, others: Sequence[Again], now: Now) -> Self:
        new = type(self)(self.trigger)
        new.inner = self.inner.join([one.inner for one in others], now)
        new._renew()
        return new

    def _renew(self) -> None:
        if self.inner.done:
            self.inner = node_of(self.trigger.underlying)


class Watermark(Node):
    on_time = True

    def __init__(self, trigger: Any) -> None:
        super().__init__(trigger)
        self.late_phase = False
        self.early = node_of(trigger.early or triggers.Never())
        self.late = node_of(trigger.late or triggers.Never())

    def elements(self, values: Sequence[object], now: Now) -> None:
        if self.late_phase:
            self.late.elements(values, now)
        if not self.late_phase or now.merging:
            self.early.elements(values, now)

    def ready(self, now: Now) -> bool:
        if self.late_phase:
            return self.late.ready(now)
        return now.ended or self.early.ready(now)

    def fire(self, now: Now) -> None:
        if self.late_phase:
            self.late.fire(now)
            self.early = node_of(self.trigger.early or triggers.Never())
        elif not now.ended:
            self.early.fire(now)
        elif self.trigger.late is None:
            self.done = True
        else:
            self._end()

    def _end(self) -> None:
        self.late_phase = True
        self.early = node_of(self.trigger.early or triggers.Never())

    def times(self) -> list[int]:
        return (self.late if self.late_phase else self.early).times()

    def join(self, others: Sequence[Watermark], now: Now) -> Self:
        new = type(self)(self.trigger)
        going = [one for one in others if not one.done]
        if now.ended and all(one.late_phase for one in going):
            if not going or self.trigger.late is None:
                new.done = True
            else:
                new.late_phase = True
                new.late = self.late.join([one.late for one in going], now)
        elif going:
            new.early = self.early.join([one.early for one in going], now)
        return new


KINDS: dict[type[Trigger], type[Node]] = {
    triggers.DefaultTrigger: Default,
    triggers.Always: Always,
    triggers.Never: Never,
    triggers.AfterCount: Seen,
    triggers.AfterElement: Seen,
    triggers.AfterProcessingTime: Timed,
    triggers.AtPeriod: Timed,
    triggers.AfterAny: Any_,
    triggers.AfterAll: All,
    triggers.OrFinally: Any_,
    triggers.AfterEach: Each,
    triggers.Repeatedly: Again,
    triggers.AfterWatermark: Watermark,
}


def node_of(trigger: Trigger) -> Node:
    """A trigger at its beginning."""
    return KINDS[type(trigger)](trigger)
